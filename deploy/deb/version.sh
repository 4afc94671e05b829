#!/bin/sh
# Prints a version as dpkg orders it: version.sh v1.2.3
# A release candidate is before its release, a build after a release behind it, and
# one that follows no release before all of them.
set -eu

v=${1#v}
case $v in
[0-9]*.[0-9]*.[0-9]*-[0-9]*-g[0-9a-f]*) v=$(echo "$v" | sed -E 's/-([0-9]+)-g/+\1.g/; s/-dirty$/.dirty/; s/-/~/g') ;;
[0-9]*.[0-9]*.[0-9]*) v=$(echo "$v" | sed -E 's/-dirty$/+dirty/; s/-/~/g') ;;
*) v=0.0.0~$(echo "$v" | sed -E 's/[^A-Za-z0-9.+~]+/./g') ;;
esac
echo "$v-1"
