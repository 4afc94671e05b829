#!/bin/sh
# Makes the file system of the image out of Debian's: root.sh debian|source
# It runs inside the build, see Dockerfile.
set -eu

IPXE=$1
PACKAGES=ca-certificates
# dpkg knows of iPXE then, and so does whoever scans the image.
[ "$IPXE" != debian ] || PACKAGES="$PACKAGES ipxe"

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086 # a list of package names
apt-get install -qq -y --no-install-recommends $PACKAGES

printf 'provision:x:65532:65532:provision:/var/lib/provision:/usr/sbin/nologin\n' >>/etc/passwd
printf 'provision:x:65532:\n' >>/etc/group
for folder in /var/lib/provision /var/cache/provision; do
	mkdir -p "$folder"
	chown 65532:65532 "$folder"
	chmod 0750 "$folder"
done
mkdir -p /etc/provision

# The container may not say no-new-privileges, which would take the file's
# capabilities from the program. So there is nothing to gain privileges by.
find / -xdev -type f -perm /6000 -exec chmod ug-s {} +

# Lists, caches and logs differ from one build to the next.
rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/cache/ldconfig /var/log/* \
	/var/lib/dpkg/*-old /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow-
