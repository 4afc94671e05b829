#!/bin/sh
# Brings what the end-to-end tests need beside Go: QEMU and its firmware, iPXE
# binaries to serve, and a Linux kernel for the guest. Safe to run again: it
# looks first and leaves at once when nothing lacks.
#
# Debian packages are installed (as root). iPXE and the kernel are only
# unpacked into a cache folder, and the system's apt sources stay as they are:
#
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/ipxe/    iPXE binaries
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/kernel/  kernel and modules
set -eu

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision
IPXE=$CACHE/ipxe
KERNEL=$CACHE/kernel

# The iPXE of Debian 13: older builds know neither autoexec.ipxe nor arm64.
IPXE_SUITE=trixie
IPXE_SUMS='9a624b4e05ebc25718a7658356628a352532bd278e7a50465a36ab94a7c4e580  snponly.efi
6095eb23f4173674a3dc124a2a6d3cdeed514172793306a10d525f57b97cdc6a  ipxe-amd64.efi
5369815eee98bf98b28a18af9a57207f9096a3b4e542ed3df1eb3f5b28d3d9a9  ipxe-arm64.efi
391bfe580ec9f823d046ee390765d6c389f482b9a8b9fae0f90871cd8ff57828  undionly.kpxe
2593429c7c5c9cdd9376206c08dd1752fab23693fbf80a2576f44880c9f9f2fa  ipxe.pxe'

# A package and what shows that it is there: a command, or a file (a pattern).
PACKAGES='qemu-system-x86 qemu-system-x86_64
ovmf /usr/share/OVMF/OVMF_CODE*.fd
seabios /usr/share/seabios/bios-256k.bin
ipxe-qemu /usr/lib/ipxe/qemu/pxe-virtio.rom
iproute2 ip
dosfstools mkfs.vfat
mtools mcopy
xz-utils xz
udhcpc udhcpc
isc-dhcp-client dhclient
curl curl'

PATH=$PATH:/usr/sbin:/sbin
export PATH LC_ALL=C DEBIAN_FRONTEND=noninteractive

say() { printf 'deps: %s\n' "$*" >&2; }
fail() {
	say "$*"
	exit 1
}

# present PROBE: does the command or the file exist?
present() {
	case $1 in
	/*) for f in $1; do [ -e "$f" ] && return 0; done; return 1 ;;
	*) command -v "$1" >/dev/null 2>&1 ;;
	esac
}

lacking_packages() {
	printf '%s\n' "$PACKAGES" | while read -r package probe; do
		present "$probe" || printf '%s ' "$package"
	done
}

ipxe_good() {
	[ -d "$IPXE" ] && (cd "$IPXE" && printf '%s\n' "$IPXE_SUMS" | sha256sum --check --status 2>/dev/null)
}

kernel_good() {
	present "$KERNEL/boot/vmlinuz-*" || return 1
	present "$KERNEL/lib/modules/*/kernel" || present "$KERNEL/usr/lib/modules/*/kernel"
}

report() {
	say "iPXE binaries: $IPXE"
	for f in "$KERNEL"/boot/vmlinuz-*; do say "guest kernel: $f"; done
	say "everything is here"
}

need_debian() {
	[ -r /etc/debian_version ] && command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 && return
	fail "this is not a Debian machine, so nothing can be installed here. Missing: $*. Install them by hand (see the top of this script for where they belong)"
}

# refresh updates the package lists, which a fresh image does not carry.
refresh() {
	[ "$(id -u)" = 0 ] || fail "the package lists are missing or old; run 'apt-get update' as root, then this script again"
	say "updating package lists"
	apt-get -qq update || fail "apt-get update failed: check the apt sources and the network"
}

install_packages() {
	need_debian "$*"
	[ "$(id -u)" = 0 ] || fail "missing packages: $*. Run this script as root, or: apt-get install --no-install-recommends $*"
	say "installing $*"
	# The first attempt fails with old or no package lists; what is wrong beyond that, the second one shows.
	# shellcheck disable=SC2086 # a list of package names
	apt-get -qq install -y --no-install-recommends $* >/dev/null 2>&1 && return
	refresh
	# shellcheck disable=SC2086
	apt-get -qq install -y --no-install-recommends $* >&2 || fail "apt-get install $* failed, see above"
}

# mirror prints "URI keyring" of the machine's own Debian archive: of the main
# suite, not of security or updates, which do not hold what is wanted. It reads
# both forms of apt sources.
mirror() {
	codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		while read -r uri release component; do
			[ "$release $component" = "$codename main" ] || continue
			key=$(cat /etc/apt/sources.list.d/*.sources 2>/dev/null | awk -v uri="${uri%/}" '
				/^$/ { if (hit && key) exit } /^[Uu][Rr][Ii]s:/ { sub(/\/$/, "", $2); hit = ($2 == uri) }
				/^[Ss]igned-[Bb]y:/ && $2 ~ /^\// { key = $2; if (hit) { print key; exit } }')
			printf '%s %s\n' "$uri" "${key:-/usr/share/keyrings/debian-archive-keyring.gpg}"
			break
		done
}

# fetch_ipxe downloads with apt directories of its own, so that the newer suite
# never reaches the machine's sources.
fetch_ipxe() {
	need_debian "iPXE binaries in $IPXE"
	found=$(mirror)
	[ -n "$found" ] || fail "no Debian archive found in the apt sources of this machine: put the files of the Debian $IPXE_SUITE package 'ipxe' into $IPXE"
	work=$(mktemp -d "$CACHE/fetch.XXXXXX")
	mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
	printf 'deb [signed-by=%s] %s %s main\n' "${found#* }" "${found%% *}" "$IPXE_SUITE" >"$work/list"
	# Downloading as this user: the _apt user cannot read a private cache folder.
	set -- -qq -oDir::Etc::sourcelist="$work/list" -oDir::Etc::sourceparts=/dev/null \
		-oDir::State::Lists="$work/lists" -oDir::Cache="$work/cache" -oDir::State::status=/dev/null -oAPT::Sandbox::User="$(id -un)"
	say "downloading iPXE ($IPXE_SUITE)"
	(cd "$work" && apt-get "$@" update && apt-get "$@" download ipxe >&2 && dpkg -x ipxe_*.deb unpacked) ||
		fail "cannot download the package ipxe of $IPXE_SUITE: check the network; on an old Debian, install a newer debian-archive-keyring"
	rm -rf "$IPXE"
	mv "$work/unpacked/usr/lib/ipxe" "$IPXE"
	rm -rf "$work"
	ipxe_good || fail "the downloaded iPXE binaries are not the ones the tests were written for (SHA-256 differs): compare 'sha256sum $IPXE/*' with the table in $0 and update it if the package was updated"
}

# fetch_kernel unpacks the small kernel made for virtual machines. It is never
# installed: no boot loader of this machine learns of it.
fetch_kernel() {
	need_debian "a guest kernel in $KERNEL"
	meta=linux-image-cloud-amd64
	package=$(apt-cache depends "$meta" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
	if [ -z "$package" ]; then
		refresh
		package=$(apt-cache depends "$meta" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
	fi
	[ -n "$package" ] || fail "the apt sources of this machine know no $meta (is this amd64?): unpack such a kernel package into $KERNEL with dpkg -x"
	work=$(mktemp -d "$CACHE/fetch.XXXXXX")
	say "downloading $package"
	download="apt-get -qq -oAPT::Sandbox::User=$(id -un) download $package"
	(cd "$work" && { $download >&2 || { refresh && $download >&2; } } && dpkg -x linux-image-*.deb unpacked) ||
		fail "cannot download or unpack $package: check the network and the space in $CACHE"
	rm -rf "$KERNEL"
	mv "$work/unpacked" "$KERNEL"
	rm -rf "$work"
	kernel_good || fail "$package holds no kernel or modules where they are expected: look into $KERNEL"
}

main() {
	lacking=$(lacking_packages)
	if [ -z "$lacking" ] && ipxe_good && kernel_good; then
		report
		return
	fi
	mkdir -p "$CACHE"
	# One run at a time: two would unpack over each other.
	exec 9>"$CACHE/deps.lock"
	flock 9
	rm -rf "$CACHE"/fetch.*
	# shellcheck disable=SC2086 # a list of package names
	[ -z "$lacking" ] || install_packages $lacking
	lacking=$(lacking_packages)
	[ -z "$lacking" ] || fail "installed, but not where the tests look: $lacking. Correct the list PACKAGES in $0 for this release"
	ipxe_good || fetch_ipxe
	kernel_good || fetch_kernel
	report
}

main
