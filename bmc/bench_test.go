package bmc

import (
	"context"
	"crypto/tls"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// BenchmarkFleet identifies and arms 1,000 BMCs that answer after 50 ms each, 32
// at a time. The limit is what the BMCs' latency alone would take:
// requests x latency / parallel. The client's share is the rest, together with
// the emulated BMCs and both sides of TLS, which run in this process.
//
// Run it alone: go test -run '^$' -bench Fleet -benchtime 1x ./bmc
func BenchmarkFleet(b *testing.B) {
	const (
		bmcs     = 1000
		parallel = 32
		latency  = 50 * time.Millisecond
	)
	shared := trust(b)
	services := startFleet(b, bmcs, latency, shared.certificate)
	var requests int
	var peak int
	var heap uint64
	for b.Loop() {
		seen := 0
		for _, s := range services {
			seen -= len(s.Requests())
		}
		stop := watch(&peak, &heap)
		fleet(b, services, parallel, shared.fingerprint)
		stop()
		for _, s := range services {
			seen += len(s.Requests())
		}
		requests = seen
	}
	limit := time.Duration(requests) * latency / parallel
	each := b.Elapsed() / time.Duration(b.N)
	b.ReportMetric(float64(requests)/bmcs, "requests/BMC")
	b.ReportMetric(limit.Seconds(), "limit-s")
	b.ReportMetric(each.Seconds(), "wall-s")
	b.ReportMetric(each.Seconds()/limit.Seconds(), "x-limit")
	b.ReportMetric(float64(peak), "goroutines-peak")
	b.ReportMetric(float64(heap>>10), "heap-KiB-peak")
}

func startFleet(b *testing.B, n int, latency time.Duration, certificate *tls.Certificate) []*redfishtest.Service {
	b.Helper()
	profile := redfishtest.Supermicro()
	services := make([]*redfishtest.Service, 0, n)
	for range n {
		h := hardware(profile)
		h.Username, h.Password, h.Certificate, h.Latency = testUser, testPassword, certificate, latency
		s := redfishtest.New(h)
		if err := s.Start("127.0.0.1:0"); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(s.Close)
		services = append(services, s)
	}
	return services
}

// fleet identifies and arms every service, so many at a time.
func fleet(b *testing.B, services []*redfishtest.Service, parallel int, fingerprint string) {
	b.Helper()
	work := make(chan *redfishtest.Service)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for s := range work {
				if err := identifyAndArm(b.Context(), s.URL(), fingerprint); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for _, s := range services {
		work <- s
	}
	close(work)
	wg.Wait()
}

func identifyAndArm(ctx context.Context, address, fingerprint string) (err error) {
	c, err := Dial(ctx, Config{Address: address, Username: testUser, Password: testPassword, Fingerprint: fingerprint})
	if err != nil {
		return err
	}
	defer func() {
		if left := c.Close(ctx); err == nil {
			err = left
		}
	}()
	if _, err := c.Identify(ctx); err != nil {
		return err
	}
	_, err = c.ArmNetworkBoot(ctx)
	return err
}

// watch notes the most goroutines and the largest heap at a time, those of the
// emulated BMCs among them, until it is stopped.
func watch(goroutines *int, heap *uint64) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			*goroutines, *heap = max(*goroutines, runtime.NumGoroutine()), max(*heap, m.HeapAlloc)
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() { close(done); <-ended }
}
