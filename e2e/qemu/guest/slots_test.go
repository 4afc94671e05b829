package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/talosnode"
)

const testDiskSize = 8 << 20

func testDisk(t *testing.T) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if err := file.Truncate(testDiskSize); err != nil {
		t.Fatal(err)
	}
	return file
}

func mustOpen(t *testing.T, file *os.File) (*slots, talosnode.DiskState) {
	t.Helper()
	s, state, err := openSlots(file, testDiskSize)
	if err != nil {
		t.Fatal(err)
	}
	return s, state
}

func TestStateSurvivesAPowerCutInTheMiddleOfAWrite(t *testing.T) {
	t.Parallel()
	file := testDisk(t)
	s, empty := mustOpen(t, file)
	if diff := cmp.Diff(talosnode.DiskState{}, empty); diff != "" {
		t.Fatalf("an empty disk (-want +got):\n%s", diff)
	}
	states := []talosnode.DiskState{
		{Version: "v1.13.9", MachineConfig: []byte("one"), Meta: map[uint8]string{6: "tag"}},
		{Version: "v1.13.9", MachineConfig: []byte("one"), EtcdMember: 1 << 63},
		{},
	}
	for _, want := range states {
		if err := s.write(want); err != nil {
			t.Fatal(err)
		}
		var got talosnode.DiskState
		if s, got = mustOpen(t, file); cmp.Diff(want, got) != "" {
			t.Errorf("read again (-want +got):\n%s", cmp.Diff(want, got))
		}
	}
	// The third write ends in the middle of its slot.
	if _, err := file.WriteAt([]byte("torn"), s.offset(s.number%slotCount)+20); err != nil {
		t.Fatal(err)
	}
	if _, got := mustOpen(t, file); cmp.Diff(states[1], got) != "" {
		t.Errorf("after a torn write (-want +got):\n%s", cmp.Diff(states[1], got))
	}
}

func TestADiskWithoutRoomIsRefused(t *testing.T) {
	t.Parallel()
	if _, _, err := openSlots(testDisk(t), 1<<20); err == nil {
		t.Error("a disk of 1 MiB was taken")
	}
	s, _ := mustOpen(t, testDisk(t))
	if err := s.write(talosnode.DiskState{MachineConfig: make([]byte, slotSize)}); err == nil {
		t.Error("a state was written that does not fit into its slot")
	}
}

// The node's disk is installed once, before its state says so, and a failed
// download leaves nothing that a firmware would boot.
func TestInstallWritesTheSystemBeforeTheState(t *testing.T) {
	t.Parallel()
	system := strings.Repeat("system", 1000)
	answers := []func(http.ResponseWriter){
		func(w http.ResponseWriter) { http.Error(w, "not yet", http.StatusNotFound) },
		func(w http.ResponseWriter) { // is cut off
			w.Header().Set("Content-Length", "6000")
			_, _ = w.Write([]byte(system[:3000]))
		},
		func(w http.ResponseWriter) { w.Header().Set("Content-Length", "7000000") }, // does not fit
		func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "6000")
			_, _ = w.Write([]byte(system))
		},
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answers[asked](w)
		asked++
	}))
	t.Cleanup(server.Close)
	file := testDisk(t)
	disk, err := newDisk(file, testDiskSize, server.URL, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	installs := func(s *talosnode.DiskState) { s.Version, s.MachineConfig = "v1.13.9", []byte("config") }
	for range len(answers) - 1 {
		if err := disk.Update(installs); err == nil {
			t.Fatal("a failed download was taken for an install")
		}
		if got := begin(t, file); strings.Trim(got[:sectorSize], "\x00") != "" {
			t.Errorf("after a failed download the boot sector is %q", got[:sectorSize])
		}
	}
	if err := disk.Update(installs); err != nil {
		t.Fatal(err)
	}
	if got := begin(t, file); got[:len(system)] != system {
		t.Error("the disk does not begin with the system")
	}
	if err := disk.Update(func(s *talosnode.DiskState) { s.EtcdMember = 7 }); err != nil || asked != len(answers) {
		t.Errorf("another change: %v; the system was fetched %d times, want %d", err, asked, len(answers))
	}
	again, err := newDisk(file, testDiskSize, "", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(talosnode.DiskState{Version: "v1.13.9", MachineConfig: []byte("config"), EtcdMember: 7}, again.State()); diff != "" {
		t.Errorf("the state after a boot (-want +got):\n%s", diff)
	}
	if err := again.Wipe(); err != nil {
		t.Fatal(err)
	}
	if got := begin(t, file); strings.Trim(got[:sectorSize], "\x00") != "" {
		t.Error("a wiped disk would still be booted")
	}
	if err := again.Update(installs); err == nil || !strings.Contains(err.Error(), installerArg) {
		t.Errorf("an install from nowhere: %v", err)
	}
}

func begin(t *testing.T, file *os.File) string {
	t.Helper()
	data := make([]byte, 8192)
	if _, err := file.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
	return string(data)
}
