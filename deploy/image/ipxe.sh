#!/bin/sh
# Builds iPXE from source: ipxe.sh URL COMMIT DIR
# It leaves DIR/usr/lib/ipxe/* as Debian's package names them, with HTTPS, and
# where they come from in DIR/usr/share/doc/ipxe. It needs a way to URL and to
# Debian's archive, and runs inside the build, see Dockerfile.
set -eu

URL=$1 REF=$2 DIR=$3

[ -n "$REF" ] || {
	echo "ipxe: name the commit to build, as --build-arg IPXE_REF=…: a branch would give another image each day" >&2
	exit 2
}

# A file that iPXE builds, and what it is called here.
TARGETS='bin/undionly.kpxe undionly.kpxe
bin/ipxe.pxe ipxe.pxe
bin-x86_64-efi/snponly.efi snponly.efi
bin-x86_64-efi/ipxe.efi ipxe-amd64.efi
bin-arm64-efi/snponly.efi ipxe-arm64.efi'

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends ca-certificates git gcc libc6-dev make perl xz-utils liblzma-dev
# shellcheck disable=SC2015 # either one will do
[ "$(dpkg --print-architecture)" = amd64 ] && cross=gcc-aarch64-linux-gnu || cross=gcc-x86-64-linux-gnu
apt-get install -qq -y --no-install-recommends "$cross"

work=$(mktemp -d)
git -C "$work" init -q
git -C "$work" fetch -q --depth 1 "$URL" "$REF"
git -C "$work" checkout -q FETCH_HEAD
mkdir -p "$work/src/config/local" "$DIR/usr/lib/ipxe" "$DIR/usr/share/doc/ipxe"
echo '#define DOWNLOAD_PROTO_HTTPS' >"$work/src/config/local/general.h"

# cross_of TARGET: the prefix of the compiler for it, where it is not this machine's.
cross_of() {
	case $(uname -m)/$1 in
	x86_64/bin-arm64*) echo aarch64-linux-gnu- ;;
	aarch64/bin-arm64* | x86_64/*) ;;
	*) echo x86_64-linux-gnu- ;;
	esac
}

printf '%s\n' "$TARGETS" | while read -r target name; do
	make -s -C "$work/src" -j "$(nproc)" CROSS_COMPILE="$(cross_of "$target")" "$target"
	cp "$work/src/$target" "$DIR/usr/lib/ipxe/$name"
done
printf 'Built from %s, commit %s, with DOWNLOAD_PROTO_HTTPS.\n' "$URL" "$REF" >"$DIR/usr/share/doc/ipxe/README"
cp "$work"/COPYING* "$DIR/usr/share/doc/ipxe/"
rm -rf "$work"
