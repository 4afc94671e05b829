package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func (b *bench) nginx() server {
	_ = b.write("nginx.conf", []byte(fmt.Sprintf(`worker_processes 2; pid nginx.pid; error_log nginx.err; daemon off; user root; events { worker_connections 4096; }
http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
 server { listen %s:8080; root tftp; } }
`, serverAddress))) // a missing file makes nginx fail, loudly
	return server{name: "nginx", network: "tcp", port: 8080, args: []string{"nginx", "-p", b.dir, "-c", b.path("nginx.conf")}}
}

func benchHTTP(ctx context.Context, b *bench) error {
	servers := []server{b.nginx(), b.bootserver("tcp", 8080)}
	count := 200
	if b.quick {
		count = 20
	}
	results, err := b.compare(ctx, servers, func(r *running) (transfers, error) {
		const url = "http://" + serverAddress + ":8080/image/" + imagePath
		// The first machine of a run has the file read and its SHA-256 checked for all of them.
		if _, err := b.fetch(ctx, r, perFile, url, imageSize, 1, 1); err != nil {
			return transfers{}, err
		}
		return b.fetch(ctx, r, perFile, url, imageSize, count, 200)
	})
	if err != nil {
		return err
	}
	b.speeds(fmt.Sprintf("HTTP: %d x 100 MiB, all at once, every transfer counted", count), "HTTP", servers, results)
	return nil
}

// nodes is the size of the inventory that scripts are served for.
const nodes = 10_000

// requests is what wrk says of one run.
type requests struct {
	rate float64 // a second
	p99  time.Duration
}

// benchScript asks for boot scripts of all nodes in turn, and of nginx for files
// of the same size: a server that looks a script up by the machine's MAC as a
// file, without a decision, could not be quicker.
func benchScript(ctx context.Context, b *bench) error {
	if err := b.scripts(); err != nil {
		return err
	}
	servers := []server{b.nginx(), b.bootserver("tcp", 8080, "-nodes", strconv.Itoa(nodes))}
	lua := []string{"nginx.lua", "ours.lua"}
	best := make([]requests, len(servers))
	for range b.rounds {
		for i, s := range servers {
			r, err := b.begin(ctx, s)
			if err != nil {
				return err
			}
			got, err := b.wrk(ctx, lua[i])
			r.stop()
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			_, _ = fmt.Fprintf(b.log, "%s: %.0f requests/s, p99 %s, load %s\n", s.name, got.rate, got.p99, load())
			if got.rate > best[i].rate {
				best[i] = got
			}
		}
	}
	rows := [][]string{{"boot scripts", "requests/s", "p99 ms", "ours / it"}}
	for i, r := range best {
		rows = append(rows, []string{
			[]string{"nginx, a file a MAC", "provision"}[i], fmt.Sprintf("%.0f", r.rate),
			fmt.Sprintf("%.2f", float64(r.p99)/float64(time.Millisecond)), ratio(best[1].rate, r.rate),
		})
	}
	b.table(fmt.Sprintf("Boot scripts: %d nodes in the inventory, 64 connections of wrk", nodes), rows)
	return nil
}

// scripts writes what the two servers are asked, and nginx's files.
func (b *bench) scripts() error {
	script := []byte("#!ipxe\n# " + strings.Repeat("x", 300) + "\nexit 1\n")
	for i := range nodes {
		if err := b.write(fmt.Sprintf("tftp/scripts/0c-c4-7a-%02x-%02x-%02x", byte(i>>16), byte(i>>8), byte(i)), script); err != nil {
			return err
		}
	}
	const count = `local i = 0
request = function()
  i = (i + 7) % ` + "10000" + `
  return wrk.format("GET", `
	const mac = `"0c-c4-7a-%02x-%02x-%02x"`
	err := b.write("nginx.lua", []byte(count+`string.format("/scripts/" .. `+mac+`, math.floor(i / 65536), math.floor(i / 256) % 256, i % 256))
end
`))
	if err != nil {
		return err
	}
	return b.write("ours.lua", []byte(count+`string.format("/boot.ipxe?serial=SYS%05d&board-serial=BRD%05d&uuid=7a1e0000-0000-4000-8000-%012x&mac=" .. `+mac+` .. "&asset=&manufacturer=Acme%%20%%26%%20Co&product=R1&arch=x86_64&platform=efi", i, i, i + 1, math.floor(i / 65536), math.floor(i / 256) % 256, i % 256))
end
`))
}

var (
	wrkRate = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	wrkP99  = regexp.MustCompile(`99%\s+([0-9.]+[a-z]+)`)
	wrkBad  = regexp.MustCompile(`Non-2xx or 3xx responses: \d+|Socket errors: .*`)
)

func (b *bench) wrk(ctx context.Context, lua string) (requests, error) {
	seconds := 5
	if b.quick {
		seconds = 1
	}
	out, err := b.client(ctx, fmt.Sprintf("wrk -t 1 -c 64 -d %ds --latency -s %s http://%s:8080", seconds, b.path(lua), serverAddress))
	if err != nil {
		return requests{}, err
	}
	if bad := wrkBad.FindString(out); bad != "" {
		return requests{}, fmt.Errorf("wrk: %s", bad)
	}
	rate, p99 := wrkRate.FindStringSubmatch(out), wrkP99.FindStringSubmatch(out)
	if rate == nil || p99 == nil {
		return requests{}, fmt.Errorf("wrk gave no result: %s", lastLine(out))
	}
	var r requests
	r.rate, _ = strconv.ParseFloat(rate[1], 64) // the pattern allows numbers only
	r.p99, err = time.ParseDuration(p99[1])
	return r, err
}
