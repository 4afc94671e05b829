package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/pin/tftp/v3"
	"golang.org/x/sys/unix"
)

// A boot server as small as can be: it answers every client with one address
// and the files of one folder. It runs as a process of its own, this test
// binary once more, since its sockets must all be inside the namespace.
const (
	bootServerEnv  = "PROVISION_E2E_BOOT_SERVER" // the folder to serve
	bootServerIP   = "10.98.0.1"
	bootClientIP   = "10.98.0.100"
	bootServerURL  = "http://" + bootServerIP + ":8080/"
	bootServerName = "boot.ipxe"
)

func startBootServer(ctx context.Context, t *testing.T, network *Network, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := network.Command(ctx, self)
	cmd.Env = append(os.Environ(), bootServerEnv+"="+dir)
	if _, err := network.Start(cmd); err != nil {
		t.Fatal(err)
	}
	// A machine asks again when nobody listens yet, but slowly.
	for {
		conn, err := network.Dial(ctx, "tcp", bootServerIP+":8080")
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the boot server does not start: %v", err)
		case <-time.After(logPoll):
		}
	}
}

// TestMain lets this binary be the boot server in place of its tests.
func TestMain(m *testing.M) {
	if dir := os.Getenv(bootServerEnv); dir != "" {
		fmt.Fprintln(os.Stderr, "boot server:", serveBoot(context.Background(), dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveBoot serves until it is killed, or one of its parts fails.
func serveBoot(ctx context.Context, dir string) error {
	failed := make(chan error, 3)
	go func() { failed <- serveDHCP(ctx) }()
	go func() {
		server := tftp.NewServer(func(name string, to io.ReaderFrom) error {
			file, err := os.Open(filepath.Join(dir, filepath.Base(name)))
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }()
			_, err = to.ReadFrom(file)
			return err
		}, nil)
		failed <- server.ListenAndServe(bootServerIP + ":69")
	}()
	server := &http.Server{Addr: bootServerIP + ":8080", Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: time.Minute}
	go func() { failed <- server.ListenAndServe() }()
	return <-failed
}

func serveDHCP(ctx context.Context) error {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var bind, broadcast error
		err := raw.Control(func(fd uintptr) {
			bind = unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, Bridge)
			broadcast = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
		})
		return errors.Join(err, bind, broadcast)
	}}
	conn, err := config.ListenPacket(ctx, "udp4", ":67")
	if err != nil {
		return err
	}
	buffer := make([]byte, 4096)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		request, err := dhcpv4.FromBytes(buffer[:n])
		if err != nil {
			continue
		}
		reply, err := dhcpReply(request)
		if err != nil {
			return err
		}
		if _, err := conn.WriteTo(reply.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: 68}); err != nil {
			return err
		}
	}
}

func dhcpReply(request *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	answer := dhcpv4.MessageTypeOffer
	if request.MessageType() == dhcpv4.MessageTypeRequest {
		answer = dhcpv4.MessageTypeAck
	}
	server := net.ParseIP(bootServerIP)
	reply, err := dhcpv4.NewReplyFromRequest(request,
		dhcpv4.WithMessageType(answer),
		dhcpv4.WithYourIP(net.ParseIP(bootClientIP)),
		dhcpv4.WithServerIP(server),
		dhcpv4.WithNetmask(net.CIDRMask(24, 32)),
		dhcpv4.WithLeaseTime(3600),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(server)))
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(request.ClassIdentifier(), "PXEClient") {
		return reply, nil // an operating system
	}
	file := "undionly.kpxe"
	if arch := request.ClientArch(); len(arch) > 0 && arch[0] == iana.EFI_X86_64 {
		file = "snponly.efi"
	}
	if strings.Contains(string(request.Options.Get(dhcpv4.OptionUserClassInformation)), "iPXE") {
		file = bootServerURL + bootServerName
	}
	reply.BootFileName = file
	reply.UpdateOption(dhcpv4.OptBootFileName(file + "\x00"))
	return reply, nil
}

// copyInto puts a file into the served folder.
func copyInto(ctx context.Context, t *testing.T, dir, path string) {
	t.Helper()
	if text, err := exec.CommandContext(ctx, "cp", "-L", path, dir).CombinedOutput(); err != nil {
		t.Skipf("%s is missing, run e2e/deps.sh: %s", path, text)
	}
}
