package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// The Image Factory's list is taken as far as it can be read, and no further.
func TestReleasesAreThoseThatTheImageFactoryLists(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer string
		status int
		want   []string
		failed string
	}{
		"a list":        {`["v1.12.12","v1.13.9","v1.14.0-rc.1"]`, http.StatusOK, []string{"v1.12.12", "v1.13.9", "v1.14.0-rc.1"}, ""},
		"odd tags":      {`["latest","v1.13.9",""]`, http.StatusOK, []string{"v1.13.9"}, ""},
		"a login page":  {`<html>`, http.StatusOK, nil, "read the Image Factory's versions"},
		"another shape": {`{"versions":[]}`, http.StatusOK, nil, "read the Image Factory's versions"},
		"no such page":  {`gone`, http.StatusNotFound, nil, "404 Not Found"},
		"endless":       {`["` + strings.Repeat("x", maxReleases) + `"]`, http.StatusOK, nil, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/factory/versions" {
					t.Errorf("asked for %s", r.URL.Path)
				}
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.answer))
			}))
			defer server.Close()
			releases, err := fetchReleases(t.Context(), server.URL+"/factory/")
			var got []string
			for _, v := range releases {
				got = append(got, v.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("releases (-want +got):\n%s", diff)
			}
			if (err == nil) != (tt.failed == "") || err != nil && !strings.Contains(err.Error(), tt.failed) {
				t.Errorf("error %v, want %q", err, tt.failed)
			}
		})
	}
	if _, err := fetchReleases(t.Context(), "http://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "check assets.factory") {
		t.Errorf("nobody there: %v", err)
	}
}

// The inventory's version is the target where the nodes agree on it.
func TestTheTargetIsWhatTheInventoryAgreesOn(t *testing.T) {
	t.Parallel()
	node := func(name, version string) inventory.Node { return inventory.Node{Name: name, TalosVersion: version} }
	for name, tt := range map[string]struct {
		nodes []inventory.Node
		want  string
		err   string
	}{
		"agree":  {[]inventory.Node{node("a", "v1.13.9"), node("b", "v1.13.9")}, "v1.13.9", ""},
		"differ": {[]inventory.Node{node("a", "v1.13.9"), node("b", "v1.14.0"), node("c", "v1.13.9")}, "", "v1.13.9: a, c; v1.14.0: b"},
		"none":   {[]inventory.Node{node("a", "")}, "", "none: a"},
		"odd":    {[]inventory.Node{node("a", "newest")}, "", "talosVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := inventoryTarget(tt.nodes)
			if got.String() != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("target %q, error %v; want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestImagesAreShortInThePlanAndAddressesCompareByValue(t *testing.T) {
	t.Parallel()
	schematic := strings.Repeat("ab", 32)
	for image, want := range map[string]string{
		"factory.talos.dev/metal-installer/" + schematic + ":v1.13.9":                         "metal-installer/abababab…:v1.13.9",
		"mirror.example.test:5000/talos/metal-installer-secureboot/" + schematic + ":v1.13.9": "metal-installer-secureboot/abababab…:v1.13.9",
		"no image": "no image",
		"":         "",
	} {
		if got := shortImage(image); got != want {
			t.Errorf("%q: %q, want %q", image, got, want)
		}
	}
	if !sameAddress("2001:db8::1", "2001:db8:0::1") || !sameAddress("10.0.0.1", "::ffff:10.0.0.1") || sameAddress("10.0.0.1", "10.0.0.2") || sameAddress("", "") {
		t.Error("addresses do not compare by value")
	}
	if got := stopsText([]upgrade.Version{{Major: 1, Minor: 12, Patch: 12}, {Major: 1, Minor: 13, Patch: 9}}); got != "v1.12.12 -> v1.13.9" {
		t.Errorf("stops %q", got)
	}
}
