package firmware_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	tftp "github.com/pin/tftp/v3"

	"github.com/talos-provision/provision/e2e/firmware"
)

// lab is a small boot server with sockets of its own on 127.0.0.1.
type lab struct {
	t     *testing.T
	relay *firmware.Relay
	// files are what TFTP serves; pages what HTTP serves, by path.
	files, pages map[string]string
	// answer makes changes to a DHCP reply; nil from it means silence.
	answer func(request, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4
	// serve, if set, answers HTTP instead of pages.
	serve http.HandlerFunc

	tftpPort int
	httpURL  string

	mu       sync.Mutex
	packets  []*dhcpv4.DHCPv4 // of clients
	tftpRead []string
	httpFrom map[string]bool // source IPs
	urls     []string
}

const program = "the network boot program"

// newLab binds its sockets, lets setup change what is served, and serves.
func newLab(t *testing.T, setup ...func(*lab)) *lab {
	t.Helper()
	l := &lab{t: t, files: map[string]string{}, pages: map[string]string{}, httpFrom: map[string]bool{}}
	l.files["snponly.efi"], l.files["undionly.kpxe"] = program, program
	l.answer = func(_, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 { return reply }
	serveHTTP, serveTFTP, serveDHCP := l.startHTTP(), l.startTFTP(), l.startDHCP()
	for _, change := range setup {
		change(l)
	}
	go serveHTTP()
	go serveTFTP()
	go serveDHCP()
	return l
}

// machine is a machine of this lab with a fast clock.
func (l *lab) machine(platform string) firmware.Machine {
	return firmware.Machine{
		MAC: "52:54:00:12:34:56", UUID: "11223344-5566-7788-99AA-BBCCDDEEFF00", Serial: "SN 0001/A", BoardSerial: "BRD#1",
		Manufacturer: "Acme & Co", Product: "R1", Platform: platform,
		TFTPPort: l.tftpPort, TimeScale: 0.001, Timeout: 30 * time.Second,
	}
}

func (l *lab) boot(m firmware.Machine) (firmware.Outcome, error) {
	l.t.Helper()
	outcome, err := m.NetworkBoot(l.t.Context(), l.relay)
	l.t.Cleanup(func() {
		if l.t.Failed() {
			for _, step := range outcome.Steps {
				l.t.Log(step)
			}
		}
	})
	return outcome, err
}

func (l *lab) startDHCP() (serve func()) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		l.t.Fatal(err)
	}
	server := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	l.relay, err = firmware.NewRelay(netip.MustParseAddrPort("127.0.0.1:0"), server)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = l.relay.Close(); _ = conn.Close() })
	return func() {
		buffer := make([]byte, 2048)
		for {
			n, _, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			request, err := dhcpv4.FromBytes(bytes.Clone(buffer[:n]))
			if err != nil {
				continue
			}
			l.mu.Lock()
			l.packets = append(l.packets, request)
			l.mu.Unlock()
			if reply := l.answer(request, l.reply(request)); reply != nil {
				_, _ = conn.WriteToUDPAddrPort(reply.ToBytes(), l.relay.Addr())
			}
		}
	}
}

// reply is what a plain DHCP server with boot options says. The address ends in the MAC's last byte.
func (l *lab) reply(request *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	kind := dhcpv4.MessageTypeOffer
	if request.MessageType() == dhcpv4.MessageTypeRequest {
		kind = dhcpv4.MessageTypeAck
	}
	file := "snponly.efi"
	if arch := request.Options.Get(dhcpv4.OptionClientSystemArchitectureType); bytes.Equal(arch, []byte{0, 0}) {
		file = "undionly.kpxe"
	}
	modifiers := []dhcpv4.Modifier{
		dhcpv4.WithMessageType(kind),
		dhcpv4.WithServerIP(net.IPv4(127, 0, 0, 1)),
		dhcpv4.WithYourIP(net.IPv4(127, 66, 0, request.ClientHWAddr[5])),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(127, 0, 0, 1))),
		dhcpv4.WithNetmask(net.CIDRMask(8, 32)),
		dhcpv4.WithLeaseTime(3600),
	}
	if request.Options.Has(dhcpv4.OptionUserClassInformation) {
		file = l.httpURL + "/boot.ipxe?mac=${mac:hexhyp}"
		modifiers = append(modifiers, dhcpv4.WithGeneric(dhcpv4.GenericOptionCode(175), []byte{176, 1, 1}))
	}
	modifiers = append(modifiers, dhcpv4.WithOption(dhcpv4.OptBootFileName(file+"\x00")))
	reply, err := dhcpv4.NewReplyFromRequest(request, modifiers...)
	if err != nil {
		l.t.Error(err)
	}
	return reply
}

func (l *lab) startTFTP() (serve func()) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		l.t.Fatal(err)
	}
	l.tftpPort = conn.LocalAddr().(*net.UDPAddr).Port
	server := tftp.NewServer(func(name string, r io.ReaderFrom) error {
		l.mu.Lock()
		l.tftpRead = append(l.tftpRead, name)
		l.mu.Unlock()
		body, ok := l.files[name]
		if !ok {
			return os.ErrNotExist
		}
		r.(tftp.OutgoingTransfer).SetSize(int64(len(body)))
		_, err := r.ReadFrom(bytes.NewReader([]byte(body)))
		return err
	}, nil)
	server.SetTimeout(300 * time.Millisecond)
	var done sync.WaitGroup
	done.Add(1)
	l.t.Cleanup(func() {
		server.Shutdown() // not the socket's Close: Serve would spin on its errors
		done.Wait()
	})
	return func() {
		defer done.Done()
		_ = server.Serve(conn)
	}
}

func (l *lab) startHTTP() (serve func()) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	l.httpURL = "http://" + listener.Addr().String()
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		l.httpFrom[host] = true
		l.urls = append(l.urls, r.URL.String())
		l.mu.Unlock()
		page := l.pages[r.URL.Path]
		switch {
		case l.serve != nil:
			l.serve(w, r)
		case page == "":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Header().Set("Content-Length", strconv.Itoa(len(page)))
			_, _ = io.WriteString(w, page)
		}
	})}
	l.t.Cleanup(func() { _ = server.Close() })
	return func() { _ = server.Serve(listener) }
}

// seen is a copy of what the lab's servers saw.
func (l *lab) seen() (packets []*dhcpv4.DHCPv4, tftpRead, urls []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(packets, l.packets...), append(tftpRead, l.tftpRead...), append(urls, l.urls...)
}
