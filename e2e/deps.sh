#!/bin/sh
# Brings what the end-to-end tests need beside Go: QEMU and its firmware, iPXE
# binaries to serve, a Linux kernel for the guest, and DHCP and TFTP programs to
# test against. Safe to run again: it looks first and leaves at once when nothing
# lacks.
#
# Debian packages are installed (as root); none of them brings a service that
# would start. The rest is only unpacked into a cache folder, and the system's
# apt sources and architectures stay as they are:
#
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/ipxe/          iPXE binaries
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/kernel/        kernel and modules
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/kernel-arm64/  the same for arm64
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/dhcrelay/      ISC's DHCP relay
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/systemd-boot/  systemd's EFI stub for UKIs
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/sbsigntool/    what signs them
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/talosctl/      talosctl, built from e2e/talosctl/go.mod
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/etcd/          etcd
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/prometheus/    promtool, which checks metrics and alert rules
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/kube-apiserver/  kube-apiserver, built from e2e/kubernetes/go.mod
#   ${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision/axe/           axe-core, which checks pages for who cannot see them
set -eu

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision
IPXE=$CACHE/ipxe
KERNEL=$CACHE/kernel
KERNEL_ARM64=$CACHE/kernel-arm64
DHCRELAY=$CACHE/dhcrelay
BOOTEFI=$CACHE/systemd-boot
SBSIGN=$CACHE/sbsigntool
STUB=usr/lib/systemd/boot/efi/linuxx64.efi.stub
TALOSCTL=$CACHE/talosctl/talosctl
TALOSCTL_MODULE=$(cd "$(dirname "$0")" && pwd)/talosctl
ETCD=$CACHE/etcd
PROMETHEUS=$CACHE/prometheus
AXE=$CACHE/axe
AXE_VERSION=4.14.1
AXE_SUM=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
KUBE=$CACHE/kube-apiserver/kube-apiserver
KUBE_MODULE=$(cd "$(dirname "$0")" && pwd)/kubernetes

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
busybox busybox
tmux tmux
udhcpc udhcpc
isc-dhcp-client dhclient
chromium chromium
fonts-dejavu-core /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
curl curl
wget wget
openssl openssl
dnsmasq-base dnsmasq
kea-admin perfdhcp
tftp-hpa tftp
qemu-system-arm qemu-system-aarch64
qemu-efi-aarch64 /usr/share/AAVMF/AAVMF_CODE*.fd
bash-completion /usr/share/bash-completion/bash_completion
zsh zsh
fish fish
man-db man
jq jq
yamllint yamllint
systemd systemd-analyze
shellcheck shellcheck'

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

# talosctl_good: is it there, and of the version that go.mod names?
talosctl_good() {
	version=$(awk '$1 == "github.com/siderolabs/talos" { print $2 }' "$TALOSCTL_MODULE/go.mod")
	[ -x "$TALOSCTL" ] && "$TALOSCTL" version --client 2>/dev/null | grep -qF "$version"
}

# kube_good: is kube-apiserver there, and of the version that go.mod names?
kube_good() {
	kube_version=$(awk '/k8s.io\/kubernetes v/ { sub(/^require /, ""); print $2 }' "$KUBE_MODULE/go.mod")
	[ -x "$KUBE" ] && [ "$("$KUBE" --version 2>/dev/null)" = "Kubernetes $kube_version" ]
}

# axe_good: is axe-core there, and the file that the tests were written for?
axe_good() {
	[ -r "$AXE/axe.min.js" ] && printf '%s  %s\n' "$AXE_SUM" "$AXE/axe.min.js" | sha256sum --check --status 2>/dev/null
}

# kernel_good DIR
kernel_good() {
	present "$1/boot/vmlinuz-*" || return 1
	present "$1/lib/modules/*/kernel" || present "$1/usr/lib/modules/*/kernel"
}

unpacked_good() {
	ipxe_good && kernel_good "$KERNEL" && kernel_good "$KERNEL_ARM64" && present "$DHCRELAY/usr/sbin/dhcrelay" && present "$BOOTEFI/$STUB" && present "$SBSIGN/usr/bin/sbsign" && present "$ETCD/usr/bin/etcd" && present "$PROMETHEUS/usr/bin/promtool" && axe_good && talosctl_good && kube_good
}

report() {
	say "iPXE binaries: $IPXE"
	say "talosctl: $TALOSCTL"
	say "kube-apiserver: $KUBE"
	for f in "$KERNEL"/boot/vmlinuz-* "$KERNEL_ARM64"/boot/vmlinuz-*; do say "guest kernel: $f"; done
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

# elsewhere SUITE ARCHITECTURE makes the folder $work with apt directories of its
# own, so that neither a newer suite nor another architecture reaches the
# machine's own settings, and apt_elsewhere works with them.
elsewhere() {
	found=$(mirror)
	[ -n "$found" ] || return 1
	work=$(mktemp -d "$CACHE/fetch.XXXXXX")
	mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
	printf 'deb [signed-by=%s] %s %s main\n' "${found#* }" "${found%% *}" "$1" >"$work/list"
	architecture=$2
}

apt_elsewhere() {
	tool=$1
	shift
	# Downloading as this user: the _apt user cannot read a private cache folder.
	"$tool" -qq -oAPT::Architecture="$architecture" -oAPT::Architectures::="$architecture" \
		-oDir::Etc::sourcelist="$work/list" -oDir::Etc::sourceparts=/dev/null -oDir::State::Lists="$work/lists" \
		-oDir::Cache="$work/cache" -oDir::State::status=/dev/null -oAPT::Sandbox::User="$(id -un)" "$@"
}

fetch_ipxe() {
	need_debian "iPXE binaries in $IPXE"
	elsewhere "$IPXE_SUITE" "$(dpkg --print-architecture)" || fail "no Debian archive found in the apt sources of this machine: put the files of the Debian $IPXE_SUITE package 'ipxe' into $IPXE"
	say "downloading iPXE ($IPXE_SUITE)"
	(cd "$work" && apt_elsewhere apt-get update && apt_elsewhere apt-get download ipxe >&2 && dpkg -x ipxe_*.deb unpacked) ||
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
	kernel_good "$KERNEL" || fail "$package holds no kernel or modules where they are expected: look into $KERNEL"
}

# fetch_kernel_arm64 is the same for the 64-bit ARM guest.
fetch_kernel_arm64() {
	need_debian "a guest kernel for arm64 in $KERNEL_ARM64"
	elsewhere "$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")" arm64 || fail "no Debian archive found in the apt sources of this machine: unpack a linux-image-cloud-arm64 kernel into $KERNEL_ARM64 with dpkg -x"
	say "downloading a kernel for arm64"
	(
		cd "$work" && apt_elsewhere apt-get update &&
			package=$(apt_elsewhere apt-cache depends linux-image-cloud-arm64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1) &&
			apt_elsewhere apt-get download "$package" >&2 && dpkg -x linux-image-*.deb unpacked
	) || fail "cannot download a kernel for arm64: check the network and the space in $CACHE"
	rm -rf "$KERNEL_ARM64"
	mv "$work/unpacked" "$KERNEL_ARM64"
	rm -rf "$work"
	kernel_good "$KERNEL_ARM64" || fail "the kernel package for arm64 holds no kernel or modules where they are expected: look into $KERNEL_ARM64"
}

# fetch_unpacked PACKAGE DIR unpacks a package of this machine's Debian.
fetch_unpacked() {
	need_debian "$1 in $2"
	work=$(mktemp -d "$CACHE/fetch.XXXXXX")
	download="apt-get -qq -oAPT::Sandbox::User=$(id -un) download $1"
	say "downloading $1"
	(cd "$work" && { $download >&2 || { refresh && $download >&2; } } && dpkg -x "$1"_*.deb unpacked) ||
		fail "cannot download the package $1: check the network"
	rm -rf "$2"
	mv "$work/unpacked" "$2"
	rm -rf "$work"
}

# fetch_axe takes one file out of an npm package; nothing of it is run here.
fetch_axe() {
	command -v npm >/dev/null 2>&1 || fail "there is no npm to download axe-core with: install Node.js, or put axe.min.js of axe-core $AXE_VERSION into $AXE"
	work=$(mktemp -d "$CACHE/fetch.XXXXXX")
	say "downloading axe-core $AXE_VERSION"
	(cd "$work" && npm pack --silent "axe-core@$AXE_VERSION" >/dev/null && tar -xzf axe-core-*.tgz package/axe.min.js) ||
		fail "cannot download axe-core: check the network and npm's registry"
	mkdir -p "$AXE"
	mv "$work/package/axe.min.js" "$AXE/axe.min.js"
	rm -rf "$work"
	axe_good || fail "the downloaded axe-core is not the one the tests were written for (SHA-256 differs): compare AXE_SUM in $0"
}

# build_talosctl builds it from source, in a module of its own: the first time
# takes about five minutes of processor time.
build_talosctl() {
	command -v go >/dev/null 2>&1 || fail "there is no Go to build talosctl with: install the version that go.mod names"
	say "building talosctl $version"
	mkdir -p "${TALOSCTL%/*}"
	(cd "$TALOSCTL_MODULE" && CGO_ENABLED=0 go build -trimpath \
		-ldflags "-s -w -X github.com/siderolabs/talos/pkg/machinery/version.Tag=$version" \
		-o "$TALOSCTL.new" github.com/siderolabs/talos/cmd/talosctl) ||
		fail "talosctl cannot be built: check the network (a Go module proxy) and the space in the Go caches"
	mv "$TALOSCTL.new" "$TALOSCTL"
}

# build_kube builds kube-apiserver from source, in a module of its own: the first
# time takes longer than all the rest. It knows its version from the linker only.
build_kube() {
	command -v go >/dev/null 2>&1 || fail "there is no Go to build kube-apiserver with: install the version that go.mod names"
	say "building kube-apiserver $kube_version"
	mkdir -p "${KUBE%/*}"
	(cd "$KUBE_MODULE" && go build -trimpath \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$kube_version" \
		-o "$KUBE.new" k8s.io/kubernetes/cmd/kube-apiserver) ||
		fail "kube-apiserver cannot be built: check the network (a Go module proxy) and the space in the Go caches"
	mv "$KUBE.new" "$KUBE"
}

main() {
	lacking=$(lacking_packages)
	if [ -z "$lacking" ] && unpacked_good; then
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
	kernel_good "$KERNEL" || fetch_kernel
	kernel_good "$KERNEL_ARM64" || fetch_kernel_arm64
	# Not installed: the one would start a service, the other would upgrade systemd.
	present "$DHCRELAY/usr/sbin/dhcrelay" || fetch_unpacked isc-dhcp-relay "$DHCRELAY"
	present "$BOOTEFI/$STUB" || fetch_unpacked systemd-boot-efi "$BOOTEFI"
	present "$SBSIGN/usr/bin/sbsign" || fetch_unpacked sbsigntool "$SBSIGN"
	# This one would start a service too.
	present "$ETCD/usr/bin/etcd" || fetch_unpacked etcd-server "$ETCD"
	present "$PROMETHEUS/usr/bin/promtool" || fetch_unpacked prometheus "$PROMETHEUS"
	axe_good || fetch_axe
	talosctl_good || build_talosctl
	kube_good || build_kube
	report
}

main
