package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/talos-provision/provision/e2e/talosnode"
)

// The state is in the last two slots of the disk, which are written in turn: a
// power cut during one write leaves the other, as a journal would.
const (
	slotSize  = 1 << 20
	slotCount = 2
	stateSize = slotSize * slotCount
)

// stateMagic begins a slot that was written; after it come the number of the
// write, the length of the state and its SHA-256.
var stateMagic = [8]byte{'G', 'S', 'T', 'S', 'T', 'A', 'T', 'E'}

// slotHeader is little-endian.
type slotHeader struct {
	Magic  [8]byte
	Number uint64
	Length uint32
	Sum    [sha256.Size]byte
}

// blockDevice is what slots and the installed system are written to.
type blockDevice interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
}

// slots are where the state of the emulated node is kept on a disk.
type slots struct {
	device blockDevice
	size   int64  // of the disk in bytes
	number uint64 // of the last write
}

var errTooSmall = errors.New("the disk is too small for the state of a node: make it 4 MiB at least")

// openSlots reads the newest state that was written whole; a disk without one is empty.
func openSlots(device blockDevice, size int64) (*slots, talosnode.DiskState, error) {
	if size < 2*stateSize {
		return nil, talosnode.DiskState{}, errTooSmall
	}
	s := &slots{device: device, size: size}
	var newest talosnode.DiskState
	for i := range uint64(slotCount) {
		number, state, err := s.read(i)
		if err != nil {
			return nil, talosnode.DiskState{}, err
		}
		if number > s.number {
			s.number, newest = number, state
		}
	}
	return s, newest, nil
}

func (s *slots) offset(slot uint64) int64 {
	return s.size - stateSize + int64(slot)*slotSize //nolint:gosec // 0 or 1
}

// read gives what is in a slot; number 0 means nothing that is whole.
func (s *slots) read(slot uint64) (number uint64, state talosnode.DiskState, err error) {
	data := make([]byte, slotSize)
	if _, err := s.device.ReadAt(data, s.offset(slot)); err != nil {
		return 0, state, fmt.Errorf("reading the state of the node from its disk: %w", err)
	}
	var header slotHeader
	reader := bytes.NewReader(data)
	if err := binary.Read(reader, binary.LittleEndian, &header); err != nil {
		return 0, state, fmt.Errorf("reading the state of the node from its disk: %w", err)
	}
	body := data[len(data)-reader.Len():]
	if header.Magic != stateMagic || int64(header.Length) > int64(len(body)) {
		return 0, state, nil
	}
	body = body[:header.Length]
	if sha256.Sum256(body) != header.Sum {
		return 0, state, nil
	}
	if err := json.Unmarshal(body, &state); err != nil {
		return 0, state, fmt.Errorf("reading the state of the node from its disk (was it written by another version of the guest?): %w", err)
	}
	return header.Number, state, nil
}

// write replaces the state; it is on the disk when write returns.
func (s *slots) write(state talosnode.DiskState) error {
	body, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("writing the state of the node to its disk: %w", err)
	}
	header := slotHeader{Magic: stateMagic, Number: s.number + 1, Length: uint32(len(body)), Sum: sha256.Sum256(body)} //nolint:gosec // bounded below
	var slot bytes.Buffer
	if err := binary.Write(&slot, binary.LittleEndian, header); err != nil {
		return fmt.Errorf("writing the state of the node to its disk: %w", err)
	}
	slot.Write(body)
	if slot.Len() > slotSize {
		return fmt.Errorf("writing the state of the node to its disk: it has %d bytes, more than the %d of its slot", slot.Len(), slotSize)
	}
	if _, err := s.device.WriteAt(slot.Bytes(), s.offset(header.Number%slotCount)); err != nil {
		return fmt.Errorf("writing the state of the node to its disk: %w", err)
	}
	if err := s.device.Sync(); err != nil {
		return fmt.Errorf("writing the state of the node to its disk: %w", err)
	}
	s.number = header.Number
	return nil
}
