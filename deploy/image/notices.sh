#!/bin/sh
# Prints the licences of all Go modules that the program is linked with, and of Go
# itself: most of them ask to be handed on with a binary. GOOS and GOARCH say for
# which system. A module without one is an error.
set -eu
export LC_ALL=C

line='================================================================================'
list=$(mktemp)
trap 'rm -f "$list"' EXIT

# print NAME FOLDER: the licence files at the top of a folder.
print() {
	found=
	for file in "$2"/*; do
		case ${file##*/} in
		*.go) ;;
		LICENSE* | License* | license* | LICENCE* | COPYING* | COPYRIGHT* | NOTICE*)
			[ -f "$file" ] || continue
			found=yes
			printf '\n%s\n%s: %s\n%s\n\n' "$line" "$1" "${file##*/}" "$line"
			cat "$file"
			;;
		esac
	done
	[ -n "$found" ] || {
		echo "notices: $1 has no licence file: look at its source, and add its name to this script" >&2
		exit 1
	}
}

printf 'The program is linked with the following, under the licences that follow.\n'
print "$(go env GOVERSION)" "$(go env GOROOT)"
go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/provision >"$list"
sort -u -o "$list" "$list"
while read -r path version dir; do
	[ -z "$path" ] || print "$path $version" "$dir"
done <"$list"
