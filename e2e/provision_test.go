package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/qemu"
	"github.com/talos-provision/provision/e2e/qemu/disk"
)

// board is the configuration of one board of a chassis whose boards share both of its serials.
func board(name string, number int, firmware qemu.Firmware) qemu.Config {
	return qemu.Config{
		Name: name, Firmware: firmware,
		Serial: "S100000X0000001", ChassisSerial: "C100000AA000001",
		BoardSerial: fmt.Sprintf("ZM000S%06d", number),
		UUID:        fmt.Sprintf("7a1e0000-0000-4000-8000-0000000000%02x", number),
	}
}

// Two boards of one chassis are installed, one of them on a VLAN; a third one
// of it, which is not marked, boots its own disk although its firmware tries
// the network first (I3).
func TestBoardsOfOneChassisGetTheirOwnArguments(t *testing.T) {
	for name, second := range map[string]qemu.Firmware{"two UEFI": qemu.UEFI, "UEFI and BIOS": qemu.BIOS} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.add(board("node-01", 1, qemu.UEFI), "ip: 10.99.0.11\ngateway: 10.99.0.1\nvlan: 1234\ninterface: "+s.vlanInterface()+"\ninstall: true\n")
			s.add(board("node-02", 2, second), "ip: 10.98.0.12\ngateway: 10.98.0.1\ninstall: true\n")
			bystander := board("node-03", 3, second)
			bystander.DefaultNetworkFirst = true
			s.add(bystander, "ip: 10.98.0.13\ngateway: 10.98.0.1\nserial: S100000X0000001\nboardSerial: ZM000S000003\n")

			run := s.start()
			run.until("PowerCycled")
			third := s.servers["node-03"]
			if err := third.PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
				t.Fatal(err)
			}
			last, status := run.finish()
			if status != 0 {
				t.Errorf("exit status %d, want 0", status)
			}

			arguments := map[string]string{
				"node-01": strings.ReplaceAll("ip=10.99.0.11::10.99.0.1:255.255.255.0:node-01:NIC.1234::1.1.1.1:8.8.8.8:10.98.0.1 vlan=NIC.1234:NIC talos.platform=metal", "NIC", s.vlanInterface()),
				"node-02": "ip=10.98.0.12::10.98.0.1:255.255.255.0:node-02:eth0::1.1.1.1:8.8.8.8:10.98.0.1 talos.platform=metal",
			}
			for node, want := range arguments {
				if e := last[node]; e.State != "Maintenance" {
					t.Errorf("%s ended %s: %s %s", node, e.State, e.Message, e.Error)
				}
				if console := s.servers[node].SerialLog(); !strings.Contains(console, want) {
					t.Errorf("the kernel of %s was not started with %q", node, want)
				}
				if n := s.servers[node].BMC.PowerOns(); n != 1 {
					t.Errorf("%s was powered on %d times, want 1", node, n)
				}
			}
			waiting, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if err := third.WaitForLog(waiting, disk.Marker); err != nil {
				t.Errorf("node-03 did not boot its own disk: %v", err)
			}
			if !strings.Contains(run.log(), `node=metal/node-03 boots="local boot"`) {
				t.Errorf("node-03 was not recognised and sent to its disk:\n%s", run.log())
			}
			if _, touched := last["node-03"]; touched || len(third.BMC.Resets()) > 0 {
				t.Errorf("node-03 was touched: %+v, resets %v", last["node-03"], third.BMC.Resets())
			}
			for node, server := range s.servers {
				if n := server.BMC.OpenSessions(); n != 0 {
					t.Errorf("%d BMC sessions of %s are open", n, node)
				}
			}
		})
	}
}

// I8: the controller is killed after the power cycle and started again. It
// finishes, and the machine was power cycled once.
func TestI8AKilledControllerFinishesWithOnePowerCycle(t *testing.T) {
	s := newSite(t)
	s.add(board("node-01", 1, qemu.UEFI), "ip: 10.98.0.11\ngateway: 10.98.0.1\ninstall: true\n")

	first := s.start()
	first.until("PowerCycled")
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	last, status := s.start().finish()
	if e := last["node-01"]; status != 0 || e.State != "Maintenance" {
		t.Errorf("exit status %d, node-01 ended %s: %s %s", status, e.State, e.Message, e.Error)
	}
	server := s.servers["node-01"]
	if n := server.BMC.PowerOns(); n != 1 {
		t.Errorf("powered on %d times, want 1; resets %v", n, server.BMC.Resets())
	}
	if n := len(server.Boots()); n != 1 {
		t.Errorf("booted %d times, want 1: %+v", n, server.Boots())
	}
}
