package talosnode

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"net"
	"strings"

	"github.com/siderolabs/crypto/x509"
)

// key names the node among the others of its cluster.
func (s *system) key() string {
	if s.node.cfg.UUID != "" {
		return s.node.cfg.UUID
	}
	return s.node.cfg.Address
}

// chooseHostname takes the name of the config, else that of the kernel
// argument ip=, else one that Talos makes of the node's identity.
func (s *system) chooseHostname() string {
	if s.config != nil {
		if named := s.config.NetworkHostnameConfig(); named != nil && named.Hostname() != "" {
			return named.Hostname()
		}
	}
	if name := s.args.hostname(); name != "" {
		return name
	}
	digest := sha256.Sum256([]byte(s.key()))
	letters := strings.ToLower(base32.StdEncoding.EncodeToString(digest[:]))
	return "talos-" + letters[:3] + "-" + letters[3:6]
}

// join makes the node a peer of its cluster.
func (s *system) join() {
	controlPlane := s.config.Machine().Type().IsControlPlane()
	var authority *x509.CertificateAuthority
	if controlPlane {
		// A config that was accepted has a key here; without, the port stays closed as a worker's does.
		authority, _ = x509.NewCertificateAuthorityFromCertificateAndKey(s.config.Machine().Security().IssuingCA())
	}
	host, _, err := net.SplitHostPort(s.node.cfg.Address)
	if err != nil {
		host = s.node.cfg.Address
	}
	s.cluster = s.node.cfg.Clusters.of(s.config.Cluster().ID(), s.config.Cluster().Name())
	disk := s.disk()
	s.cluster.change(func() {
		p := s.cluster.peers[s.key()]
		if p == nil {
			p = &peer{key: s.key()}
			s.cluster.peers[s.key()] = p
		}
		p.hostname, p.address, p.version, p.controlPlane = s.hostname, host, s.version, controlPlane
		p.up, p.authority, p.ready, p.serves = true, authority, false, false
		// A disk with etcd's data is a member, also where this process has not seen it before.
		p.etcd = disk.EtcdMember
		if p.object == nil && s.node.cfg.NodeObjects {
			p.object = new(NodeObject)
		}
		s.self = p
	})
	s.progress.etcdWaits = s.node.cfg.ReadyTime <= 0
}

// memberID is the id of the node's etcd member.
func (s *system) memberID() uint64 {
	digest := sha256.Sum256([]byte("etcd member " + s.key() + " " + newUUID()))
	return binary.BigEndian.Uint64(digest[:8]) | 1
}

// bootSequence is what happens after the port is open, until the machine is
// running and ready: etcd of a control plane waits for a bootstrap or joins,
// kubelet registers once there is a control plane to register with.
func (s *system) bootSequence() {
	if s.config == nil {
		return
	}
	if s.self.controlPlane && !s.startEtcd() {
		return
	}
	if !s.waitUntil(s.cluster.healthy) || sleep(s.life, s.node.cfg.ReadyTime) != nil {
		return
	}
	s.advance(func(p *progress) { p.kubelet = true })
	s.cluster.change(func() { s.self.registered = true })
	s.advance(func(p *progress) { p.booted = true })
	s.prove()
	if sleep(s.life, s.node.cfg.ReadyTime) != nil {
		return
	}
	if !s.node.cfg.Faults.NeverReady {
		s.cluster.change(func() { s.self.ready = true })
	}
	s.waitUntil(func() bool { return false }) // follows the cluster
}

// startEtcd returns when the node's member runs: at once where it has data,
// with a bootstrap, or when it joined members that are there already.
func (s *system) startEtcd() bool {
	isMember := func() (is bool) {
		s.cluster.read(func() { is = s.self.etcd != 0 })
		return is
	}
	if sleep(s.life, s.node.cfg.ReadyTime) != nil {
		return false
	}
	s.advance(func(p *progress) { p.etcdWaits = true })
	for !isMember() {
		if !s.waitUntil(func() bool { return isMember() || s.cluster.healthy() }) {
			return false
		}
		if isMember() {
			break
		}
		if sleep(s.life, s.node.cfg.ReadyTime) != nil {
			return false
		}
		s.becomeMember(false)
	}
	s.cluster.change(func() { s.self.serves = true })
	s.advance(func(p *progress) { p.etcd = true })
	return true
}

// becomeMember adds the node to etcd, unless etcd has members and bootstraps.
func (s *system) becomeMember(bootstraps bool) (done bool) {
	id := s.memberID()
	s.cluster.change(func() {
		if s.self.etcd != 0 || !bootstraps && !s.cluster.quorum() {
			return
		}
		done = true
		s.self.etcd, s.self.serves = id, true
		if bootstraps {
			s.cluster.bootstraps++
			if s.cluster.leader == 0 {
				s.cluster.leader = id
			}
		}
	})
	if done {
		s.note(s.node.cfg.Disk.Update(func(d *DiskState) { d.EtcdMember = id }))
	}
	return done
}

// advance changes the progress and shows it.
func (s *system) advance(step func(*progress)) {
	s.mu.Lock()
	step(&s.progress)
	s.mu.Unlock()
	s.refresh()
}

// waitUntil looks again after every change of the cluster, and keeps the
// resources up to date meanwhile. It reports false when the boot ended first.
func (s *system) waitUntil(condition func() bool) bool {
	for {
		changed := s.cluster.watch()
		s.refresh()
		if condition() {
			return true
		}
		select {
		case <-changed:
		case <-s.life.Done():
			return false
		}
	}
}
