package e2e_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/qemu"
	"github.com/talos-provision/provision/e2e/qemu/image"
)

// signedArgs are the kernel arguments inside of the UKI: the schematic's, and one
// that no inventory has.
const signedArgs = "talos.platform=metal slab_nomerge pti=on console=ttyS0 net.ifnames=0 panic=0 no_timer_check"

// A node with secureBoot boots one EFI program, its signed UKI, by UEFI HTTP boot
// with Secure Boot on: the firmware loads it from the node's own URL, without
// iPXE, and the kernel in it runs with its own arguments and the address that
// DHCP reserves. The image is of a schematic in the inventory, whose id nobody
// gave, and which is registered.
func TestSecureBootNodeBootsItsUKI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.needsGuest("the key that signs here is not that of Talos")
	if err := qemu.MissingSecureUEFI(); err != nil {
		lacking(t, err)
	}
	options := image.FromEnvironment(os.Getenv)
	stub, err := options.Stub()
	if err != nil {
		lacking(t, err)
	}
	uki := filepath.Join(s.dir, image.UKIName)
	if err := s.built.image.WriteUKI(stub, uki, signedArgs+" talos.e2e.inside=uki"); err != nil {
		t.Fatal(err)
	}
	if err := options.Sign(t.Context(), uki, qemu.SecureBootKey, qemu.SecureBootCertificate, qemu.SecureBootPassphrase); err != nil {
		t.Fatal(err)
	}
	f := s.serveUKI(uki, "10.98.0.1:8092")
	s.write("provision.yaml", strings.Replace(s.provisionYAML(), "10.98.0.1:8090", "10.98.0.1:8092", 1))
	machine := board("node-01", 1, qemu.SecureUEFI)
	machine.HTTPBoot = true
	s.add(machine, `ip: 10.98.0.11
gateway: 10.98.0.1
install: true
mac: 52:54:00:00:00:01
uuid: 7a1e0000-0000-4000-8000-000000000001
secureBoot: true
schematicID: null
schematic:
  customization:
    extraKernelArgs: [console=ttyS0, net.ifnames=0, panic=0, no_timer_check]
`)
	log := s.bootsInto("node-01").log()
	if f.posts.Load() != 1 || f.gets.Load() != 1 {
		t.Errorf("the schematic was registered %d times and its image fetched %d times, want 1 and 1", f.posts.Load(), f.gets.Load())
	}
	if strings.Contains(log, "class=ipxe ") || strings.Contains(log, "class=pxe ") || !strings.Contains(log, "class=http ") {
		t.Errorf("the machine did not ask as a UEFI HTTP client only:\n%s", log)
	}
	console := s.servers["node-01"].SerialHistory()
	for _, want := range []string{
		"http://10.98.0.1:8080/uki/52-54-00-00-00-01/amd64.efi", // what the firmware loaded
		"UEFI Secure Boot is enabled",                           // says the kernel's EFI stub
		"guest: kernel command line: " + signedArgs + " talos.e2e.inside=uki",
		"maintenance API of Talos v1.13.9 listens at 10.98.0.11",
	} {
		if !strings.Contains(console, want) {
			t.Errorf("the console does not show %q:\n%s", want, tail(console, 60))
		}
	}
	if strings.Contains(console, "iPXE") || strings.Contains(console, "ip=10.98.0.11") {
		t.Errorf("iPXE ran, or arguments from outside reached the kernel:\n%s", tail(console, 60))
	}
}

// ukiFactory is an Image Factory that has one UKI, of a schematic that it must be
// told first.
type ukiFactory struct {
	posts, gets atomic.Int64
	id          atomic.Value // of the schematic, once it is known
}

func (s *site) serveUKI(uki, address string) *ukiFactory {
	s.t.Helper()
	listener, err := s.network.Listen(s.t.Context(), "tcp", address)
	if err != nil {
		s.t.Fatal(err)
	}
	f := &ukiFactory{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /schematics", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		id := fmt.Sprintf("%x", sha256.Sum256(text))
		f.posts.Add(1)
		f.id.Store(id)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"id": id})
	})
	mux.HandleFunc("GET /image/{schematic}/"+talosVersion+"/"+image.UKIName, func(w http.ResponseWriter, r *http.Request) {
		if f.id.Load() != r.PathValue("schematic") {
			http.NotFound(w, r)
			return
		}
		f.gets.Add(1)
		http.ServeFile(w, r, uki)
	})
	factory := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = factory.Serve(listener) }()
	s.t.Cleanup(func() { _ = factory.Close() })
	return f
}
