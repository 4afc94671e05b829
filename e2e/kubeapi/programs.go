package kubeapi

import (
	"net"
	"path/filepath"
	"strconv"
)

// startEtcd runs one member that does not wait for the disk: what it keeps is
// thrown away afterwards.
func startEtcd(program string, o Options, port, peerPort int) (*process, error) {
	url := "http://" + net.JoinHostPort(o.Address, strconv.Itoa(port))
	peer := "http://" + net.JoinHostPort(o.Address, strconv.Itoa(peerPort))
	return start(o.Dir, program,
		"--data-dir", filepath.Join(o.Dir, "etcd"),
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "default="+peer,
		"--unsafe-no-fsync",
	)
}

// startServer runs kube-apiserver with as little around it as it allows.
func startServer(program string, o Options, etcd, port int) (*process, error) {
	file := func(name string) string { return filepath.Join(o.Dir, name) }
	return start(o.Dir, program,
		"--etcd-servers", "http://"+net.JoinHostPort(o.Address, strconv.Itoa(etcd)),
		"--bind-address", o.Address, "--secure-port", strconv.Itoa(port),
		// Other machines would be told where it is; there are none.
		"--endpoint-reconciler-type", "none", "--external-hostname", "localhost",
		"--service-cluster-ip-range", "10.96.0.0/24",
		"--client-ca-file", file(fileAuthority),
		"--tls-cert-file", file(fileServer), "--tls-private-key-file", file(fileServerKey),
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", file(fileAccountKey), "--service-account-signing-key-file", file(fileAccountKey),
		"--authorization-mode", "RBAC",
		"--allow-privileged",
		// No controller makes service accounts here, nor takes the taint off a new node.
		"--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition",
		"--enable-priority-and-fairness=false",
	)
}
