package discovery

import (
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// maxTargets bounds one scan: a /16.
const maxTargets = 65536

// Target is one BMC to ask.
type Target struct {
	// Address is as it goes into the inventory: a host, host:port or a URL.
	Address string
	// Endpoint is host:port in one form, for comparison and connecting.
	Endpoint string
}

// ParseTargets reads what people give for a set of BMCs: CIDR prefixes, hosts,
// host:port and https:// URLs, separated by commas; or the name of a file with
// one such item a line, where # begins a comment. port is for addresses
// without one; 443 when 0. The targets keep the order given, each once. readFile
// is os.ReadFile or what stands for it, isFile tells a file's name.
func ParseTargets(spec string, port uint16, isFile func(string) bool, readFile func(string) ([]byte, error)) ([]Target, error) {
	items := strings.Split(spec, ",")
	if isFile(spec) {
		content, err := readFile(spec)
		if err != nil {
			return nil, fmt.Errorf("read the list of BMCs: %w", err)
		}
		items = lines(string(content))
	}
	t := targets{port: port, seen: map[string]bool{}}
	if t.port == 0 {
		t.port = 443
	}
	for _, item := range items {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		if err := t.add(item); err != nil {
			return nil, err
		}
	}
	if len(t.list) == 0 {
		return nil, errors.New("no BMC is named: give a CIDR like 10.0.0.0/28, a list of addresses, or a file with one a line")
	}
	return t.list, nil
}

// lines are those of a file without their comments.
func lines(content string) []string {
	var items []string
	for line := range strings.Lines(strings.TrimPrefix(content, "\ufeff")) {
		line, _, _ = strings.Cut(line, "#")
		items = append(items, strings.Split(line, ",")...)
	}
	return items
}

// targets collects targets, each once.
type targets struct {
	port uint16
	list []Target
	seen map[string]bool
}

func (t *targets) add(item string) error {
	if strings.Contains(item, "/") && !strings.Contains(item, "://") {
		return t.addPrefix(item)
	}
	endpoint, err := Endpoint(item, t.port)
	if err != nil {
		return err
	}
	address := strings.TrimRight(item, "/")
	if !hasPort(address) && t.port != 443 {
		address = endpoint
	}
	return t.append(Target{address, endpoint})
}

// addPrefix takes every address of the prefix: what is the first and the last
// one of it need not be those of the network.
func (t *targets) addPrefix(item string) error {
	prefix, err := netip.ParsePrefix(item)
	if err != nil {
		return fmt.Errorf("%q is neither a CIDR like 10.0.0.0/28 nor a file that exists: correct it", item)
	}
	prefix = prefix.Masked()
	const bits = 16
	if size := prefix.Addr().BitLen() - prefix.Bits(); size > bits {
		return fmt.Errorf("%s has %s addresses, at most %d are scanned at once: give a smaller network", prefix, new(big.Int).Lsh(big.NewInt(1), uint(size)), maxTargets)
	}
	for a := prefix.Addr(); prefix.Contains(a); a = a.Next() {
		endpoint := net.JoinHostPort(a.String(), strconv.Itoa(int(t.port)))
		address := a.String()
		if t.port != 443 {
			address = endpoint
		}
		if err := t.append(Target{address, endpoint}); err != nil {
			return err
		}
	}
	return nil
}

func (t *targets) append(target Target) error {
	if t.seen[target.Endpoint] {
		return nil
	}
	if len(t.list) == maxTargets {
		return fmt.Errorf("more than %d BMCs are named: scan them in parts", maxTargets)
	}
	t.seen[target.Endpoint] = true
	t.list = append(t.list, target)
	return nil
}

var hostname = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\.?$`)

// Endpoint is a BMC's address as host:port in one form, so that two spellings
// of one address are equal. port is for an address without one.
func Endpoint(address string, port uint16) (string, error) {
	u, err := parse(address)
	if err != nil {
		return "", err
	}
	host := u.Hostname()
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	} else if host = strings.TrimSuffix(strings.ToLower(host), "."); !hostname.MatchString(host) {
		return "", errors.New("a BMC's address has no usable host: write it like 10.0.0.11, bmc-01.example.com:443 or https://10.0.0.11")
	}
	if u.Port() != "" {
		number, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || number == 0 {
			return "", fmt.Errorf("the BMC's address %s has the port %s: give 1 to 65535", host, u.Port())
		}
		port = uint16(number)
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), nil
}

// parse reads an address as a URL. Errors do not repeat it when it may hold a
// password (I9).
func parse(address string) (*url.URL, error) {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		address = "[" + address + "]"
	}
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("a BMC's address cannot be read: write it like 10.0.0.11, bmc-01.example.com:443 or https://10.0.0.11")
	case u.User != nil:
		return nil, fmt.Errorf("the BMC's address of %s holds a user or a password: give --username, and --password-env or --password-file", u.Hostname())
	case u.Scheme != "https":
		return nil, fmt.Errorf("the BMC's address of %s does not use HTTPS, so that the password would travel in the clear: write https://%s", u.Hostname(), u.Host)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the BMC's address of %s has a path after the host: leave it out", u.Hostname())
	}
	return u, nil
}

func hasPort(address string) bool {
	u, err := parse(address)
	return err == nil && u.Port() != ""
}
