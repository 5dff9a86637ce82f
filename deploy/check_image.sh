#!/bin/sh
# Build the image of the Dockerfile, start it as an operator would (read-only root file system, no
# capabilities, a user without rights), and run its HEALTHCHECK until it passes.
#
#   deploy/check_image.sh [arguments of the build, such as --build-arg EXTRA=server]
#
# Needs root, buildah and crun (Debian: apt-get install buildah crun jq); no daemon. Where no registry of images
# can be reached, BASE=FOLDER takes that folder as the base image: a Debian root file system with Python
# (debootstrap --include=python3,python3-venv,python3-pip,ca-certificates trixie FOLDER).
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
cat > "$work/storage.conf" <<CONF
[storage]
driver = "overlay"
runroot = "$work/run"
graphroot = "${STORAGE:-$work/graph}"
CONF
export CONTAINERS_STORAGE_CONF="$work/storage.conf"
container='' id="memory-check-$$"
clean() {
  crun delete --force "$id" >/dev/null 2>&1 || true
  if [ -n "$container" ]; then buildah umount "$container" >/dev/null; buildah rm "$container" >/dev/null; fi
  rm -rf "$work"
}
trap clean EXIT INT TERM

if [ -n "${BASE:-}" ]; then
  name=$(sed -n 's/^ARG PYTHON=//p' Dockerfile)
  scratch=$(buildah from scratch)
  buildah add --quiet "$scratch" "$BASE" / >/dev/null
  buildah commit --quiet --rm "$scratch" "docker.io/library/python:$name" >/dev/null
fi
buildah build --isolation chroot --network host --format docker --tag memory-service:check "$@" .

container=$(buildah from --pull-never memory-service:check)
root=$(buildah mount "$container")
inspect() { buildah inspect --type image --format "{{json .Docker.Config.$1}}" memory-service:check; }
echo "image: $(du -sm "$root" | cut -f1) MiB, of which the service $(du -sm "$root/opt/memory-service" | cut -f1) MiB"

# The container's configuration: everything that runs comes from the image.
bundle="$work/bundle"; mkdir -p "$bundle/data"; chown 10001:10001 "$bundle/data"; chmod 700 "$bundle/data"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
config() {  # arguments: the command as JSON
  jq -n --argjson args "$1" --argjson env "$(inspect Env)" --arg user "$(inspect User | tr -d '"')" \
    --arg cwd "$(inspect WorkingDir | tr -d '"')" --arg root "$root" --arg data "$bundle/data" --arg port "$port" '
  ($user | split(":") | map(tonumber)) as [$uid, $gid] |
  {ociVersion: "1.0.2", root: {path: $root, readonly: true}, hostname: "check",
   process: {user: {uid: $uid, gid: $gid}, args: $args, cwd: $cwd, noNewPrivileges: true,
     env: ($env + ["MEMORY_PORT=" + $port]), capabilities: {bounding: [], effective: [], permitted: []}},
   mounts: [{destination: "/proc", type: "proc", source: "proc"},
     {destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid", "mode=755"]},
     {destination: "/tmp", type: "tmpfs", source: "tmpfs", options: ["nosuid", "nodev", "mode=1777", "size=256m"]},
     {destination: "/data", type: "bind", source: $data, options: ["bind", "rw"]}],
   linux: {namespaces: [{type: "mount"}, {type: "pid"}, {type: "ipc"}, {type: "uts"}]}}' > "$bundle/config.json"
}
run() { config "$1"; crun run --bundle "$bundle" "$id"; }
command() { jq -cn --argjson entry "$(inspect Entrypoint)" --args '$entry + $ARGS.positional' -- "$@"; }

echo "== started without a key, it refuses and says what to do"
if run "$(command serve)" 2> "$work/refused"; then echo "it started without a key" >&2; exit 1; fi
cat "$work/refused"; grep -q 'keys create' "$work/refused"
echo "== a key is made"
run "$(command keys create check --scope admin --json)" > "$work/key"
echo "== served; its HEALTHCHECK:"
config "$(jq -cn --argjson entry "$(inspect Entrypoint)" --argjson cmd "$(inspect Cmd)" '$entry + $cmd')"
crun run --detach --bundle "$bundle" "$id" > "$work/log" 2>&1 < /dev/null
healthy() { inspect Healthcheck.Test | jq -r '.[1:] | @sh' > "$work/test"; eval "crun exec $id $(cat "$work/test")" 2> "$work/unhealthy"; }
began=$(date +%s)
until healthy; do
  if [ $(($(date +%s) - began)) -gt "${WITHIN:-300}" ]; then cat "$work/unhealthy" "$work/log"; exit 1; fi
  sleep 1
done
echo "healthy after $(($(date +%s) - began)) s, as $(crun exec "$id" id)"
if crun exec "$id" touch /opt/memory-service/written 2>/dev/null; then echo "its root can be written" >&2; exit 1; fi
echo "== a plan with the key"
key=$(jq -r .key "$work/key")
ask="import http.client, json, os; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['MEMORY_PORT'])); c.request('GET', '/recommend?task=image&size=medium&gpu=a100', headers={'Authorization': 'Bearer $key'}); a = json.load(c.getresponse()); print(a['feasible'], a['model']['name'], a['batch_size'])"
crun exec "$id" python -c "$ask"
echo "== stopped"
crun kill "$id" TERM
for _ in $(seq 60); do crun state "$id" 2>/dev/null | grep -q '"stopped"' && break; sleep 0.5; done
crun state "$id" | grep -q '"stopped"'
echo "all checks passed"
