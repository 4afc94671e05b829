package kubeapi

import (
	"testing"

	"github.com/talos-provision/provision/e2e/needs"
)

// Need skips a test that starts the API: in -short, and where the programs have
// not been built, which with E2E=required is an error.
func Need(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts etcd and kube-apiserver, which takes too long for -short")
	}
	if _, err := findPrograms(""); err != nil {
		needs.Lacking(t, "%v", err)
	}
}

// StartForTest is Start for the time of a test that has what it needs.
func StartForTest(t testing.TB, address string) *API {
	t.Helper()
	Need(t)
	api, err := Start(t.Context(), Options{Dir: t.TempDir(), Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Stop(); err != nil {
			t.Error(err)
		}
	})
	return api
}
