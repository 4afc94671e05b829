#!/bin/sh
# Installs the servers that `make bench-boot` runs beside ours: dnsmasq, Kea,
# tftpd-hpa and nginx from Debian, and the clients curl, perfdhcp and wrk. None of
# them is started: a policy-rc.d forbids it while they are installed, and where
# systemd runs, the services are disabled afterwards.
set -eu

# A package and the program that shows that it is there.
PACKAGES='dnsmasq-base dnsmasq
kea-dhcp4-server kea-dhcp4
kea-admin perfdhcp
tftpd-hpa in.tftpd
nginx-light nginx
wrk wrk
curl curl
iproute2 ip'

# What the packages above would start at the next boot.
SERVICES='kea-dhcp4-server tftpd-hpa nginx'

POLICY=/usr/sbin/policy-rc.d
PATH=$PATH:/usr/sbin:/sbin
export PATH LC_ALL=C DEBIAN_FRONTEND=noninteractive

say() { printf 'bench deps: %s\n' "$*" >&2; }
fail() {
	say "$*"
	exit 1
}

lacking() {
	printf '%s\n' "$PACKAGES" | while read -r package program; do
		command -v "$program" >/dev/null 2>&1 || printf '%s ' "$package"
	done
}

missing=$(lacking)
[ -n "$missing" ] || exit 0
command -v apt-get >/dev/null 2>&1 || fail "this is not a Debian machine. Install by hand: $missing"
[ "$(id -u)" = 0 ] || fail "missing packages: $missing. Run this script as root"

# A guard that somebody else put there (as container images do) stays.
if [ ! -e "$POLICY" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$POLICY"
	chmod 755 "$POLICY"
	trap 'rm -f "$POLICY"' EXIT
	trap 'exit 1' INT TERM HUP
fi
say "installing $missing"
# shellcheck disable=SC2086 # a list of package names
if ! apt-get -qq install -y --no-install-recommends $missing >/dev/null 2>&1; then
	apt-get -qq update || fail "apt-get update failed: check the apt sources and the network"
	# shellcheck disable=SC2086
	apt-get -qq install -y --no-install-recommends $missing >&2 || fail "apt-get install $missing failed, see above"
fi
if [ -d /run/systemd/system ]; then
	for service in $SERVICES; do systemctl disable --quiet --now "$service" 2>/dev/null || true; done
fi
missing=$(lacking)
[ -z "$missing" ] || fail "installed, but the programs of these packages are not in the PATH: $missing"
