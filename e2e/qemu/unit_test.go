package qemu

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

func TestBootOrderFollowsTargetAndDefault(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		target                string
		networkFirst, network bool
	}{
		{target: "Pxe", network: true},
		{target: "Pxe", networkFirst: true, network: true},
		{target: "UefiHttp", network: true},
		{target: "Hdd", networkFirst: true},
		{target: ""},
		{target: "", networkFirst: true, network: true},
		{target: "Cd"},
	} {
		network, disk := bootOrder(tt.target, tt.networkFirst)
		if got := network < disk; got != tt.network || network == disk {
			t.Errorf("target %q, network first %v: network %d, disk %d", tt.target, tt.networkFirst, network, disk)
		}
	}
}

func TestIdentityReachesQEMUWithItsCommas(t *testing.T) {
	t.Parallel()
	m := &Machine{tap: "tap0", config: Config{
		Name: "a,b", Serial: "S,1", BoardSerial: "B,1", ChassisSerial: "C,1", Manufacturer: "Acme, Inc.", Product: "R1",
		UUID: "11223344-5566-7788-99aa-bbccddeeff00",
	}}
	args := m.args(redfishtest.Boot{Target: "Pxe"}, "/x,y/serial-1.log", "romfile=")
	for _, want := range []string{
		"a,,b",
		"type=1,manufacturer=Acme,, Inc.,product=R1,serial=S,,1,uuid=11223344-5566-7788-99aa-bbccddeeff00",
		"type=2,manufacturer=Acme,, Inc.,serial=B,,1",
		"type=3,manufacturer=Acme,, Inc.,serial=C,,1",
		"file,id=serial,path=/x,,y/serial-1.log",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("no argument %q in %q", want, args)
		}
	}
}

func TestSerialLogIsPlainText(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "serial.log")
	raw := "\x1bc\x1b[?7l\x1b[2J\x1b[01;01HBdsDxe\x1b[0m: loading\r\r\n\x00next\r\n\x1b=end"
	if err := os.WriteFile(path, []byte(raw), 0o600); err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(readSerial(path))
	if diff := cmp.Diff([]string{"BdsDxe:", "loading", "next", "end"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := readSerial(path + ".none"); got != "" {
		t.Errorf("a missing log reads as %q", got)
	}
}

func TestMonitorTellsResetFromPowerOff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, lines string
		reset       bool
		err         error
	}{
		{name: "reset", lines: `{"timestamp":{},"event":"RTC_CHANGE"}` + "\n" + `{"event":"SHUTDOWN","data":{"guest":true,"reason":"guest-reset"}}` + "\n", reset: true},
		{name: "power off", lines: `{"event":"SHUTDOWN","data":{"guest":true,"reason":"guest-shutdown"}}` + "\n"},
		{name: "QEMU died", lines: `{"event":"RESUME"}` + "\n", err: io.EOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			reset, err := newMonitor(strings.NewReader(tt.lines)).shutdown()
			if reset != tt.reset || !errors.Is(err, tt.err) {
				t.Errorf("reset = %v, error = %v, want %v, %v", reset, err, tt.reset, tt.err)
			}
		})
	}
}

func TestROMDeviceReadsThePCIData(t *testing.T) {
	t.Parallel()
	rom := make([]byte, 0x40)
	rom[0x18] = 0x1c
	copy(rom[0x1c:], "PCIR\xf4\x1a\x41\x10")
	if got, err := romDevice(rom); err != nil || got != 0x1041 {
		t.Errorf("device = %#x, %v, want 0x1041", got, err)
	}
	for _, bad := range [][]byte{nil, rom[:0x1e], make([]byte, 0x40)} {
		if _, err := romDevice(bad); err == nil {
			t.Errorf("% x was taken as an option ROM", bad)
		}
	}
}

func TestTagsAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	frame := []byte("\x01\x02\x03\x04\x05\x06\x0a\x0b\x0c\x0d\x0e\x0f\x08\x00payload")
	tagged := tag(frame, 1234)
	if diff := cmp.Diff([]byte("\x01\x02\x03\x04\x05\x06\x0a\x0b\x0c\x0d\x0e\x0f\x81\x00\x04\xd2\x08\x00payload"), tagged); diff != "" {
		t.Errorf("tagged (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(frame, untag(tagged, 1234)); diff != "" {
		t.Errorf("untagged again (-want +got):\n%s", diff)
	}
	for name, got := range map[string][]byte{
		"another VLAN's frame": untag(tagged, 1235),
		"a frame without tag":  untag(frame, 1234),
		"a stump with tag":     untag(tagged[:14], 1234),
		"a stump without tag":  tag(frame[:5], 1234),
	} {
		if got != nil {
			t.Errorf("%s passes as % x", name, got)
		}
	}
}
