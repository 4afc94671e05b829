package qemu

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

func TestNetworkIsReachableOnlyFromInside(t *testing.T) {
	t.Parallel()
	need(t)
	ctx := testContext(t)
	network := newTestNetwork(ctx, t, NetworkConfig{
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.98.0.1/24"), netip.MustParsePrefix("10.98.1.1/24")},
		VLANs:     []VLAN{{ID: 1234, Address: netip.MustParsePrefix("10.99.0.1/24")}, {ID: 7}},
	})
	for _, host := range []string{"127.0.0.1", "10.98.0.1", "10.98.1.1", "10.99.0.1"} {
		listener, err := network.Listen(ctx, "tcp", host+":8443")
		if err != nil {
			t.Fatalf("listening on %s inside: %v", host, err)
		}
		go func() {
			if conn, err := listener.Accept(); err == nil {
				_, _ = io.WriteString(conn, "hello")
				_ = conn.Close()
			}
		}()
		conn, err := network.Dial(ctx, "tcp", host+":8443")
		if err != nil {
			t.Fatalf("dialling %s inside: %v", host, err)
		}
		if text, err := io.ReadAll(conn); err != nil || string(text) != "hello" {
			t.Errorf("%s says %q, %v", host, text, err)
		}
		_ = conn.Close()
		_ = listener.Close()
	}
	if _, err := network.Dial(ctx, "tcp", "localhost:8443"); err == nil || !strings.Contains(err.Error(), "IP address") {
		t.Errorf("dialling a name: error = %v, want one that asks for an address", err)
	}
	links, err := network.Command(ctx, "ip", "-br", "addr").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"br0.1234", "10.99.0.1/24", "br0.7"} {
		if !strings.Contains(string(links), want) {
			t.Errorf("no %s in:\n%s", want, links)
		}
	}
	if _, err := os.Stat("/sys/class/net/br0.1234"); err == nil {
		t.Error("br0.1234 exists outside of the namespace")
	}
}

func TestProcessStopAsksFirst(t *testing.T) {
	t.Parallel()
	need(t)
	ctx := testContext(t)
	network := newTestNetwork(ctx, t, NetworkConfig{})
	// The shell answers Ctrl-C with its own exit status; it says when it is ready for it.
	cmd := network.Command(ctx, "sh", "-c", "trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done")
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	process, err := network.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	err = process.Stop(time.Minute)
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("ended with %v, want exit status 7", err)
	}
	if err := process.Kill(); err != nil {
		t.Errorf("killing a process that has ended: %v", err)
	}
}

// A test process that is killed leaves no machine behind, and the next one
// removes its namespace.
func TestMachinesDieWithTheTestProcess(t *testing.T) {
	t.Parallel()
	need(t)
	ctx := testContext(t)
	helper := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHelperAbandonsAMachine$", "-test.v")
	helper.Env = append(os.Environ(), abandonEnv+"="+t.TempDir())
	helper.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	process, err := startProcess(helper)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	var namespace string
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if n, _ := fmt.Sscanf(lines.Text(), "machine %d namespace %s", &pid, &namespace); n == 2 {
			break
		}
	}
	if pid == 0 || !alive(pid) {
		t.Fatalf("the helper started no machine (process %d)", pid)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	for alive(pid) {
		select {
		case <-ctx.Done():
			t.Fatalf("the machine's process %d outlives the test process", pid)
		case <-time.After(logPoll):
		}
	}
	newTestNetwork(ctx, t, NetworkConfig{})
	if exists("/run/netns/" + namespace) {
		t.Errorf("the namespace %s of a dead process is still there", namespace)
	}
}

const abandonEnv = "PROVISION_E2E_ABANDON" // the machine's folder

func TestHelperAbandonsAMachine(t *testing.T) {
	dir := os.Getenv(abandonEnv)
	if dir == "" {
		t.Skip("a process that another test starts and kills")
	}
	network, err := NewNetwork(t.Context(), NetworkConfig{})
	if err != nil {
		t.Fatal(err)
	}
	machine, err := NewMachine(t.Context(), network, Config{Name: "abandoned", Dir: dir, Firmware: BIOS, MAC: "52:54:00:12:34:99"})
	if err != nil {
		t.Fatal(err)
	}
	if err := machine.PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("machine %d namespace %s\n", machine.run.process.PID(), network.Name())
	time.Sleep(time.Hour) // until killed
}
