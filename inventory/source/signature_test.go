package source_test

import (
	"os"
	"strings"
	"testing"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"golang.org/x/crypto/ssh"

	"github.com/talos-provision/provision/e2e/needs"
	"github.com/talos-provision/provision/inventory/source"
)

func fingerprint(t *testing.T, public string) string {
	t.Helper()
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public))
	must(t, err)
	return ssh.FingerprintSHA256(key)
}

func TestOnlyCommitsSignedByAKeyToVerifyAreUsed(t *testing.T) {
	t.Parallel()
	needs.Program(t, "ssh-keygen")
	ann, annFile := pgpKey(t, "ann")
	mallory, _ := pgpKey(t, "mallory")
	bobFile, bobPublic := sshKey(t)
	eveFile, evePublic := sshKey(t)
	oldFile, oldPublic := sshKey(t)
	docsFile, docsPublic := sshKey(t)
	allowed := keep(t, "allowed_signers", "# who may sign\n\nbob@example.com,b@example.com namespaces=\"git,file\" "+bobPublic+
		"\nold@example.com valid-before=\"20200101Z\" "+oldPublic+"\ndocs@example.com namespaces=\"file\" "+docsPublic+"\n")
	pgp := func(o *gogit.CommitOptions) { o.SignKey = ann }
	bySSH := func(file, namespace string) func(*gogit.CommitOptions) {
		return func(o *gogit.CommitOptions) { o.Signer = sshSigner{t, file, namespace} }
	}
	for _, c := range []struct {
		name string
		sign func(*gogit.CommitOptions)
		key  string // of a good one
		want string // of a bad one
	}{
		{"OpenPGP", pgp, strings.ToLower(ann.PrimaryKey.KeyIdString()), ""},
		{"SSH", bySSH(bobFile, "git"), fingerprint(t, bobPublic), ""},
		{"unsigned", nil, "", "it is not signed"},
		{"another OpenPGP key", func(o *gogit.CommitOptions) { o.SignKey = mallory }, "", strings.ToLower(mallory.PrimaryKey.KeyIdString())},
		{"another SSH key", bySSH(eveFile, "git"), "", fingerprint(t, evePublic)},
		{"an SSH key that is not valid any more", bySSH(oldFile, "git"), "", fingerprint(t, oldPublic)},
		{"an SSH key for something else", bySSH(docsFile, "git"), "", fingerprint(t, docsPublic)},
		{"an SSH signature for something else", bySSH(bobFile, "file"), "", "namespace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t)
			first := u.commitWith(t, map[string]string{"a/n1.yaml": "serial: S1\n"}, pgp)
			s, w := following(t, u, func(o *source.GitOptions) { o.VerifyKeys = []string{annFile, allowed} })
			load(t, s)
			start(t, s)
			hash := u.commitWith(t, map[string]string{"a/n1.yaml": "serial: S2\n"}, c.sign)
			looked(t, s)
			if c.key != "" {
				if g := w.generation(t); g.ID != hash || !strings.HasSuffix(g.Commit.Key, c.key) {
					t.Errorf("generation %s by the key %q, want %q", g.ID, g.Commit.Key, c.key)
				}
				return
			}
			if r := w.refusal(t, source.Unsigned, c.want); r.ID != hash || !strings.Contains(r.Error(), hash[:12]) {
				t.Errorf("refusal %+v does not name the commit", r)
			}
			if s.Status().Good.ID != first {
				t.Errorf("in use is %s", s.Status().Good.ID)
			}
		})
	}
}

// A signature belongs to its commit alone.
func TestASignatureOfAnotherCommitIsNoSignature(t *testing.T) {
	t.Parallel()
	needs.Program(t, "ssh-keygen")
	bobFile, bobPublic := sshKey(t)
	ann, annFile := pgpKey(t, "ann")
	for name, c := range map[string]struct {
		sign func(*gogit.CommitOptions)
		keys string
	}{
		"SSH":     {func(o *gogit.CommitOptions) { o.Signer = sshSigner{t, bobFile, "git"} }, keep(t, "bob.pub", bobPublic+"\n")},
		"OpenPGP": {func(o *gogit.CommitOptions) { o.SignKey = ann }, annFile},
	} {
		u := newUpstream(t)
		signed := u.commitWith(t, map[string]string{"a/n1.yaml": "serial: S1\n"}, c.sign)
		s, _ := following(t, u, func(o *source.GitOptions) { o.VerifyKeys = []string{c.keys} })
		load(t, s)
		stolen := u.signature(t, signed)
		u.commitWith(t, map[string]string{"a/n1.yaml": "serial: S2\n"}, func(o *gogit.CommitOptions) { o.Signer = given(stolen) })
		if g := load(t, s); g.ID != signed || s.Status().Refusal == nil || s.Status().Refusal.Reason != source.Unsigned {
			t.Errorf("%s: in use is %s, refusal %v", name, g.ID, s.Status().Refusal)
		}
	}
}

// Keys are read at each look, and count for what was good before a restart too.
func TestAKeyThatIsTakenAwayCountsNoMore(t *testing.T) {
	t.Parallel()
	ann, annFile := pgpKey(t, "ann")
	_, otherFile := pgpKey(t, "other")
	u := newUpstream(t)
	u.commitWith(t, map[string]string{"a/n1.yaml": "serial: S1\n"}, func(o *gogit.CommitOptions) { o.SignKey = ann })
	work := t.TempDir()
	s, _ := following(t, u, func(o *source.GitOptions) { o.Folder, o.VerifyKeys = work, []string{annFile} })
	load(t, s)
	must(t, os.Rename(u.dir, u.dir+".away"))
	s, _ = following(t, u, func(o *source.GitOptions) { o.Folder, o.VerifyKeys = work, []string{otherFile} })
	if g, err := s.Load(t.Context()); err == nil {
		t.Errorf("loaded %s", serials(g))
	}
	s, _ = following(t, u, func(o *source.GitOptions) { o.Folder, o.VerifyKeys = work, []string{otherFile, annFile} })
	if g := load(t, s); !g.Restored || g.Commit.Key == "" || g.Commit.Time.After(time.Now().Add(time.Minute)) {
		t.Errorf("loaded %+v", g)
	}
}
