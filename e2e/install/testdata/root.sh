#!/bin/bash
# Runs a script as root of a copy of this machine's file system, in which what it
# changes is lost: root.sh SCRIPT FOLDER [ARG...]
# FOLDER is a folder for the copy, whose sub-folder `share` the script sees as /share.
# It must run in mount and network namespaces of its own (unshare -m -n).
set -euo pipefail

script=$1 folder=$2
shift 2
mount -t tmpfs -o mode=755 tmpfs "$folder/copy"
mkdir "$folder"/copy/{upper,work,root}
# The changes lie on another file system than what they are changes of.
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/copy/upper,workdir=$folder/copy/work" "$folder/copy/root"
root=$folder/copy/root
mkdir -p "$root/share"
mount --bind "$folder/share" "$root/share"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
# The device files of this machine, and none of its other mounts.
mount --bind /dev "$root/dev"
cp "$script" "$root/script.sh"
export -n INSTALL E2E
exec chroot "$root" bash /script.sh "$@"
