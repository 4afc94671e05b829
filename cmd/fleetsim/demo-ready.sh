#!/usr/bin/env bash
# The demo of whole clusters: six emulated nodes in two clusters, from powered
# off to Ready, on this machine's loopback addresses. Needs no root and leaves
# nothing running. Arguments go to fleetsim.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin=${BIN:-bin}
dir=${DIR:-.demo}
rm -rf "$dir"
mkdir -p "$dir"
"$bin/fleetsim" --dir "$dir" --clusters k8s-prod:3:1,k8s-test:1:1 --machine-configs "$@" >"$dir/fleetsim.out" &
fleet=$!
trap 'kill "$fleet" 2>/dev/null || true; wait "$fleet" 2>/dev/null || true' EXIT

for _ in $(seq 600); do
  [ -e "$dir/ready" ] && break
  kill -0 "$fleet" 2>/dev/null || { echo "the emulated fleet did not start" >&2; exit 1; }
  sleep 0.1
done

run() {
  echo "\$ $bin/provision $*"
  "$bin/provision" "$@"
  echo
}

for cluster in k8s-prod k8s-test; do
  run --config "$dir/provision.yaml" --cluster "$cluster" --yes
done
for cluster in k8s-prod k8s-test; do
  run cluster health "$cluster" --config "$dir/provision.yaml"
done

kill "$fleet"
wait "$fleet"
echo "The nodes, as the emulated clusters show them:"
sed '1,/^Ctrl-C/d' "$dir/fleetsim.out"
[ "$(grep -c ' Ready ' "$dir/fleetsim.out")" = 6 ] || { echo "not every node is Ready" >&2; exit 1; }
