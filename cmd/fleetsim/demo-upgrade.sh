#!/usr/bin/env bash
# The demo of a rolling upgrade: a running cluster of three control planes and
# three workers, two minor versions up, on this machine's loopback addresses.
# Needs no root and leaves nothing running. Where e2e/deps.sh has built
# kube-apiserver, the cluster has a real Kubernetes API, and nodes are cordoned and
# drained; elsewhere it goes without. Arguments go to fleetsim.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin=${BIN:-bin}
dir=${DIR:-.demo}
cache=${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/talos-provision}
from=v1.11.6 between=v1.12.12 to=v1.13.9

if [ -x "$cache/kube-apiserver/kube-apiserver" ] && [ -x "$cache/etcd/usr/bin/etcd" ]; then
  echo "Kubernetes: a real kube-apiserver over a real etcd; each node is cordoned and drained."
  kubernetes=(--kubernetes)
  drain=()
else
  echo "Kubernetes: no kube-apiserver in $cache (make deps builds it), so this goes with --no-drain."
  kubernetes=()
  drain=(--no-drain --kubernetes-version v1.34.0)
fi

rm -rf "$dir"
mkdir -p "$dir"
"$bin/fleetsim" --dir "$dir" --clusters k8s-prod:3:3 --machine-configs --installed --talos-version "$from" \
  --releases "$from,$between,$to" "${kubernetes[@]}" "$@" >"$dir/fleetsim.out" 2>"$dir/fleetsim.err" &
fleet=$!
trap 'kill "$fleet" 2>/dev/null || true; wait "$fleet" 2>/dev/null || true' EXIT

for _ in $(seq 3000); do
  [ -e "$dir/ready" ] && break
  kill -0 "$fleet" 2>/dev/null || { echo "the emulated fleet did not start:" >&2; cat "$dir/fleetsim.err" >&2; exit 1; }
  sleep 0.1
done

# Emulated machines reboot in seconds, so they are looked at more often than real ones.
cat >>"$dir/provision.yaml" <<'END'
upgrade:
  poll: 500ms
  grace: 2s
END

echo "\$ $bin/provision upgrade --cluster k8s-prod --to $to --stops --yes" "${drain[@]}"
"$bin/provision" upgrade --config "$dir/provision.yaml" --cluster k8s-prod --to "$to" --stops "${drain[@]}" --yes
echo

kill "$fleet"
wait "$fleet"
echo "The nodes, as the emulated cluster shows them:"
sed '1,/^Ctrl-C/d' "$dir/fleetsim.out"
[ "$(grep -c " Ready .* $to " "$dir/fleetsim.out")" = 6 ] || { echo "not every node runs $to" >&2; exit 1; }
