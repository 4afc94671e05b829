#!/bin/sh
# Installs what `make docs` needs beside Go: mkdocs and its theme, from Debian.
# Nothing is taken from elsewhere. Quick when it is all here.
set -eu

# A package and the program or file that shows that it is there.
PACKAGES='mkdocs mkdocs
mkdocs-material /usr/share/mkdocs/themes/material/main.html
python3-pymdownx /usr/lib/python3/dist-packages/pymdownx/slugs.py'

export LC_ALL=C DEBIAN_FRONTEND=noninteractive

say() { printf 'docs deps: %s\n' "$*" >&2; }
fail() {
	say "$*"
	exit 1
}

# present PROBE: does the command or the file exist?
present() {
	case $1 in
	/*) [ -e "$1" ] ;;
	*) command -v "$1" >/dev/null 2>&1 ;;
	esac
}

lacking() {
	printf '%s\n' "$PACKAGES" | while read -r package probe; do
		present "$probe" || printf '%s ' "$package"
	done
}

missing=$(lacking)
[ -n "$missing" ] || exit 0
command -v apt-get >/dev/null 2>&1 || fail "this is not a Debian machine. Install by hand: $missing"
[ "$(id -u)" = 0 ] || fail "missing packages: $missing. Run this script as root, or: apt-get install --no-install-recommends $missing"
say "installing $missing"
# shellcheck disable=SC2086 # a list of package names
if ! apt-get -qq install -y --no-install-recommends $missing >/dev/null 2>&1; then
	apt-get -qq update || fail "apt-get update failed: check the apt sources and the network"
	# shellcheck disable=SC2086
	apt-get -qq install -y --no-install-recommends $missing >&2 || fail "apt-get install $missing failed, see above"
fi
missing=$(lacking)
[ -z "$missing" ] || fail "installed, but not where they are expected: $missing. Correct the list PACKAGES in $0 for this release"
