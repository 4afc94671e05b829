package kubeapi

import (
	"errors"
	"os"
	"testing"
)

// StartForTest is Start for the time of a test. Where the programs have not been
// built the test is skipped; with E2E=required that is an error.
func StartForTest(t testing.TB, address string) *API {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts etcd and kube-apiserver")
	}
	api, err := Start(t.Context(), Options{Dir: t.TempDir(), Address: address})
	if errors.Is(err, ErrNotBuilt) && os.Getenv("E2E") != "required" {
		t.Skip(err)
	}
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
