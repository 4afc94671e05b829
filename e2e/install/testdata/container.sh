#!/bin/bash
# Runs the bundles version, none and serve with crun, and prints what it finds as
# name=value: container.sh FOLDER. It must run in mount and network namespaces of
# its own (unshare -m -n).
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin

cd "$1" || exit 1
# An old crun does not take both hierarchies of cgroups at once; it needs none here.
umount -l /sys/fs/cgroup/unified 2>/dev/null
run() { crun --root "$PWD/run" --cgroup-manager=disabled run --bundle "$1" "provision-$1-$$"; }

ip link set lo up
ip link add eth1 type veth peer name server1
ip link set server1 up
ip addr add 10.77.0.1/24 dev eth1
ip link set eth1 up
mkdir -p config/nodes/a state cache run
chmod 755 . config config/nodes config/nodes/a
chown 65532:65532 state cache
cat >config/provision.yaml <<-EOF
	network: {interface: eth1, address: 10.77.0.1}
	dhcp: {unicast: true, subnets: [{cidr: 10.77.0.0/24, range: 10.77.0.100-10.77.0.200}]}
EOF
cat >config/nodes/a/n1.yaml <<-EOF
	schematicID: 376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f202ec7d603ba
	talosVersion: v1.13.0
	ip: 10.77.0.11
	netmask: 255.255.255.0
	gateway: 10.77.0.1
	bmc: {address: 10.77.0.99, username: a, passwordEnv: BMC_PASSWORD}
EOF

echo "version=$(run version)"
if run none >none.out 2>&1; then
	echo "none=ran"
elif grep -qi 'operation not permitted' none.out; then
	echo "none=refused"
else
	echo "none=$(cat none.out)"
fi

run serve >serve.log 2>&1 &
crun=$!
name=provision-serve-$$
inside() { crun --root "$PWD/run" --cgroup-manager=disabled exec --user 65532:65532 "$name" "$@"; }
for _ in $(seq 300); do
	inside /usr/bin/provision healthz --ready >/dev/null 2>&1
	ready=$?
	[ "$ready" = 0 ] && break
	kill -0 "$crun" 2>/dev/null || break
	sleep 0.1
done
echo "ready=$ready"

pid=$(crun --root "$PWD/run" --cgroup-manager=disabled state "$name" | awk -F'[:, ]+' '/"pid"/ { print $3 }')
status() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$pid/status"; }
echo "user=$(status Uid)"
echo "permitted=$(status CapPrm)"
echo "bounding=$(status CapBnd)"
# Sockets belong to whom the kernel says: column 8 of udp is the user, and so is column 8 of packet.
owner() { awk -v port="$1" '{ split($2, local, ":") } local[2] == port { print $8; exit }' /proc/self/net/udp /proc/self/net/udp6; }
echo "dhcp=$(owner 0043)"
echo "tftp=$(owner 0045)"
echo "packet=$(awk 'NR > 1 { print $8; exit }' /proc/self/net/packet)"
echo "script=$(curl -s --max-time 10 http://10.77.0.1:8080/boot.ipxe | head -n 1)"
echo "file=$(curl -s --max-time 10 tftp://10.77.0.1/snponly.efi | sha256sum | cut -d' ' -f1)"
echo "write=$(inside /bin/sh -c 'echo x >/usr/x' 2>&1 | grep -o 'Read-only file system')"
kill -TERM "$pid"
wait "$crun"
echo "stop=$?"
echo "state=$(stat -c %u state/state.db)"
cat serve.log >&2
