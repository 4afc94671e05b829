package tftp

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

// Opcodes of RFC 1350 and RFC 2347.
const (
	opRead    = 1
	opWrite   = 2
	opData    = 3
	opAck     = 4
	opError   = 5
	opOptions = 6

	headerSize = 4 // opcode, and block number or error code
)

// refusal is an ERROR packet. Its text is read by strangers, so it never holds a
// path of this host.
type refusal struct {
	code uint16
	text string
}

// The refusals. EDK2 and iPXE show the text; the codes are of RFC 1350.
var (
	refuseBusy      = refusal{0, "server is busy, try again"}
	refuseStopping  = refusal{0, "server is shutting down, try again"}
	refuseMissing   = refusal{1, "file not found"}
	refuseWrite     = refusal{2, "access violation: this server is read-only"}
	refuseMalformed = refusal{4, "malformed request"}
	refuseMode      = refusal{4, "unknown mode, use octet"}
)

// packet encodes the refusal.
func (r refusal) packet() []byte {
	b := binary.BigEndian.AppendUint16(nil, opError)
	b = binary.BigEndian.AppendUint16(b, r.code)
	return append(append(b, r.text...), 0)
}

// request is a parsed read request with what was negotiated.
type request struct {
	name     string // as the client sent it
	netascii bool
	block    int           // bytes of a block
	window   int           // blocks sent before an ACK is awaited (RFC 7440)
	timeout  time.Duration // asked for by the client; 0 leaves it to the server
	accepted []accepted    // in the order asked
}

// accepted is an option that the OACK repeats: with the client's own spelling of
// the name, because clients have compared it with case.
type accepted struct{ name, value string }

// Bounds of the options.
const (
	defaultBlock  = 512
	smallestBlock = 8 // RFC 2348
	// largestBlock fills one Ethernet frame: 1,500 less the IPv4, UDP and TFTP
	// headers. Fragments are what PXE ROMs cope with worst.
	largestBlock = 1468
	// largestWindow bounds the burst that one ACK sets off. More than 64 breaks
	// clients (u-root#1966); EDK2 asks for 4.
	largestWindow  = 32
	longestTimeout = 255 // seconds, RFC 2349
)

// optionSize is the name of the option whose value is known only with the file.
const optionSize = "tsize"

// options are those understood: the values that the RFCs allow, and what to do
// with one; it returns the value that is granted.
var options = map[string]struct {
	least, most int
	grant       func(*request, int) int
}{
	"blksize": {smallestBlock, 65535, func(r *request, n int) int { // above 65464 is clamped like the rest
		r.block = min(n, largestBlock)
		return r.block
	}},
	"windowsize": {1, 65535, func(r *request, n int) int {
		r.window = min(n, largestWindow)
		return r.window
	}},
	"timeout": {1, longestTimeout, func(r *request, n int) int {
		r.timeout = time.Duration(n) * time.Second
		return n
	}},
	optionSize: {0, 1 << 40, func(_ *request, n int) int { return n }},
}

// parseRequest parses what arrived at the well-known port. Without request and
// refusal the packet gets no answer: it is no request at all.
func parseRequest(payload []byte) (*request, *refusal) {
	if len(payload) < 2 {
		return nil, nil
	}
	switch binary.BigEndian.Uint16(payload) {
	case opWrite:
		return nil, &refuseWrite
	case opRead:
	default:
		return nil, nil
	}
	fields := strings.Split(string(payload[2:]), "\x00")
	// What follows the last NUL is no field.
	if fields = fields[:len(fields)-1]; len(fields) < 2 {
		return nil, &refuseMalformed
	}
	r := &request{name: fields[0], block: defaultBlock, window: 1}
	switch strings.ToLower(fields[1]) {
	case "octet":
	case "netascii":
		r.netascii = true
	default:
		return nil, &refuseMode
	}
	r.negotiate(fields[2:])
	return r, nil
}

// negotiate accepts options: names and values in turn, names in any case. An
// option with a value that is not allowed is left out of the OACK, and the
// client goes on without it (RFC 2347).
func (r *request) negotiate(fields []string) {
	seen := map[string]bool{}
	for ; len(fields) >= 2; fields = fields[2:] {
		name := strings.ToLower(fields[0])
		option, known := options[name]
		value, err := strconv.Atoi(fields[1])
		if !known || err != nil || seen[name] || value < option.least || value > option.most {
			continue
		}
		seen[name] = true
		r.accepted = append(r.accepted, accepted{fields[0], strconv.Itoa(option.grant(r, value))})
	}
}

// oack is the answer to the options, nil when none was accepted: then the first
// block answers. It holds nothing that was not asked for: UEFI refuses an
// unrequested tsize (node-tftp#13).
func (r *request) oack(size int) []byte {
	if len(r.accepted) == 0 {
		return nil
	}
	b := binary.BigEndian.AppendUint16(nil, opOptions)
	for _, o := range r.accepted {
		value := o.value
		if strings.EqualFold(o.name, optionSize) {
			value = strconv.Itoa(size)
		}
		b = append(append(b, o.name...), 0)
		b = append(append(b, value...), 0)
	}
	return b
}

// asksSize reports whether the client wants to know the size of the file.
func (r *request) asksSize() bool {
	for _, o := range r.accepted {
		if strings.EqualFold(o.name, optionSize) {
			return true
		}
	}
	return false
}
