package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// reservations is how many machines have a fixed address, and how many clients perfdhcp plays.
const reservations = 1000

// rates are what perfdhcp asks for, in 4-way exchanges a second. A server's
// figure is the highest that it keeps up with.
var rates = []int{500, 1000, 2000, 4000, 6000, 8000, 10000, 12000, 14000}

// exchange is what perfdhcp says of one run.
type exchange struct {
	asked int
	got   float64 // finished 4-way exchanges a second
	drops int     // of both halves
	delay float64 // average of OFFER and ACK together, ms
}

// clean tells whether every exchange that was begun was finished.
func (e exchange) clean() bool { return e.drops == 0 && e.got > 0.8*float64(e.asked) }

func benchDHCP(ctx context.Context, b *bench) error {
	servers := []server{b.dnsmasqDHCP(), b.kea(), b.bootserver("udp", 67, "-reservations", strconv.Itoa(reservations), "-leases", b.path("leases-ours"))}
	rows := [][]string{{"DHCP", "4-way/s without drops", "most 4-way/s", "drops there", "OFFER + ACK ms at the first", "CPU µs an exchange", "ours / it"}}
	var all []dhcpResult
	for _, s := range servers {
		r, err := b.ladder(ctx, s)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	ours := all[len(all)-1]
	for i, r := range all {
		rows = append(rows, []string{
			servers[i].name, fmt.Sprintf("%.0f", r.sustained.got), fmt.Sprintf("%.0f", r.most.got), strconv.Itoa(r.most.drops),
			fmt.Sprintf("%.2f", r.sustained.delay), fmt.Sprintf("%.0f", r.cost), ratio(ours.sustained.got, r.sustained.got),
		})
	}
	b.table(fmt.Sprintf("DHCP: perfdhcp as a relay, %d clients, %d reservations, leases on disk", reservations, reservations), rows)
	return nil
}

// dhcpResult is the best of a server's rungs.
type dhcpResult struct {
	sustained, most exchange
	cost            float64 // processor time of the server for one exchange at the sustained rate, µs
}

// ladder raises the rate until the server falls behind twice.
func (b *bench) ladder(ctx context.Context, s server) (dhcpResult, error) {
	var best dhcpResult
	behind := 0
	for _, rate := range rates {
		clean := false
		for range b.rounds {
			e, cost, err := b.rung(ctx, s, rate)
			if err != nil {
				return best, err
			}
			_, _ = fmt.Fprintf(b.log, "%s: asked %d, got %.0f, %d drops, load %s\n", s.name, rate, e.got, e.drops, load())
			if e.got > best.most.got {
				best.most = e
			}
			if e.clean() && e.got > best.sustained.got {
				best.sustained, best.cost, clean = e, cost, true
			}
			if clean {
				break // once is enough to show that it can
			}
		}
		if clean {
			behind = 0
		} else if behind++; behind == 2 {
			break
		}
	}
	return best, nil
}

// rung is one run of perfdhcp on a server with no leases.
func (b *bench) rung(ctx context.Context, s server, rate int) (exchange, float64, error) {
	for _, name := range []string{"leases-ours", "leases-dnsmasq", "leases-kea.csv"} {
		if err := os.RemoveAll(b.path(name)); err != nil {
			return exchange{}, 0, err
		}
	}
	r, err := b.begin(ctx, s)
	if err != nil {
		return exchange{}, 0, err
	}
	defer r.stop()
	before, seconds := r.processor(), 5
	if b.quick {
		seconds = 2
	}
	command := fmt.Sprintf("perfdhcp -4 -l %s -R %d -r %d -p %d -W 300000 %s", clientAddress, reservations, rate, seconds, serverAddress)
	out, err := b.client(ctx, command)
	e, parsed := parseExchange(out, rate)
	if ctx.Err() != nil {
		return exchange{}, 0, ctx.Err()
	}
	if !parsed {
		return exchange{}, 0, fmt.Errorf("%s: perfdhcp gave no result: %w", s.name, err) // with drops, its status is not 0
	}
	spent := r.processor() - before
	return e, float64(spent/time.Microsecond) / (e.got * float64(seconds)), nil
}

var (
	rateLine  = regexp.MustCompile(`Rate: ([0-9.]+) 4-way exchanges/second`)
	dropLine  = regexp.MustCompile(`(?m)^drops: (\d+)`)
	delayLine = regexp.MustCompile(`avg delay: ([0-9.]+) ms`)
)

func parseExchange(out string, asked int) (exchange, bool) {
	e := exchange{asked: asked}
	m := rateLine.FindStringSubmatch(out)
	if m == nil {
		return e, false
	}
	e.got, _ = strconv.ParseFloat(m[1], 64) // the pattern allows numbers only
	for _, m := range dropLine.FindAllStringSubmatch(out, -1) {
		n, err := strconv.Atoi(m[1])
		if err == nil {
			e.drops += n
		}
	}
	for _, m := range delayLine.FindAllStringSubmatch(out, -1) {
		ms, err := strconv.ParseFloat(m[1], 64)
		if err == nil {
			e.delay += ms
		}
	}
	return e, true
}

// hosts are the reservations: perfdhcp counts its MACs up from 00:0c:01:02:03:04.
func hosts(each func(mac, ip string)) {
	for i := range reservations {
		n := 0x02030400 + 4 + i
		each(fmt.Sprintf("00:0c:01:%02x:%02x:%02x", byte(n>>16), byte(n>>8), byte(n)), fmt.Sprintf("10.99.%d.%d", (10<<8+i+1)>>8, byte(i+1)))
	}
}

func (b *bench) dnsmasqDHCP() server {
	var text strings.Builder
	hosts(func(mac, ip string) { fmt.Fprintf(&text, "%s,%s\n", mac, ip) })
	_ = b.write("hosts", []byte(text.String())) // a missing file makes dnsmasq fail, loudly
	return server{name: "dnsmasq", network: "udp", port: 67, args: []string{
		"dnsmasq", "--conf-file=/dev/null", "-k", "--user=root", "--pid-file=", "--port=0", "--interface=" + serverDevice, "--bind-interfaces",
		"--dhcp-range=10.99.1.0,10.99.250.254,255.255.0.0,1h", "--dhcp-lease-max=100000", "--dhcp-hostsfile=" + b.path("hosts"),
		"--dhcp-leasefile=" + b.path("leases-dnsmasq"), "--log-facility=" + b.path("dnsmasq.log"), "--quiet-dhcp", "--dhcp-authoritative", "--no-ping",
	}}
}

func (b *bench) kea() server {
	type host struct {
		MAC string `json:"hw-address"`
		IP  string `json:"ip-address"`
	}
	var reserved []host
	hosts(func(mac, ip string) { reserved = append(reserved, host{mac, ip}) })
	config := map[string]any{"Dhcp4": map[string]any{
		"interfaces-config": map[string]any{"interfaces": []string{serverDevice}, "dhcp-socket-type": "udp"},
		"lease-database":    map[string]any{"type": "memfile", "persist": true, "lfc-interval": 0, "name": b.path("leases-kea.csv")},
		"multi-threading":   map[string]any{"enable-multi-threading": true, "thread-pool-size": 2, "packet-queue-size": 64},
		"valid-lifetime":    3600,
		"subnet4": []any{map[string]any{
			"id": 1, "subnet": "10.99.0.0/16", "pools": []any{map[string]string{"pool": "10.99.1.0-10.99.250.254"}}, "reservations": reserved,
		}},
	}}
	text, err := json.Marshal(config)
	if err == nil {
		_ = b.write("kea.json", text) // a missing file makes Kea fail, loudly
	}
	return server{
		name: "Kea", network: "udp", port: 67, args: []string{"kea-dhcp4", "-c", b.path("kea.json")},
		env: []string{"KEA_PIDFILE_DIR=" + b.dir, "KEA_LOCKFILE_DIR=" + b.dir, "KEA_LOGGER_DESTINATION=/dev/null"},
	}
}
