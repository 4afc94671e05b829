#!/usr/bin/env bash
# Makes the two images that the Dockerfile builds on, for where no registry can be
# reached: base.sh TOOL (buildah or podman). Debian comes from the archive that the
# machine's own apt sources name, Go from the machine.
#
#   localhost/provision-base/debian:SUITE-ARCH   a minimal Debian
#   localhost/provision-base/go:SUITE-ARCH       the same; build.sh mounts the machine's Go into it
#
# The Debian is kept as a file, so that it is fetched once:
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/image/
set -euo pipefail

TOOL=$1
SUITE=${SUITE:-trixie}
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/image
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C

say() { printf 'image base: %s\n' "$*" >&2; }
fail() {
	say "$*"
	exit 1
}

# mirror prints the address of the Debian archive that this machine uses.
mirror() {
	local codename
	# shellcheck disable=SC1091 # every Debian has it
	codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
	# shellcheck disable=SC2016 # apt fills these in
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		awk -v release="$codename" '$2 == release && $3 == "main" { print $1; exit }'
}

# debian FILE: a minimal Debian as a tar file, without what differs from one time to the next.
debian() {
	local uri work
	[ "$(id -u)" = 0 ] || fail "only root can make a Debian here: run this as root, or give DEBIAN_IMAGE and GO_IMAGE that a registry has"
	command -v debootstrap >/dev/null || fail "debootstrap is missing: run deploy/image/deps.sh"
	uri=$(mirror)
	[ -n "$uri" ] || fail "the apt sources of this machine name no Debian archive: give DEBIAN_IMAGE and GO_IMAGE that a registry has"
	work=$(mktemp -d "$CACHE/debian.XXXXXX")
	# shellcheck disable=SC2064 # the folder of now
	trap "rm -rf '$work'" EXIT
	say "making Debian $SUITE from the machine's archive"
	# libcap2-bin is for the build stage, which then needs no network for it.
	debootstrap --variant=minbase --keyring="$KEYRING" --include=ca-certificates,libcap2-bin "$SUITE" "$work/root" "$uri" >"$work/log" 2>&1 || {
		tail -n 5 "$work/log" >&2
		fail "debootstrap failed, see above: check the network; on an old Debian, install a newer debian-archive-keyring"
	}
	(cd "$work/root" && rm -rf var/lib/apt/lists/* var/cache/apt/*.bin var/cache/apt/archives/*.deb var/log/* usr/share/man/* \
		usr/share/info/* usr/share/locale/* etc/machine-id etc/resolv.conf etc/hostname)
	find "$work/root/usr/share/doc" -type f ! -name copyright -delete
	tar -C "$work/root" --sort=name --mtime=@0 --numeric-owner --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' -cf "$1.new" .
	mv "$1.new" "$1"
	rm -rf "$work"
	trap - EXIT
}

main() {
	local arch file name
	arch=$(dpkg --print-architecture)
	file=$CACHE/debian-$SUITE-$arch.tar
	name=localhost/provision-base
	mkdir -p "$CACHE"
	exec 9>"$CACHE/base.lock"
	flock 9
	[ -s "$file" ] || debian "$file"
	"$TOOL" images -q "$name/debian:$SUITE-$arch" >/dev/null 2>&1 ||
		printf 'FROM scratch\nADD debian-%s-%s.tar /\nCMD ["/bin/sh"]\n' "$SUITE" "$arch" |
		"$TOOL" build -q --timestamp 0 -t "$name/debian:$SUITE-$arch" -f - "$CACHE" >/dev/null
	"$TOOL" images -q "$name/go:$SUITE-$arch" >/dev/null 2>&1 ||
		printf 'FROM %s/debian:%s-%s\nENV PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin\n' "$name" "$SUITE" "$arch" |
		"$TOOL" build -q --timestamp 0 -t "$name/go:$SUITE-$arch" -f - "$CACHE" >/dev/null
	printf '%s %s\n' "$name/debian:$SUITE-$arch" "$name/go:$SUITE-$arch"
}

main
