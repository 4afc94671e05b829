package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
	"golang.org/x/crypto/ssh"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/needs"
	"github.com/talos-provision/provision/inventory"
)

// boot switches a machine off and on, and returns what came of it.
func boot(t *testing.T, d *daemonProcess, m *fleet.Machine) fleet.Booted {
	t.Helper()
	before := len(m.Boots())
	if err := m.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
		t.Fatal(err)
	}
	d.until("a boot of "+m.Name, func() bool { return len(m.Boots()) > before })
	return m.Boots()[before]
}

// A machine that is in no file boots its own disk and is shown; as soon as it has a
// file it has its address too. A file that is wrong changes nothing.
func TestTheDaemonFollowsTheFilesOfItsInventory(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, PerChassis: 1, Adjust: func(m *fleet.Machine) { m.NetworkFirst = m.Name == "node-02" }})
	newcomer := f.Machines()[1]
	file := filepath.Join(folderOf(f), "nodes/demo/node-02.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, f)
	if info := d.inventory(); info.Nodes != 1 || info.Refused != nil {
		t.Errorf("in use: %+v", info)
	}
	first := boot(t, d, newcomer)
	if first.Leased == newcomer.IP || !first.Leased.IsValid() || first.Cmdline != "" {
		t.Errorf("an unknown machine booted %+v", first)
	}
	provision(t, "status", "--unknown", "--config", f.ConfigFile()).says(t, exitDone, "serial: "+newcomer.Hardware.Serial, "install: false")

	d.afterEdit(func() {
		put(t, f, "nodes/demo/node-02.yaml", string(text)+"mac: "+newcomer.Hardware.MACs[0]+"\n")
	})
	d.until("the reservation", func() bool { return boot(t, d, newcomer).Leased == newcomer.IP })
	good := d.inventory()
	if good.Nodes != 2 || good.Install != 2 {
		t.Errorf("in use: %+v, want 2 nodes", good)
	}

	put(t, f, "nodes/demo/node-03.yaml", "serial: S9\nip: nonsense\n")
	put(t, f, "nodes/demo/node-01.yaml", "serial: [\n")
	d.until("the refusal", func() bool {
		refused := d.inventory().Refused
		return refused != nil && len(refused.Findings) >= 2
	})
	info := d.inventory()
	if info.Generation != good.Generation || info.Nodes != 2 {
		t.Errorf("while an inventory is refused %+v is in use, want %s", info, good.Generation)
	}
	findings := inventory.Findings(info.Refused.Findings)
	for _, name := range []string{"demo/node-01.yaml", "demo/node-03.yaml"} {
		if !strings.Contains(fmt.Sprint(findings), name) {
			t.Errorf("the findings do not name %s: %v", name, findings)
		}
	}
	if boot(t, d, newcomer).Leased != newcomer.IP {
		t.Error("while an inventory is refused the old reservations do not hold")
	}
	if health, err := d.Ready(t.Context()); err != nil || !health.OK {
		t.Errorf("a refused inventory makes the daemon unready: %+v, %v", health, err)
	}

	if err := os.Remove(filepath.Join(folderOf(f), "nodes/demo/node-03.yaml")); err != nil {
		t.Fatal(err)
	}
	first01 := fmt.Sprintf("serial: %s\nip: %s\ninstall: false\nbmc:\n  address: %s\n", f.Machines()[0].Hardware.Serial, f.Machines()[0].IP, f.Machines()[0].BMC().URL())
	put(t, f, "nodes/demo/node-01.yaml", first01)
	d.until("the corrected inventory", func() bool {
		info := d.inventory()
		return info.Refused == nil && info.Install == 1 && info.Nodes == 2
	})
	untouched(t, f.Machines()[0])
}

// signedRepository is a repository that somebody commits to.
type signedRepository struct {
	t                *testing.T
	dir, key, signer string // the folder, and the files of the key and of who may sign
	repo             *gogit.Repository
}

func newSignedRepository(t *testing.T) *signedRepository {
	t.Helper()
	needs.Program(t, "ssh-keygen")
	dir := t.TempDir()
	r := &signedRepository{t: t, dir: filepath.Join(dir, "repo"), key: filepath.Join(dir, "id"), signer: filepath.Join(dir, "allowed")}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, r.key, string(pem.EncodeToMemory(block)))
	writeFile(t, r.signer, "ann@example.com "+string(ssh.MarshalAuthorizedKey(key)))
	if r.repo, err = gogit.PlainInitWithOptions(r.dir, &gogit.PlainInitOptions{InitOptions: gogit.InitOptions{DefaultBranch: "refs/heads/main"}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// Sign signs as git does with gpg.format=ssh.
func (r *signedRepository) Sign(message io.Reader) ([]byte, error) {
	cmd := exec.CommandContext(r.t.Context(), "ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", r.key)
	cmd.Stdin = message
	return cmd.Output()
}

// commit commits all that is in the folder, and returns the commit's name.
func (r *signedRepository) commit(subject string, signed bool) string {
	r.t.Helper()
	tree, err := r.repo.Worktree()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := tree.AddWithOptions(&gogit.AddOptions{All: true}); err != nil {
		r.t.Fatal(err)
	}
	o := &gogit.CommitOptions{Author: &object.Signature{Name: "Ann", Email: "ann@example.com", When: time.Now()}, AllowEmptyCommits: true}
	if signed {
		o.Signer = r
	}
	hash, err := tree.Commit(subject, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return hash.String()
}

func TestTheDaemonFollowsSignedCommits(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, Adjust: func(m *fleet.Machine) { m.Install = m.Name == "node-01" }})
	r := newSignedRepository(t)
	if err := os.Rename(filepath.Join(folderOf(f), "nodes"), filepath.Join(r.dir, "nodes")); err != nil {
		t.Fatal(err)
	}
	edit(t, f, "provision.yaml", "talos:\n", fmt.Sprintf("serve:\n  git: {url: 'file://%s', branch: main, path: nodes, poll: 200ms, verifyKeys: [%s]}\ntalos:\n", r.dir, r.signer))
	first := r.commit("the first nodes", true)
	d := startDaemon(t, f)
	if info := d.inventory(); info.Generation != first || info.Commit == nil || info.Commit.VerifiedBy == "" || info.Commit.Subject != "the first nodes" {
		t.Errorf("in use: %+v, commit %+v; want %s, verified", info, info.Commit, first)
	}
	second := filepath.Join(r.dir, "nodes/demo/node-02.yaml")
	text, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, second, strings.Replace(string(text), "install: false", "install: true", 1))
	unsigned := r.commit("nobody's", false)
	d.until("the refusal", func() bool { return d.inventory().Refused != nil })
	if info := d.inventory(); info.Generation != first || info.Install != 1 || info.Refused.Generation != unsigned || !strings.Contains(info.Refused.Error, "not signed") {
		t.Errorf("after an unsigned commit: %+v, refused %+v", info, info.Refused)
	}
	signed := r.commit("Ann's", true)
	d.until("the signed commit", func() bool { return d.inventory().Generation == signed })
	if info := d.inventory(); info.Install != 2 || info.Refused != nil {
		t.Errorf("after a signed commit: %+v", info)
	}
	// This host has no folder of the inventory: all goes by the daemon's.
	provision(t, "hold", "node-02", "--cluster", "demo", "--config", f.ConfigFile(), "--reason", "wait").says(t, exitDone, "node-02 is held")
	result, last := install(t, f)
	if result.status != exitRefused || last["node-01"].State != "Maintenance" || last["node-02"].State != "Held" {
		t.Errorf("status %d, %v", result.status, states(last))
	}
}
