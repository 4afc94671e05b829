package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"time"
)

// The files of the benchmarks, in bytes. The small ones have the names of iPXE
// binaries, since TFTP serves no other.
const (
	smallFile, smallSize = "snponly.efi", 284_672
	largeFile, largeSize = "ipxe-amd64.efi", 1 << 20
	imageSize            = 100 << 20
	schematic            = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
	imagePath            = schematic + "/v1.13.9/kernel-amd64"
)

// files makes what is served.
func (b *bench) files() error {
	for name, size := range map[string]int{"tftp/" + smallFile: smallSize, "tftp/" + largeFile: largeSize, "cache/" + imagePath: imageSize} {
		content := make([]byte, size)
		_, _ = rand.Read(content) // never fails (crypto/rand)
		if size < imageSize {
			copy(content, "autoexec.ipxe") // an iPXE of today
		}
		if err := b.write(name, content); err != nil {
			return err
		}
		if size == imageSize {
			sum := sha256.Sum256(content)
			if err := b.write(name+".sha256", []byte(hex.EncodeToString(sum[:])+"  kernel-amd64\n")); err != nil {
				return err
			}
		}
	}
	// The image for nginx, below its root.
	if err := os.Symlink(b.path("cache"), b.path("tftp/image")); err != nil {
		return err
	}
	return b.write("tftp/undionly.kpxe", bytes.Repeat([]byte{0x90}, 1<<10))
}

// transfers is what one load came to.
type transfers struct {
	bytes   float64
	wall    time.Duration
	cpu     time.Duration // of the server
	clients time.Duration // processor time of the clients
	longest time.Duration
}

func (t transfers) speed() float64 { return t.bytes / 1e6 / t.wall.Seconds() }

// thrift is megabytes for a second of the server's processor time.
func (t transfers) thrift() float64 { return t.perSecond(t.cpu) }

// total is megabytes for a second of processor time of either side: who carries
// a packet through the kernel, and pays for it, changes from case to case.
func (t transfers) total() float64 { return t.perSecond(t.cpu + t.clients) }

func (t transfers) perSecond(cpu time.Duration) float64 {
	if cpu == 0 {
		return 0
	}
	return t.bytes / 1e6 / cpu.Seconds()
}

// perFile starts a curl for each transfer, as many at a time as there are to be.
// shared has a few of them make all, which leaves more of the machine to the
// server; each writes to a file of its own, so that no line is torn.
const (
	perFile = "seq %[1]d | xargs -P %[2]d -I{} curl -s -o /dev/null -w '%%{size_download} %%{time_total}\\n' %[3]s"
	shared  = "rm -f curl.*; for one in $(seq %[4]d); do seq $((%[1]d / %[4]d)) | sed 's|.*|url = \"%[3]s\"\\noutput = \"/dev/null\"|' | " +
		"curl -s -Z --parallel-max $((%[2]d / %[4]d)) --tftp-blksize 1468 -w '%%{size_download} %%{time_total}\\n' -K - " +
		">curl.$one 2>/dev/null & done; wait; cat curl.*" // its meter, which -s does not silence with -Z
)

// fetch has a command make `count` transfers and checks that each was whole.
func (b *bench) fetch(ctx context.Context, r *running, command string, size, count int) (transfers, error) {
	before, start := r.processor(), time.Now()
	out, clients, err := b.timedClient(ctx, command)
	if err != nil {
		return transfers{}, err
	}
	t := transfers{wall: time.Since(start), cpu: r.processor() - before, clients: clients}
	whole := 0
	for line := range bytes.Lines([]byte(out)) {
		var got int
		var seconds float64
		if _, err := fmt.Sscan(string(line), &got, &seconds); err == nil && got == size {
			whole++
			t.longest = max(t.longest, time.Duration(seconds*float64(time.Second)))
		}
	}
	if whole != count {
		return t, fmt.Errorf("%d of %d transfers of %s were complete: %s", whole, count, command, lastLine(out))
	}
	t.bytes = float64(size) * float64(count)
	return t, nil
}

func benchTFTP(ctx context.Context, b *bench) error {
	servers := []server{
		{name: "dnsmasq", network: "udp", port: 69, args: []string{
			"dnsmasq", "--conf-file=/dev/null", "-k", "--user=root", "--pid-file=", "--port=0", "--interface=" + serverDevice, "--bind-interfaces",
			"--enable-tftp", "--tftp-root=" + b.path("tftp"), "--tftp-max=1000", "--quiet-tftp", "--log-facility=" + b.path("dnsmasq.log"),
		}},
		{name: "tftpd-hpa", network: "udp", port: 69, args: []string{"in.tftpd", "-L", "-a", serverAddress + ":69", "-u", "root", "-s", b.path("tftp")}},
		b.bootserver("udp", 69),
	}
	for _, load := range []struct {
		name                 string
		size, count, clients int
	}{{smallFile, smallSize, 1000, 1}, {smallFile, smallSize, 1000, 4}, {largeFile, largeSize, 400, 1}, {largeFile, largeSize, 400, 4}} {
		if b.quick {
			load.count = 100
		}
		command := fmt.Sprintf(shared, load.count, 100, "tftp://"+serverAddress+"/"+load.name, load.clients)
		results, err := b.compare(ctx, servers, func(r *running) (transfers, error) {
			return b.fetch(ctx, r, command, load.size, load.count)
		})
		if err != nil {
			return err
		}
		b.speeds(fmt.Sprintf("TFTP: %d x %d bytes, 100 at once, curls: %d, blocks of 1468", load.count, load.size, load.clients), "TFTP", servers, results)
	}
	return nil
}

// compare measures every server in every round, so that what else the machine
// does meets them all, and keeps the best of each.
func (b *bench) compare(ctx context.Context, servers []server, measure func(*running) (transfers, error)) ([]transfers, error) {
	best := make([]transfers, len(servers))
	for range b.rounds {
		for i, s := range servers {
			r, err := b.begin(ctx, s)
			if err != nil {
				return nil, err
			}
			t, err := measure(r)
			r.stop()
			if err != nil {
				return nil, fmt.Errorf("%s: %w: %s", s.name, err, lastLine(r.errors.String()))
			}
			_, _ = fmt.Fprintf(b.log, "%s: %.0f MB/s, %.0f MB per CPU-second of the server, %.0f of all, longest %s, load %s\n", s.name, t.speed(), t.thrift(), t.total(), t.longest.Round(time.Millisecond), load())
			if best[i].wall == 0 || t.speed() > best[i].speed() {
				best[i] = t
			}
		}
	}
	return best, nil
}

// speeds prints transfers; the last server is ours.
func (b *bench) speeds(title, what string, servers []server, results []transfers) {
	ours := results[len(results)-1]
	rows := make([][]string, 0, 1+len(results))
	rows = append(rows, []string{what, "MB/s", "longest s", "MB per CPU-second", "clients' included", "speed: ours / it", "CPU: ours / it", "clients' included"})
	for i, r := range results {
		rows = append(rows, []string{
			servers[i].name, fmt.Sprintf("%.0f", r.speed()), fmt.Sprintf("%.2f", r.longest.Seconds()), fmt.Sprintf("%.0f", r.thrift()), fmt.Sprintf("%.0f", r.total()),
			ratio(ours.speed(), r.speed()), ratio(ours.thrift(), r.thrift()), ratio(ours.total(), r.total()),
		})
	}
	b.table(title, rows)
}
