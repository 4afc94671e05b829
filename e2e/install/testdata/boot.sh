#!/bin/bash
# Boots a copy of this machine with the package installed, in a container that
# systemd-nspawn makes, runs /share/service.sh in it, and ends: boot.sh FOLDER
# It must run in mount and network namespaces of its own (unshare -m -n).
set -euo pipefail

folder=$1
export LC_ALL=C
mount -t tmpfs -o mode=755 tmpfs "$folder/copy"
mkdir "$folder"/copy/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/copy/upper,workdir=$folder/copy/work" "$folder/copy/root"
root=$folder/copy/root
# Nothing of what this machine starts is started there.
rm -rf "$root"/etc/systemd/system/*.wants "$root/etc/provision" "$root/var/lib/provision" "$root/var/cache/provision" "$root/var/log/journal"
dpkg --root="$root" -i "$folder/share/provision.deb"
cat >"$root/etc/systemd/system/try.target" <<-EOF
	[Unit]
	Requires=basic.target try.service
	After=basic.target
EOF
cat >"$root/etc/systemd/system/try.service" <<-EOF
	[Unit]
	After=basic.target
	[Service]
	Type=oneshot
	ExecStart=/bin/bash /share/service.sh
	TimeoutStartSec=180
EOF
mkdir "$root/share"
exec timeout 240 systemd-nspawn -q -D "$root" --register=no --keep-unit --private-network --capability=CAP_NET_ADMIN \
	--bind="$folder/share:/share" -b systemd.unit=try.target systemd.show_status=0 </dev/null
