package source_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"golang.org/x/crypto/ssh"

	"github.com/talos-provision/provision/inventory/source"
)

// upstream is a real repository that somebody commits to.
type upstream struct {
	dir  string
	repo *gogit.Repository
	tick int
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{dir: filepath.Join(t.TempDir(), "repo")}
	var err error
	u.repo, err = gogit.PlainInitWithOptions(u.dir, &gogit.PlainInitOptions{InitOptions: gogit.InitOptions{DefaultBranch: "refs/heads/main"}})
	must(t, err)
	return u
}

// commit writes files and commits everything that is there.
func (u *upstream) commit(t *testing.T, files map[string]string) string {
	t.Helper()
	return u.commitWith(t, files, nil)
}

func (u *upstream) commitWith(t *testing.T, files map[string]string, change func(*gogit.CommitOptions)) string {
	t.Helper()
	write(t, u.dir, files)
	tree, err := u.repo.Worktree()
	must(t, err)
	must(t, tree.AddWithOptions(&gogit.AddOptions{All: true}))
	u.tick++
	who := &object.Signature{Name: "Ann", Email: "ann@example.com", When: time.Now().Add(time.Duration(u.tick) * time.Second)}
	o := &gogit.CommitOptions{Author: who, AllowEmptyCommits: true}
	if change != nil {
		change(o)
	}
	hash, err := tree.Commit("change it\n\nfor a reason", o)
	must(t, err)
	return hash.String()
}

// reset moves the branch and the files to another commit: what comes then is a
// forced push.
func (u *upstream) reset(t *testing.T, hash string) {
	t.Helper()
	tree, err := u.repo.Worktree()
	must(t, err)
	must(t, tree.Reset(&gogit.ResetOptions{Mode: gogit.HardReset, Commit: plumbing.NewHash(hash)}))
}

// following makes a source of the repository that is asked when told only.
func following(t *testing.T, u *upstream, change func(*source.GitOptions)) (*source.Source, told) {
	t.Helper()
	o := source.GitOptions{URL: "file://" + u.dir, Folder: filepath.Join(t.TempDir(), "work"), Poll: time.Hour}
	w := listen(t, &o.Options)
	if change != nil {
		change(&o)
	}
	s, err := source.NewGit(o)
	return made(t, s, err), w
}

// pgpKey makes a key and a file with its public part.
func pgpKey(t *testing.T, name string) (*openpgp.Entity, string) {
	t.Helper()
	entity, err := openpgp.NewEntity(name, "", name+"@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, Time: func() time.Time { return time.Now().Add(-time.Hour) }})
	must(t, err)
	var text strings.Builder
	w, err := armor.Encode(&text, openpgp.PublicKeyType, nil)
	must(t, err)
	must(t, entity.Serialize(w))
	must(t, w.Close())
	return entity, keep(t, name+".asc", text.String()+"\n")
}

// sshKey makes a key: the file of its private part, and its public line.
func sshKey(t *testing.T) (file, public string) {
	t.Helper()
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	block, err := ssh.MarshalPrivateKey(crypto.PrivateKey(private), "")
	must(t, err)
	key, err := ssh.NewPublicKey(pub)
	must(t, err)
	return keep(t, "id", string(pem.EncodeToMemory(block))), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func keep(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// sshSigner signs commits as git does with gpg.format=ssh: by ssh-keygen.
type sshSigner struct {
	t               *testing.T
	file, namespace string
}

func (s sshSigner) Sign(message io.Reader) ([]byte, error) {
	cmd := exec.CommandContext(s.t.Context(), "ssh-keygen", "-q", "-Y", "sign", "-n", s.namespace, "-f", s.file)
	cmd.Stdin = message
	return cmd.Output()
}

// given is a signature that was made for something else.
type given string

func (g given) Sign(io.Reader) ([]byte, error) { return []byte(g), nil }

func (u *upstream) signature(t *testing.T, hash string) string {
	t.Helper()
	commit, err := u.repo.CommitObject(plumbing.NewHash(hash))
	must(t, err)
	return commit.PGPSignature
}
