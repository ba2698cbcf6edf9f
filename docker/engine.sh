#!/usr/bin/env bash
# Run a command with a Docker engine: the one that `docker info` finds, or else Debian's, which
# this script installs, starts, and stops after the command.
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
    # Runlevel 1 keeps the package from starting it as a service.
    "${sudo[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends docker.io >/dev/null
fi

folder=$(mktemp -d)
log=$folder/log
# Root and one group may use the socket: make it the group of this user.
"${sudo[@]}" dockerd --group="$(id -g)" --pidfile="$folder/pid" >"$log" 2>&1 &
engine=$!
end() {
    # Signal dockerd itself: sudo does not pass on signals from its own process group.
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
