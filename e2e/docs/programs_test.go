package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built is where the two programs are, for all tests of this process.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	status := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(status)
}

// programsFolder builds provision and fleetsim once.
func programsFolder(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "docs-programs"); built.err != nil {
			return
		}
		build := exec.CommandContext(context.Background(), "go", "build", "-o", built.dir+string(filepath.Separator), "./cmd/provision", "./cmd/fleetsim")
		build.Dir = root
		var out []byte
		if out, built.err = build.CombinedOutput(); built.err != nil {
			t.Logf("%s", out)
		}
	})
	if built.err != nil {
		t.Fatalf("build the programs: %v", built.err)
	}
	return built.dir
}
