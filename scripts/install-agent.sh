#!/bin/sh
# Installs the agent on a GPU host as a service of systemd, from this clone or archive. Run again, it updates the programs and the unit, and
# keeps /etc/stoker/agent.env.
# Usage: sh scripts/install-agent.sh --control HOST:PORT[,HOST:PORT] --advertise https://ADDRESS:PORT --token-file FILE|-
#                                    [--runtime-image IMAGE] [--to FOLDER] [--no-packages] [--no-start]
#   --control        control planes' ports for agents
#   --advertise      address at which control planes reach this host
#   --token-file     file with the token of `stoker node token create`; -: standard input
#   --runtime-image  image of model servers (stoker-runtime:<version>)
#   --to             root of the installation, for images of machines; implies --no-start
#   --no-packages    does not install packages of npm
#   --no-start       does not start the service
# Ends with `stoker doctor`, and with its exit code.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
version=$(sed -n 's/^ *"version": *"\([^"]*\)".*/\1/p' "$root/package.json" | head -n 1)
control='' advertise='' token='' runtime=stoker-runtime:$version to='' packages=yes start=yes

fail() {
  printf 'install-agent: %s\n' "$*" >&2
  exit 1
}
warn() { printf 'install-agent: warning: %s\n' "$*" >&2; }

while [ $# -gt 0 ]; do
  case $1 in
  --no-packages) packages=no && shift && continue ;;
  --no-start) start=no && shift && continue ;;
  esac
  [ $# -ge 2 ] || fail "$1 needs a value; see the head of this script."
  case $1 in
  --control) control=$2 ;;
  --advertise) advertise=$2 ;;
  --token-file) token=$2 ;;
  --runtime-image) runtime=$2 ;;
  --to) to=$2 start=no ;;
  *) fail "unknown option $1; see the head of this script." ;;
  esac
  shift 2
done

[ "$(uname -s)" = Linux ] || fail "this script is for Linux; elsewhere use stoker node join."
[ -n "$to" ] || [ "$(id -u)" = 0 ] || fail "run it as root: sudo sh scripts/install-agent.sh ..."
etc=$to/etc/stoker units=$to/etc/systemd/system home=$to/opt/stoker bin=$to/usr/local/bin
if [ ! -f "$etc/agent.env" ]; then
  [ -n "$control" ] || fail "--control is missing: HOST:PORT of the control plane's port for agents."
  [ -n "$token" ] || fail "--token-file is missing: stoker node token create --ttl 15m prints a token."
  port=${advertise##*:} host=${advertise#https://}
  host=${host%:*}
  case $advertise in
  https://*:*) ;;
  *) fail "--advertise must be like https://10.0.0.7:9100, the address at which control planes reach this host." ;;
  esac
  case $port in *[!0-9]* | "") fail "--advertise $advertise has no port." ;; esac
fi
if [ "$start" = yes ]; then
  command -v systemctl >/dev/null 2>&1 || fail "systemd is missing; see docs/operations/installation.md for the agent as a container."
  command -v docker >/dev/null 2>&1 || warn "Docker is not installed: no model server can start."
  if command -v nvidia-smi >/dev/null 2>&1 && ! docker info 2>/dev/null | grep -Eiq 'nvidia|cdi spec'; then
    warn "Docker has no NVIDIA runtime: install NVIDIA's container toolkit (nvidia-ctk runtime configure)."
  fi
fi

mkdir -p "$etc" "$units" "$home" "$bin"
if [ "$root" != "$(cd "$home" && pwd -P)" ]; then
  for name in agent cli proto runtime scripts package.json package-lock.json .npmrc LICENSE; do
    rm -rf "${home:?}/$name"
    cp -R "$root/$name" "$home/$name"
  done
fi
if [ "$packages" = yes ]; then
  command -v npm >/dev/null 2>&1 || fail "npm is missing: install Node.js 18 or newer, which brings it (it installs Node 24 by itself)."
  (cd "$home" && ONNXRUNTIME_NODE_INSTALL=skip npm ci --omit=dev --no-audit --no-fund --no-progress)
fi
ln -sf /opt/stoker/cli/stoker "$bin/stoker"

umask 077
if [ -f "$etc/agent.env" ]; then
  echo "Kept $etc/agent.env."
else
  if [ "$token" = - ]; then cat >"$etc/join.token"; else cp "$token" "$etc/join.token"; fi
  # On all addresses where the host does not have this one, for example behind a router.
  listen=0.0.0.0
  if command -v ip >/dev/null 2>&1 && ip -o addr show 2>/dev/null | grep -Fq " $host/"; then listen=$host; fi
  cat >"$etc/agent.env" <<ENV
STOKER_AGENT_DATA=/var/lib/stoker-agent
STOKER_CONTROL=$control
STOKER_JOIN_TOKEN_FILE=/etc/stoker/join.token
STOKER_INGRESS_HOST=$listen
STOKER_INGRESS_PORT=$port
STOKER_ADVERTISE=$advertise
STOKER_AGENT_METRICS_PORT=9101
STOKER_DRIVER=docker
STOKER_RUNTIME_IMAGE=$runtime
ENV
fi
install -m 0644 "$root/deploy/systemd/stoker-agent.service" "$units/stoker-agent.service"
echo "Installed the agent $version in $home."
[ "$start" = yes ] || exit 0

systemctl daemon-reload
systemctl enable stoker-agent.service
systemctl restart stoker-agent.service
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
  stoker inspect --data /var/lib/stoker-agent >/dev/null 2>&1 && break
  sleep 2
done
STOKER_AGENT_DATA=/var/lib/stoker-agent exec stoker doctor
