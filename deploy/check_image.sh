#!/bin/sh
# Build the image of the Dockerfile, start it as an operator would (read-only root file system, no
# capabilities, a user without rights), and run its HEALTHCHECK until it passes.
#
#   deploy/check_image.sh [arguments of the build, such as --build-arg EXTRA=server]
#
# Needs root, buildah and jq (Debian: apt-get install buildah jq); no daemon and no runtime: namespaces are made by
# unshare. Where no registry of images can be reached, BASE=FOLDER takes that folder as the base image: a Debian
# root file system with Python (debootstrap --include=python3,python3-venv,python3-pip,ca-certificates trixie
# FOLDER). STORAGE=FOLDER keeps what was built, and BUILT=1 checks that again.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
container=''
clean() {
  if [ -n "$container" ]; then buildah umount "$container" && buildah rm "$container"; fi >/dev/null
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM
cat > "$work/storage.conf" <<CONF
[storage]
driver = "overlay"
runroot = "$work/run"
graphroot = "${STORAGE:-$work/graph}"
CONF
export CONTAINERS_STORAGE_CONF="$work/storage.conf"

if [ -z "${BUILT:-}" ]; then
  if [ -n "${BASE:-}" ]; then
    name=$(sed -n 's/^ARG PYTHON=//p' Dockerfile)
    scratch=$(buildah from scratch)
    buildah add --quiet "$scratch" "$BASE" / >/dev/null
    buildah commit --quiet --rm "$scratch" "docker.io/library/python:$name" >/dev/null
  fi
  buildah build --isolation chroot --network host --format docker --tag memory-service:check "$@" .
fi
buildah inspect --type image memory-service:check | jq .Docker.config > "$work/image.json"
container=$(buildah from --pull-never memory-service:check)
root=$(buildah mount "$container")
echo "image: $(du -sm "$root" | cut -f1) MiB, of which the service $(du -sm "$root/opt/memory-service" | cut -f1) MiB"

cat > "$work/inside" <<'INSIDE'
set -eu
root=$1 work=$2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o nosuid,nodev,mode=1777,size=256m tmpfs "$root/tmp"
mount -t tmpfs -o nosuid,nodev,mode=0700,uid=10001,gid=10001 tmpfs "$root/data"
mount -o remount,bind,ro "$root"
value() { jq -r "$1" "$work/image.json"; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
user=$(value '.User | split(":") | "--reuid \(.[0]) --regid \(.[1])"')
environment=$(value '.Env | map(@sh) | join(" ")')
in_image() {  # a command line, quoted: run as the image says
  eval "chroot $root setpriv $user --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
    env --ignore-environment --chdir='$(value .WorkingDir)' $environment MEMORY_PORT=$port $1"
}
entry=$(value '.Entrypoint | @sh')

echo "== started without a key, it refuses and says what to do"
if in_image "$entry serve" 2> "$work/refused"; then echo "it started without a key" >&2; exit 1; fi
cat "$work/refused"
grep -q 'keys create' "$work/refused"
echo "== a key is made"
key=$(in_image "$entry keys create check --scope admin --json" | jq -r .key)
echo "== served"
in_image "$entry $(value '.Cmd | @sh')" > "$work/log" 2>&1 &
server=$! began=$(date +%s)
until in_image "$(value '.Healthcheck.Test[1:] | @sh')" 2> "$work/unhealthy"; do
  if ! kill -0 "$server" || [ $(($(date +%s) - began)) -gt "${WITHIN:-300}" ]; then cat "$work/unhealthy" "$work/log"; exit 1; fi
  sleep 1
done
echo "its HEALTHCHECK passes after $(($(date +%s) - began)) s"
in_image id
if in_image 'touch /opt/memory-service/written' 2>/dev/null; then echo "its root can be written" >&2; exit 1; fi
echo "== a plan with the key, none without"
cat > "$work/ask.py" <<'ASK'
import http.client, json, os, sys
connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["MEMORY_PORT"]))
for headers in ({}, {"Authorization": f"Bearer {sys.argv[1]}"}):
    connection.request("GET", "/recommend?task=image&size=medium&gpu=a100", headers=headers)
    answer = connection.getresponse()
    body = json.load(answer)
    print(answer.status, body.get("title") or (body["model"]["name"], body["batch_size"]))
ASK
in_image "python - $key" < "$work/ask.py" | tee "$work/asked"
grep -q '^401' "$work/asked"
grep -q '^200' "$work/asked"
echo "== stopped"
server=$(pgrep -o -u 10001 -f 'memory-service serve')
kill -TERM "$server"
for _ in $(seq 120); do kill -0 "$server" 2>/dev/null || break; sleep 0.5; done
if kill -0 "$server" 2>/dev/null; then echo "it did not stop" >&2; exit 1; fi
INSIDE
unshare --mount --pid --fork --mount-proc --kill-child --propagation private sh "$work/inside" "$root" "$work"
echo "all checks passed"
