#!/usr/bin/env bash
# The demo with a daemon: 12 emulated nodes in three chassis, provisioned through
# `provision serve`, whose dashboard shows it live. Needs no root. It goes on until
# Ctrl-C, or ends with the run where DEMO_END is set; it leaves nothing running.
# Arguments go to fleetsim.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin=${BIN:-bin}
dir=${DIR:-.demo}
listen=${LISTEN:-127.0.0.1:9090}
config=$dir/provision.yaml
rm -rf "$dir"
# Servers take minutes; these take long enough to be watched.
"$bin/fleetsim" --dir "$dir" --post uniform:4s-9s --kernel-time uniform:4s-9s --image-size $((16 << 20)) "$@" >/dev/null &
children=($!)
stop() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  wait "${children[@]}" 2>/dev/null || true
}
trap stop EXIT
trap 'exit 0' INT TERM

# await WHAT PID COMMAND...: until the command succeeds, for as long as the process is there.
await() {
  local what=$1 pid=$2
  shift 2
  for _ in $(seq 600); do
    "$@" >/dev/null 2>&1 && return
    kill -0 "$pid" 2>/dev/null || { echo "$what did not start" >&2; exit 1; }
    sleep 0.1
  done
  echo "$what is not ready after a minute" >&2
  exit 1
}

await "the emulated fleet" "${children[0]}" test -e "$dir/ready"
PROVISION_ADMIN_LISTEN=$listen "$bin/provision" serve --config "$config" &
children+=($!)
await "the daemon" "${children[1]}" "$bin/provision" healthz --ready --config "$config"

echo "The dashboard. This link signs you in once, within a minute:"
echo
echo "\$ $bin/provision dashboard --config $config"
"$bin/provision" dashboard --config "$config"
if [ -t 0 ] && [ -z "${DEMO_END:-}" ]; then
  echo
  read -r -p "Open it, then press Enter: 12 machines are power cycled and installed. "
fi
echo
echo "\$ $bin/provision --config $config --cluster demo --yes"
"$bin/provision" --config "$config" --cluster demo --yes
if [ -z "${DEMO_END:-}" ]; then
  echo
  echo "The daemon goes on until Ctrl-C. In another terminal, for instance:"
  echo
  echo "  $bin/provision dashboard --config $config      # another link to the dashboard"
  echo "  $bin/provision watch --config $config          # the live board"
  wait "${children[1]}"
fi
