#!/usr/bin/env bash
# The demo: 12 emulated nodes in three chassis of four boards, provisioned on
# this machine's loopback addresses. Needs no root and leaves nothing running.
# Arguments go to fleetsim.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin=${BIN:-bin}
dir=${DIR:-.demo}
rm -rf "$dir"
"$bin/fleetsim" --dir "$dir" "$@" >/dev/null &
fleet=$!
trap 'kill "$fleet" 2>/dev/null || true; wait "$fleet" 2>/dev/null || true' EXIT

for _ in $(seq 600); do
  [ -e "$dir/ready" ] && break
  kill -0 "$fleet" 2>/dev/null || { echo "the emulated fleet did not start" >&2; exit 1; }
  sleep 0.1
done

echo "\$ $bin/provision --config $dir/provision.yaml --cluster demo --yes"
"$bin/provision" --config "$dir/provision.yaml" --cluster demo --yes
echo
echo "\$ $bin/provision status --config $dir/provision.yaml"
"$bin/provision" status --config "$dir/provision.yaml"
