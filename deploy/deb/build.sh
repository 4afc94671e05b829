#!/usr/bin/env bash
# Builds the Debian package and prints its file: build.sh DIR
#
#   VERSION            such as v1.2.3
#   ARCH               amd64 or arm64; this machine's without it
#   SOURCE_DATE_EPOCH  the time of every file; that of the last commit without it
set -euo pipefail
cd "$(dirname "$0")/../.."

OUT=$(mkdir -p "$1" && cd "$1" && pwd)
VERSION=${VERSION:-dev}
ARCH=${ARCH:-$(go env GOHOSTARCH)}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export LC_ALL=C TZ=UTC

# program ARCH FILE: as the Makefile, the image and the release build it.
program() {
	CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o "$2" ./cmd/provision
}

changelog() {
	cat <<-EOF
		- semver: "$DEB_VERSION"
		  date: $DEB_MTIME
		  packager: provision maintainers <maintainers@talos-provision.org>
		  deb: {urgency: medium, distributions: [stable]}
		  changes: [{note: "See CHANGELOG.md of version $VERSION."}]
	EOF
}

DEB_BUILD=$(mktemp -d)
trap 'rm -rf "$DEB_BUILD"' EXIT
DEB_ARCH=$ARCH
DEB_VERSION=$(sh deploy/deb/version.sh "$VERSION")
DEB_MTIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

program "$ARCH" "$DEB_BUILD/provision"
# The pages and completions come from a program that runs here.
run=$DEB_BUILD/provision
if [ "$ARCH" != "$(go env GOHOSTARCH)" ]; then
	run=$DEB_BUILD/provision-here
	program "$(go env GOHOSTARCH)" "$run"
fi
mkdir -p "$DEB_BUILD/man" "$DEB_BUILD/completions"
(cd "$DEB_BUILD" && "$run" man man) >&2
gzip -9 -n "$DEB_BUILD"/man/*.1
"$run" completion bash >"$DEB_BUILD/completions/provision.bash"
"$run" completion zsh >"$DEB_BUILD/completions/_provision"
"$run" completion fish >"$DEB_BUILD/completions/provision.fish"
go run ./deploy/image/sbom -binary "$DEB_BUILD/provision" -version "$VERSION" -epoch "$SOURCE_DATE_EPOCH" -out "$DEB_BUILD/sbom.cdx.json"
GOOS=linux GOARCH=$ARCH sh deploy/image/notices.sh | gzip -9 -n >"$DEB_BUILD/THIRD-PARTY-NOTICES.gz"
changelog >"$DEB_BUILD/changelog.yaml"

# nfpm writes files by the times they have in the build folder, where mtime does not hold.
find "$DEB_BUILD" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
file=$OUT/provision_${DEB_VERSION}_$ARCH.deb
sed -e "s|\${DEB_BUILD}|$DEB_BUILD|g; s|\${DEB_ARCH}|$DEB_ARCH|g; s|\${DEB_VERSION}|$DEB_VERSION|g; s|\${DEB_MTIME}|$DEB_MTIME|g" \
	deploy/deb/nfpm.yaml >"$DEB_BUILD/nfpm.yaml"
go tool -modfile=tools/nfpm/go.mod nfpm package --config "$DEB_BUILD/nfpm.yaml" --packager deb --target "$file" >&2
echo "$file"
