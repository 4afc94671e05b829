#!/bin/bash
# The package's service under systemd. It prints what it finds as name=value.
set -u
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

facts() {
	ip link set lo up
	ip link add eth1 type veth peer name server1
	ip link set server1 up
	ip addr add 10.77.0.1/24 dev eth1
	ip link set eth1 up
	cat >/etc/provision/provision.yaml <<-EOF
		network: {interface: eth1, address: 10.77.0.1}
		dhcp: {unicast: true, subnets: [{cidr: 10.77.0.0/24, range: 10.77.0.100-10.77.0.200}]}
		ipxeDir: /share/ipxe
		power: {parallel: 8}
	EOF
	mkdir -p /etc/provision/nodes/a
	cat >/etc/provision/nodes/a/n1.yaml <<-EOF
		schematicID: 376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f202ec7d603ba
		talosVersion: v1.13.0
		ip: 10.77.0.11
		netmask: 255.255.255.0
		gateway: 10.77.0.1
		bmc: {address: 10.77.0.99, username: a, passwordEnv: BMC_PASSWORD}
	EOF
	echo 'BMC_PASSWORD=for-the-service' >/etc/provision/secrets.env
	chmod 600 /etc/provision/secrets.env

	timeout 60 systemctl start provision
	echo "start=$?"
	pid=$(systemctl show -P MainPID provision)
	status() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$pid/status"; }
	echo "active=$(systemctl show -P ActiveState provision)"
	echo "user=$(stat -c %U "/proc/$pid")"
	echo "permitted=$(status CapPrm)"
	echo "bounding=$(status CapBnd)"
	echo "nonewprivs=$(status NoNewPrivs)"
	echo "seccomp=$(status Seccomp)"
	echo "files=$(awk '/Max open files/ { print ($4 > 4096) ? "many" : $4 }' "/proc/$pid/limits")"
	echo "secret=$(tr '\0' '\n' <"/proc/$pid/environ" | grep -c '^BMC_PASSWORD=for-the-service$')"
	# What it can write to, as its own namespace of mounts has it.
	for folder in / /usr /etc/provision /home /var/lib/provision /var/cache/provision; do
		echo "mount:$folder=$(nsenter -t "$pid" -m findmnt -n -o OPTIONS -T "$folder" | cut -d, -f1)"
	done
	echo "dhcp=$(ss -Hlnu 'sport = :67' | wc -l)"
	echo "tftp=$(ss -Hlnu 'sport = :69' | wc -l)"
	echo "packet=$(ss -Hl0 | grep -c eth1)"
	echo "file=$(curl -s --max-time 10 tftp://10.77.0.1/snponly.efi | sha256sum | cut -d' ' -f1)"
	echo "script=$(curl -s --max-time 10 http://10.77.0.1:8080/boot.ipxe | head -n 1)"
	echo "state=$(stat -c '%U %a' /var/lib/provision)"
	provision healthz --ready --config /etc/provision/provision.yaml >/dev/null
	echo "healthz=$?"
	su -s /bin/sh provision -c 'provision healthz --config /etc/provision/provision.yaml' >/dev/null
	echo "healthzbyuser=$?"

	sed -i 's/parallel: 8/parallel: 2/' /etc/provision/provision.yaml
	timeout 20 systemctl reload provision
	echo "reload=$?"
	echo "reloaded=$(journalctl -u provision --no-pager -o cat | grep -c 'the configuration was reloaded')"

	# One that is stuck is started again by the watchdog; the unit's own minute is too long for a test.
	mkdir -p /run/systemd/system/provision.service.d
	printf '[Service]\nWatchdogSec=3\nTimeoutAbortSec=2\n' >/run/systemd/system/provision.service.d/quick.conf
	systemctl daemon-reload
	timeout 60 systemctl restart provision
	echo "restart=$?"
	pid=$(systemctl show -P MainPID provision)
	kill -STOP "$pid"
	for _ in $(seq 300); do
		now=$(systemctl show -P MainPID provision)
		[ "$now" != "$pid" ] && [ "$now" != 0 ] && [ "$(systemctl show -P ActiveState provision)" = active ] && break
		sleep 0.1
	done
	[ "$now" != "$pid" ] && [ "$now" != 0 ] && echo "watchdog=started again" || echo "watchdog=$(systemctl show -P ActiveState provision) $now"

	timeout 60 systemctl stop provision
	echo "stop=$?"
	echo "result=$(systemctl show -P Result provision)"
	echo "denied=$(journalctl -u provision --no-pager -o cat | grep -ciE 'operation not permitted|permission denied|read-only file system')"
}

facts >/share/facts 2>&1
journalctl -u provision --no-pager >/share/journal 2>&1
systemctl poweroff --force --no-block
