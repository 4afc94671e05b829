package reference

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pages of the reference say what the code says: UPDATE=1 writes them.
func TestTheReferenceIsWhatTheCodeSays(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	for page, write := range map[string]func(string) ([]byte, error){
		"events.md": Events,
		"api.md":    API,
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			want, err := write(root)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(root, "docs/reference", page)
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file, want, 0o644); err != nil { //nolint:gosec // documentation
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not what the code says (%v): run UPDATE=1 go test ./docs/site/reference", file, err)
			}
		})
	}
}

// What the pages are made of is read as it is declared.
func TestDeclarationsAreRead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.go")
	source := `package a
type Word string
const (
	One Word = "one" // the first
	Two Word = "two"
	Not = "not"
)
var hints = map[Word]string{One: "do it"}
type Event struct {
	Time time.Time ` + "`json:\"time\"`" + `
	// Cause is why,
	// or not.
	Cause string ` + "`json:\"cause,omitempty\"`" + `
	Progress *Progress ` + "`json:\"progress,omitzero\"`" + `
	hidden int
}
`
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	constants, err := Constants(file, "Word")
	if want := (Constant{"One", "one", "the first"}); err != nil || len(constants) != 2 || constants[0] != want {
		t.Errorf("constants %v, error %v, want two and %v first", constants, err, want)
	}
	texts, err := Texts(file, "hints")
	if err != nil || len(texts) != 1 || texts["One"] != "do it" {
		t.Errorf("texts %v, error %v", texts, err)
	}
	fields, err := Fields(file, "Event")
	if err != nil || len(fields) != 3 {
		t.Fatalf("fields %v, error %v, want three", fields, err)
	}
	if want := (Field{"cause", "text", true, "Cause is why, or not."}); fields[1] != want {
		t.Errorf("the second field is %v, want %v", fields[1], want)
	}
	for name, read := range map[string]func() error{
		"constants": func() error { _, err := Constants(file, "Gone"); return err },
		"texts":     func() error { _, err := Texts(file, "gone"); return err },
		"fields":    func() error { _, err := Fields(file, "Gone"); return err },
	} {
		if err := read(); err == nil || !strings.Contains(err.Error(), "has it moved") && !strings.Contains(err.Error(), "has the type moved") {
			t.Errorf("%s that are not there: error %v", name, err)
		}
	}
}
