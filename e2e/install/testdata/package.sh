#!/bin/bash
# The life of the package, on a Debian: installed, updated, removed, purged. It
# prints what it finds as name=value. $1 is the package.
set -uo pipefail
exec 2>&1
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

is() { if "${@:2}" >/dev/null 2>&1; then echo "$1=yes"; else echo "$1=no"; fi; }

# A copy of the machine may hold it already.
dpkg --purge provision >/dev/null 2>&1
userdel provision >/dev/null 2>&1
rm -rf /var/lib/provision /var/cache/provision /etc/provision

dpkg -i "$1"
echo "install=$?"
echo "version=$(provision version)"
echo "user=$(getent passwd provision | cut -d: -f1,6,7)"
echo "enabled=$(systemctl --root=/ is-enabled provision 2>/dev/null)"
echo "caps=$(getcap /usr/bin/provision)"
echo "manual=$(man --warnings -P cat -l /usr/share/man/man1/provision.1.gz 2>&1 | grep -c '^NAME\|^EXIT STATUS')"
is completion bash -c '. /usr/share/bash-completion/bash_completion; . /usr/share/bash-completion/completions/provision; complete -p provision'
echo "unit=$(systemd-analyze verify /lib/systemd/system/provision.service 2>&1 | grep -c provision)"
is configuration provision healthz --config /etc/provision/provision.yaml --timeout 1s
echo "notices=$(zgrep -c 'github.com/stmcginnis/gofish' /usr/share/doc/provision/THIRD-PARTY-NOTICES.gz)"

# What the administrator wrote stays when it is updated.
echo "# mine" >>/etc/provision/provision.yaml
echo "secret" >/etc/provision/secrets.env
mkdir -p /var/lib/provision && echo state >/var/lib/provision/state.db
number=$(id -u provision)
dpkg -i "$1" >/dev/null
echo "update=$?"
is kept grep -q '^# mine' /etc/provision/provision.yaml
is sameuser test "$(id -u provision)" = "$number"

dpkg --remove provision >/dev/null
echo "remove=$?"
is gone test ! -e /usr/bin/provision
is confkept test -e /etc/provision/provision.yaml
is statekept test -e /var/lib/provision/state.db
dpkg --purge provision >/dev/null
echo "purge=$?"
is stategone test ! -e /var/lib/provision
is confgone test ! -e /etc/provision/provision.yaml
is secretkept test -e /etc/provision/secrets.env
is userkept getent passwd provision
echo "left=$(find /usr /lib /etc /var -xdev -path '*provision*' -newer /script.sh ! -path '/etc/provision*' ! -path '/var/lib/dpkg/*' ! -path '*/src/*' -type f 2>/dev/null | wc -l)"
