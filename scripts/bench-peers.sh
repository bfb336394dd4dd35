#!/bin/sh
# Installs gateways of others for `npm run bench -- peers` in .cache/peers, at the versions below. What is there already is kept.
# Usage: scripts/bench-peers.sh [NAME ...]      litellm portkey onwards dwctl (default: all). nginx is Debian's: apt-get install nginx-light
# Needs Python 3 with venv, npm, and Cargo 1.95 or newer; onwards is compiled in ten minutes on two cores, dwctl in half an hour.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
peers=$root/.cache/peers
mkdir -p "$peers"

[ $# -gt 0 ] || set -- litellm portkey onwards dwctl
for name in "$@"; do
  case $name in
  litellm)
    [ -x "$peers/litellm/bin/litellm" ] || python3 -m venv "$peers/litellm"
    "$peers/litellm/bin/pip" install --quiet --no-compile --disable-pip-version-check 'litellm[proxy]==1.106.12'
    ;;
  # Its install scripts are not needed.
  portkey) npm install --prefix "$peers/portkey" --no-save --no-audit --no-fund --ignore-scripts @portkey-ai/gateway@1.15.2 ;;
  onwards) cargo install onwards@1.2.0 --locked --quiet --root "$peers/onwards" ;;
  # Without its own PostgreSQL: the bench starts one.
  dwctl) cargo install dwctl@8.94.2 --locked --quiet --no-default-features --root "$peers/dwctl" ;;
  *)
    echo "bench-peers: $name is none of litellm, portkey, onwards." >&2
    exit 2
    ;;
  esac
done
