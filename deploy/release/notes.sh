#!/bin/sh
# Prints what CHANGELOG.md says of a version: notes.sh v1.2.3
# A release whose version is not there is an error: nobody would know what changed.
set -eu
cd "$(dirname "$0")/../.."

VERSION=${1#v}
notes=$(awk -v version="$VERSION" '
	/^## / { inside = ($2 == "[" version "]" || $2 == version || $2 == "v" version || $2 == "[v" version "]"); next }
	/^\[[^]]*\]: / { next }
	inside' CHANGELOG.md | sed -e '/./,$!d')
[ -n "$notes" ] || {
	echo "release notes: CHANGELOG.md has no section '## $VERSION': write it before the tag" >&2
	exit 1
}
printf '%s\n' "$notes"
