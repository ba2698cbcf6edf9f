#!/usr/bin/env bash
# Runs a command with a Docker engine: with the one that `docker info` finds, or else with
# Debian's, which it installs, starts, and ends with the command.
#
#   docker/engine.sh COMMAND [ARGUMENT...]
set -euo pipefail

if docker info >/dev/null 2>&1; then
    exec "$@"
fi

sudo=()
(($(id -u) == 0)) || sudo=(sudo)

if ! command -v dockerd >/dev/null; then
    "${sudo[@]}" apt-get update -qq
    # At runlevel 1 the package does not start it as a service.
    "${sudo[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends docker.io >/dev/null
fi

folder=$(mktemp -d)
log=$folder/log
# Its socket is for root and one group: that of the user, or `docker info` would be refused.
"${sudo[@]}" dockerd --group="$(id -g)" --pidfile="$folder/pid" >"$log" 2>&1 &
engine=$!
end() {
    # By its own number: sudo passes on no signal that comes out of its process group.
    "${sudo[@]}" kill "$(cat "$folder/pid" 2>/dev/null || echo "$engine")" 2>/dev/null || true
    wait "$engine" || true
    rm -rf "$folder" || true
}
trap end EXIT

deadline=$((SECONDS + 60))
until docker info >/dev/null 2>&1; do
    if [[ ! -e /proc/$engine ]] || ((SECONDS > deadline)); then
        echo "dockerd did not start:" >&2
        tail -n 20 "$log" >&2
        exit 1
    fi
    sleep 0.5
done
"$@"
