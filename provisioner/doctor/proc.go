package doctor

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// socket is a line of /proc/net/udp or /proc/net/tcp (proc(5)).
type socket struct {
	local netip.AddrPort
	inode string
}

// listening is the state that a TCP socket must have to be in the way; UDP
// knows none.
const listening = "0A"

// sockets lists the UDP sockets or the TCP listeners of this network namespace.
// What cannot be read is left out: the port is tried as well.
func sockets(proc, network string) []socket {
	var found []socket
	for _, file := range []string{network, network + "6"} {
		text, err := os.ReadFile(filepath.Join(proc, "net", file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || (network == "tcp" && fields[3] != listening) {
				continue
			}
			if local, ok := parseAddress(fields[1]); ok {
				found = append(found, socket{local: local, inode: fields[9]})
			}
		}
	}
	return found
}

// parseAddress reads ADDRESS:PORT in hexadecimal. The kernel prints addresses as
// words of 32 bits in the machine's own byte order.
func parseAddress(text string) (netip.AddrPort, bool) {
	address, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	if err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	number, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(addr, uint16(number)), ok && err == nil
}

// process is who holds a socket.
type process struct {
	pid     int
	name    string // as ps shows it
	program string // the path of its executable; empty when not readable
}

// holderOf finds the process that has a socket open. Without root, only the
// user's own processes can be seen.
func holderOf(proc, inode string) (process, bool) {
	want := "socket:[" + inode + "]"
	tables, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd"))
	if err != nil {
		return process{}, false
	}
	for _, table := range tables {
		files, err := os.ReadDir(table)
		if err != nil {
			continue // not ours to see, or gone meanwhile
		}
		for _, file := range files {
			if target, err := os.Readlink(filepath.Join(table, file.Name())); err == nil && target == want {
				return describe(filepath.Dir(table)), true
			}
		}
	}
	return process{}, false
}

func describe(dir string) process {
	p := process{name: "a program"}
	p.pid, _ = strconv.Atoi(filepath.Base(dir)) // the pattern allows digits first only
	if name, err := os.ReadFile(filepath.Join(dir, "comm")); err == nil {
		p.name = strings.TrimSpace(string(name))
	}
	p.program, _ = os.Readlink(filepath.Join(dir, "exe")) // empty when not readable
	return p
}
