package qemu

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// VLAN is a tagged network on the bridge: the sub-interface br0.<ID> with an address.
type VLAN struct {
	// ID is the VLAN number, 1 to 4094.
	ID uint16
	// Address is the host's on that network, e.g. 10.99.0.1/24.
	Address netip.Prefix
}

// name is what the sub-interface is called.
func (v VLAN) name() string { return fmt.Sprintf("%s.%d", Bridge, v.ID) }

// trunk is the port of the bridge that the sub-interface hangs on.
func (v VLAN) trunk() string { return fmt.Sprintf("trunk%d", v.ID) }

// tagger is a VLAN sub-interface made of two taps and this process, which adds
// and removes the tags between them. Kernels of virtual machines and containers
// often lack the 8021q module, and a guest's VLAN must be testable there too.
type tagger struct {
	trunk, access *os.File
	running       sync.WaitGroup
}

// startTagger makes both taps; it must run inside the namespace.
func startTagger(vlan VLAN) (*tagger, error) {
	trunk, err := openTap(vlan.trunk())
	if err != nil {
		return nil, err
	}
	access, err := openTap(vlan.name())
	if err != nil {
		_ = trunk.Close()
		return nil, err
	}
	t := &tagger{trunk: trunk, access: access}
	t.running.Go(func() {
		relay(trunk, access, func(frame []byte) []byte { return untag(frame, vlan.ID) })
	})
	t.running.Go(func() {
		relay(access, trunk, func(frame []byte) []byte { return tag(frame, vlan.ID) })
	})
	return t, nil
}

// close removes both taps, which exist as long as they are open.
func (t *tagger) close() {
	_ = t.trunk.Close()
	_ = t.access.Close()
	t.running.Wait()
}

// openTap makes a tap whose frames this process reads and writes.
func openTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening /dev/net/tun for %s: %w", name, err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("making the tap %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// maxFrame is an Ethernet frame of a link with jumbo frames, tag included.
const maxFrame = 9216

// relay copies frames until one of the taps is closed. A frame that cannot be
// delivered is lost, as on a wire.
func relay(from, to *os.File, change func([]byte) []byte) {
	buffer := make([]byte, maxFrame)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if frame := change(buffer[:n]); frame != nil {
			_, _ = to.Write(frame)
		}
	}
}

// Where things are in an Ethernet frame (IEEE 802.1Q).
const (
	addressesLen = 12
	tagLen       = 4
	tagType      = 0x8100
	idMask       = 0x0fff
)

// untag returns the frame without the tag; nil when it is not of this VLAN.
func untag(frame []byte, id uint16) []byte {
	if len(frame) < addressesLen+tagLen+2 || binary.BigEndian.Uint16(frame[addressesLen:]) != tagType {
		return nil
	}
	if binary.BigEndian.Uint16(frame[addressesLen+2:])&idMask != id {
		return nil
	}
	out := append([]byte(nil), frame[:addressesLen]...)
	return append(out, frame[addressesLen+tagLen:]...)
}

// tag returns the frame with the tag; nil when it is too short to be one.
func tag(frame []byte, id uint16) []byte {
	if len(frame) < addressesLen+2 {
		return nil
	}
	out := append([]byte(nil), frame[:addressesLen]...)
	out = binary.BigEndian.AppendUint16(out, tagType)
	out = binary.BigEndian.AppendUint16(out, id)
	return append(out, frame[addressesLen:]...)
}
