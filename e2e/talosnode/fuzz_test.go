package talosnode

import (
	"bytes"
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
)

func FuzzDocuments(f *testing.F) {
	for _, seed := range []string{
		"", "a: b", "version: v1alpha1\nmachine: {}\n", "{", "---\n---\n", "- kind: x", "kind: [a]",
		"apiVersion: v1alpha1\nkind: UnattendedInstallConfig\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n",
		"a: &a [*a]", "kind: *x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := withoutDocuments(data, func(string) bool { return false }); !bytes.Equal(got, data) {
			t.Errorf("nothing was to be left out of %q, got %q", data, got)
		}
		rest := withoutDocuments(data, unknownKinds)
		if !bytes.Equal(rest, data) {
			for _, kind := range kindsOf(rest) {
				if unknownKinds(kind) {
					t.Errorf("%q is left in %q", kind, rest)
				}
			}
		}
		_ = unsupportedKind(data, machineryMinor)
		_, _ = configloader.NewFromBytes(rest)
	})
}

func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		"", "ip=10.0.0.1::10.0.0.254:255.255.255.0:node-01:eth0", "ip=[2001:db8::1]::", "talos.experimental.wipe=system:EPHEMERAL,STATE",
		"talos.halt_if_installed=1", "talos.experimental.wipe=system talos.experimental.wipe=", "ip=", "=",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		a := argsOf(line)
		all, partitions := a.wipes()
		if all && len(partitions) > 0 {
			t.Errorf("%q wipes all and %q", line, partitions)
		}
		_, _ = a.hostname(), a.halts()
	})
}

func TestInstallerImageTellsVersionAndSchematic(t *testing.T) {
	t.Parallel()
	const id = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
	for image, want := range map[string][2]string{
		"factory.talos.dev/metal-installer/" + id + ":v1.13.8":               {"v1.13.8", id},
		"factory.talos.dev:443/metal-installer/" + id + ":v1.13.8@sha256:00": {"v1.13.8", id},
		"ghcr.io/siderolabs/installer:v1.12.0":                               {"v1.12.0", ""},
		"localhost:5000/installer":                                           {"v1.13.9", ""},
		"ghcr.io/siderolabs/installer:latest":                                {"v1.13.9", ""},
		"":                                                                   {"v1.13.9", "before"},
	} {
		version, schematic := installerImage(image, "v1.13.9", "before")
		if got := [2]string{version, schematic}; got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}
