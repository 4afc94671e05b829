#!/usr/bin/env bash
# Builds what a release consists of, besides the image: dist.sh DIR
#
#   provision_VERSION_linux_ARCH.tar.gz   program, unit, manual, completions, licences, SBOM
#   provision_VERSION_ARCH.deb            the Debian package
#   provision_VERSION_linux_ARCH.cdx.json the SBOM by itself
#   SHA256SUMS                            of all of them
#
#   VERSION            such as v1.2.3
#   ARCHES             "amd64 arm64" without it
#   SOURCE_DATE_EPOCH  the time of every file; that of the last commit without it
set -euo pipefail
cd "$(dirname "$0")/../.."

OUT=$(mkdir -p "$1" && cd "$1" && pwd)
export VERSION=${VERSION:-dev}
ARCHES=${ARCHES:-amd64 arm64}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export LC_ALL=C TZ=UTC

say() { printf 'release: %s\n' "$*" >&2; }

# archive ARCH: the same files as the package, by their names in it.
archive() {
	local name=provision_${VERSION}_linux_$1 deb=$2 work
	work=$(mktemp -d)
	dpkg-deb -x "$deb" "$work/deb"
	mkdir -p "$work/$name"
	(
		cd "$work/deb"
		cp usr/bin/provision usr/share/doc/provision/sbom.cdx.json usr/share/doc/provision/THIRD-PARTY-NOTICES.gz "$work/$name/"
		cp lib/systemd/system/provision.service usr/lib/sysusers.d/provision.conf etc/provision/provision.yaml "$work/$name/"
		cp -r usr/share/doc/provision/examples usr/share/man/man1 "$work/$name/"
		mkdir "$work/$name/completions"
		cp usr/share/bash-completion/completions/provision "$work/$name/completions/provision.bash"
		cp usr/share/zsh/vendor-completions/_provision usr/share/fish/vendor_completions.d/provision.fish "$work/$name/completions/"
	)
	mv "$work/$name/provision.conf" "$work/$name/provision.sysusers"
	cp LICENSE "$work/$name/"
	cp "$work/$name/sbom.cdx.json" "$OUT/$name.cdx.json"
	tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go-w -cf - "$name" | gzip -9 -n >"$OUT/$name.tar.gz"
	rm -rf "$work"
}

rm -f "$OUT"/provision_* "$OUT/SHA256SUMS"
for arch in $ARCHES; do
	say "$VERSION for $arch"
	archive "$arch" "$(ARCH=$arch bash deploy/deb/build.sh "$OUT")"
done
(cd "$OUT" && sha256sum provision_* >SHA256SUMS)
say "$OUT holds $VERSION"
