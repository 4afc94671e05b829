package source

import (
	"time"

	"github.com/talos-provision/provision/inventory"
)

// Generation is one state of the inventory: whole and valid.
type Generation struct {
	// ID is the commit's hash, or for a folder "sha256:" and the digest of the names
	// and contents of its files.
	ID   string
	Tree *inventory.Tree
	// Folder is what the nodes' relative paths begin in. For a git source it belongs
	// to this generation alone, and is removed when it is older than Keep generations.
	Folder string
	// Warnings are what was found and does not forbid the use.
	Warnings inventory.Findings
	Loaded   time.Time
	// Commit is nil for a folder.
	Commit *Commit
	// Restored says that the newest could not be had, and that this is what was
	// good before this process.
	Restored bool
}

// Commit is where a generation of a git source comes from. Names and subject are as
// their author wrote them: quote them before they reach a terminal or a page.
type Commit struct {
	Hash    string    `json:"hash"`
	Author  string    `json:"author"` // name <email>
	Subject string    `json:"subject"`
	Time    time.Time `json:"time"` // the committer's
	// Key is the key whose signature was verified: "SHA256:…" for SSH, the
	// fingerprint in hex for OpenPGP; "" if none is asked for.
	Key string `json:"key,omitempty"`
}

// Reason is a kind of refusal.
type Reason string

// The reasons.
const (
	Unreachable Reason = "unreachable" // the remote does not answer or does not let us in
	Unreadable  Reason = "unreadable"  // the folder, the repository or our own copy cannot be read
	Invalid     Reason = "invalid"     // the findings have an error
	Emptied     Reason = "emptied"     // no node any more
	TooLarge    Reason = "too-large"   // more than MaxBytes, or too many files
	Unsafe      Reason = "unsafe"      // a link that leads out, a name that no checkout may have
	Unsigned    Reason = "unsigned"    // no good signature of a key of VerifyKeys
	Rewound     Reason = "rewound"     // the history no longer holds the commit in use
)

// Refusal says why the newest is not used.
type Refusal struct {
	// ID is as in Generation; "" when it is not known.
	ID     string
	Reason Reason
	// Findings are all of them, warnings too; set for Invalid.
	Findings inventory.Findings
	// Err says what is wrong and what to do. It holds no secret.
	Err error
	// Time is since when it lasts.
	Time time.Time
}

// Error is the text of Err.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap gives Err.
func (r *Refusal) Unwrap() error { return r.Err }

func (r *Refusal) same(other *Refusal) bool {
	return r.ID == other.ID && r.Reason == other.Reason && r.Err.Error() == other.Err.Error()
}

// Status is how a source stands.
type Status struct {
	// Good is the generation in use; its ID is "" as long as there was none.
	Good Generation
	// Refusal is why the newest is not in use; nil if it is.
	Refusal *Refusal
	// Failures counts the looks in a row that ended with a refusal of this reason.
	Failures int
	// Looked is when the last look ended.
	Looked time.Time
	// Next is when Run looks again if nothing happens before.
	Next time.Time
}
