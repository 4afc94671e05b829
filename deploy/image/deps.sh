#!/bin/sh
# Installs what `make image` and `make release-check` need on Debian: buildah, crun,
# debootstrap for where no registry can be reached, lintian, and systemd-nspawn, which
# boots the package.
set -eu

# A package and the program that shows that it is there.
PACKAGES='buildah buildah
crun crun
debootstrap debootstrap
debian-archive-keyring /usr/share/keyrings/debian-archive-keyring.gpg
libcap2-bin getcap
lintian lintian
man-db man
bash-completion /usr/share/bash-completion/bash_completion
curl curl
systemd-container systemd-nspawn
systemd-sysv /lib/systemd/systemd
iproute2 ip'

PATH=$PATH:/usr/sbin:/sbin
export PATH LC_ALL=C DEBIAN_FRONTEND=noninteractive

say() { printf 'image deps: %s\n' "$*" >&2; }
fail() {
	say "$*"
	exit 1
}

lacking() {
	printf '%s\n' "$PACKAGES" | while read -r package probe; do
		[ -e "$probe" ] || command -v "$probe" >/dev/null 2>&1 || printf '%s ' "$package"
	done
}

missing=$(lacking)
[ -n "$missing" ] || exit 0
command -v apt-get >/dev/null 2>&1 || fail "this is not a Debian machine. Install by hand: $missing"
[ "$(id -u)" = 0 ] || fail "missing packages: $missing. Run this script as root"
say "installing $missing"
# shellcheck disable=SC2086 # a list of package names
if ! apt-get -qq install -y --no-install-recommends $missing >/dev/null 2>&1; then
	apt-get -qq update || fail "apt-get update failed: check the apt sources and the network"
	# shellcheck disable=SC2086
	apt-get -qq install -y --no-install-recommends $missing >&2 || fail "apt-get install $missing failed, see above"
fi
missing=$(lacking)
[ -z "$missing" ] || fail "installed, but these are not where this script looks: $missing"
