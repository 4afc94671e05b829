#!/usr/bin/env bash
# Builds the container image with buildah, podman or docker, whichever is here, and
# prints its name: build.sh NAME:TAG...
#
#   VERSION              what `provision version` says
#   GO_IMAGE, DEBIAN_IMAGE   what to build on, best with a digest; without a registry they are made here
#   IPXE=source IPXE_REF=COMMIT [IPXE_URL=…]   iPXE from source, which needs a way to it
#   SOURCE_DATE_EPOCH    the time of every file; that of the last commit without it
#   IMAGE_FLAGS          more for the tool, such as --no-cache
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || {
	echo "image: name the image to build, such as talos-provision:dev" >&2
	exit 2
}

VERSION=${VERSION:-dev}
IPXE=${IPXE:-debian}
GO_IMAGE=${GO_IMAGE:-}
DEBIAN_IMAGE=${DEBIAN_IMAGE:-}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export LC_ALL=C

say() { printf 'image: %s\n' "$*" >&2; }
fail() {
	say "$*"
	exit 1
}

tool() {
	local t
	for t in buildah podman docker; do
		[ "$t" = docker ] && ! docker info >/dev/null 2>&1 && continue # the client alone builds nothing
		command -v "$t" >/dev/null && echo "$t" && return
	done
	fail "no buildah, podman or running docker here: install one of them, or run deploy/image/deps.sh"
}

# default_of ARG: the image that the Dockerfile names.
default_of() { sed -n "s/^ARG $1=//p" Dockerfile | head -n 1; }

# bases settles what to build on: what was given, else what the registry has, else what is made here.
bases() {
	[ -z "$GO_IMAGE" ] || [ -z "$DEBIAN_IMAGE" ] || return 0
	local go debian
	go=${GO_IMAGE:-$(default_of GO_IMAGE)} debian=${DEBIAN_IMAGE:-$(default_of DEBIAN_IMAGE)}
	if [ "$TOOL" = docker ] || pull "$go" && pull "$debian"; then
		GO_IMAGE=$go DEBIAN_IMAGE=$debian
		return
	fi
	say "no registry is to be had for $debian and $go: building on a Debian made here, with this machine's Go"
	local made
	made=$(bash deploy/image/base.sh "$TOOL") || exit 1
	DEBIAN_IMAGE=${made% *} GO_IMAGE=${made#* }
	HOST_GO=$(go env GOROOT) || fail "there is no Go here: install the version that go.mod names"
}

pull() { timeout 120 "$TOOL" pull -q "$1" >/dev/null 2>&1; }

# host_args are what only buildah and podman can do: the machine's Go and its
# caches in the build stage, one time for all files.
host_args() {
	ARGS+=(--isolation chroot --format docker --timestamp "$SOURCE_DATE_EPOCH" --layers)
	[ -z "$HOST_GO" ] || ARGS+=(-v "$HOST_GO:/usr/local/go:ro")
	command -v go >/dev/null || return 0
	local cache modules
	cache=$(go env GOCACHE) modules=$(go env GOMODCACHE)
	mkdir -p "$cache" "$modules"
	ARGS+=(-v "$cache:/host/go-build" -v "$modules:/host/go-mod" --build-arg GOCACHE=/host/go-build --build-arg GOMODCACHE=/host/go-mod)
}

# go_args hand on how this machine gets Go modules, without writing it anywhere.
go_args() {
	command -v go >/dev/null || return 0
	local name value
	for name in GOPROXY GOSUMDB GONOSUMDB GOPRIVATE GOFLAGS; do
		value=$(go env "$name")
		[ -z "$value" ] || ARGS+=(--build-arg "$name=$value")
	done
}

TOOL=$(tool)
HOST_GO=
ARGS=()
bases
if [ "$TOOL" = docker ]; then ARGS+=(--build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH"); else host_args; fi
go_args
for name in "$@"; do ARGS+=(-t "$name"); done
for pair in "VERSION=$VERSION" "IPXE=$IPXE" ${IPXE_REF:+"IPXE_REF=$IPXE_REF"} ${IPXE_URL:+"IPXE_URL=$IPXE_URL"} \
	"GO_IMAGE=$GO_IMAGE" "DEBIAN_IMAGE=$DEBIAN_IMAGE" "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)" \
	"CREATED=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH"; do
	ARGS+=(--build-arg "$pair")
done
# shellcheck disable=SC2086 # a list of flags
"$TOOL" build "${ARGS[@]}" ${IMAGE_FLAGS:-} . >&2
say "$1 is built with $TOOL on $DEBIAN_IMAGE"
echo "$1"
