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
		if _, err := b.fetch(ctx, r, fmt.Sprintf(perFile, 1, 1, url), imageSize, 1); err != nil {
			return transfers{}, err
		}
		return b.fetch(ctx, r, fmt.Sprintf(perFile, count, 200, url), imageSize, count)
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
	rate     float64 // a second
	p50, p99 time.Duration
}

// pressures are how wrk asks. At full load each of few connections asks as soon
// as it has its answer. In the other case, machines in any number ask when they
// like: each of the connections waits for a random time before it asks, so that
// all of them together ask a little more than 20,000 times a second and none is
// in step with another. What the answers take is then up to the server.
var pressures = []struct {
	name, lua   string
	connections int
}{
	{"full load", "", 64},
	{"20,000/s", "delay = function() return math.random(0, 17) end\n", 200},
}

// benchScript asks for boot scripts of all nodes in turn, and of nginx for files
// of the same size: a server that looks a script up by the machine's MAC as a
// file, without a decision, could not be quicker.
func benchScript(ctx context.Context, b *bench) error {
	if err := b.scripts(); err != nil {
		return err
	}
	servers := []server{b.nginx(), b.bootserver("tcp", 8080, "-nodes", strconv.Itoa(nodes))}
	rows := [][]string{{"boot scripts", "", "requests/s", "p50 ms", "p99 ms", "rate: ours / it"}}
	for p, pressure := range pressures {
		best := make([]requests, len(servers))
		for range b.rounds {
			for i, s := range servers {
				got, err := b.wrk(ctx, s, fmt.Sprintf("-c %d -s %s", pressure.connections, b.path(luaFile(i, p))))
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				_, _ = fmt.Fprintf(b.log, "%s, %s: %.0f requests/s, p99 %s, load %s\n", s.name, pressure.name, got.rate, got.p99, load())
				if pressure.lua == "" && got.rate > best[i].rate || pressure.lua != "" && (best[i].p99 == 0 || got.p99 < best[i].p99) {
					best[i] = got
				}
			}
		}
		for i, r := range best {
			rows = append(rows, []string{
				[]string{"nginx, a file a MAC", "provision"}[i], pressure.name, fmt.Sprintf("%.0f", r.rate),
				milliseconds(r.p50), milliseconds(r.p99), ratio(best[1].rate, r.rate),
			})
		}
	}
	b.table(fmt.Sprintf("Boot scripts: %d nodes in the inventory", nodes), rows)
	return nil
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond))
}

// luaFile names wrk's script for a server and a pressure.
func luaFile(server, pressure int) string { return fmt.Sprintf("wrk-%d-%d.lua", server, pressure) }

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
	for server, path := range []string{
		`string.format("/scripts/" .. ` + mac + `, math.floor(i / 65536), math.floor(i / 256) % 256, i % 256))
end
`,
		`string.format("/boot.ipxe?serial=SYS%05d&board-serial=BRD%05d&uuid=7a1e0000-0000-4000-8000-%012x&mac=" .. ` + mac + ` .. "&asset=&manufacturer=Acme%%20%%26%%20Co&product=R1&arch=x86_64&platform=efi", i, i, i + 1, math.floor(i / 65536), math.floor(i / 256) % 256, i % 256))
end
`,
	} {
		for p, pressure := range pressures {
			if err := b.write(luaFile(server, p), []byte(count+path+pressure.lua)); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	wrkRate = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	wrkP50  = regexp.MustCompile(`50%\s+([0-9.]+[a-z]+)`)
	wrkP99  = regexp.MustCompile(`99%\s+([0-9.]+[a-z]+)`)
	wrkBad  = regexp.MustCompile(`Non-2xx or 3xx responses: \d+|Socket errors: .*`)
)

// wrk starts a server and measures it once.
func (b *bench) wrk(ctx context.Context, s server, how string) (requests, error) {
	running, err := b.begin(ctx, s)
	if err != nil {
		return requests{}, err
	}
	defer running.stop()
	seconds := 5
	if b.quick {
		seconds = 1
	}
	out, err := b.client(ctx, fmt.Sprintf("wrk -t 1 %s -d %ds --latency http://%s:8080", how, seconds, serverAddress))
	if err != nil {
		return requests{}, err
	}
	if bad := wrkBad.FindString(out); bad != "" {
		return requests{}, fmt.Errorf("wrk: %s", bad)
	}
	var r requests
	rate := wrkRate.FindStringSubmatch(out)
	if rate == nil {
		return r, fmt.Errorf("wrk gave no result: %s", lastLine(out))
	}
	r.rate, _ = strconv.ParseFloat(rate[1], 64) // the pattern allows numbers only
	for pattern, value := range map[*regexp.Regexp]*time.Duration{wrkP50: &r.p50, wrkP99: &r.p99} {
		m := pattern.FindStringSubmatch(out)
		if m == nil {
			return r, fmt.Errorf("wrk gave no latencies: %s", lastLine(out))
		}
		if *value, err = time.ParseDuration(m[1]); err != nil {
			return r, err
		}
	}
	return r, nil
}
