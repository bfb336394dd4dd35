#!/bin/sh
# Inside the image build: Node and npm from the package registry (base images bring neither), then our locked packages.
set -eu
. scripts/image/trust-extra-ca.sh
case $(uname -m) in
x86_64) arch=x64 ;;
aarch64) arch=arm64 ;;
*) echo "no Node for $(uname -m)" >&2 && exit 1 ;;
esac

registry=${NPM_REGISTRY%/}
[ -n "$registry" ] || { echo "NPM_REGISTRY is not given: build with scripts/runtime-image.sh, or pass it as a build argument." >&2; exit 1; }
fetch() { # <package> <version> <folder>
  mkdir -p "$3"
  curl -fsSL --retry 3 --max-time 600 "$registry/$1/-/$1-$2.tgz" | tar -xz -C "$3" --strip-components=1 --no-same-owner
}
fetch "node-linux-$arch" "$NODE_VERSION" /tmp/node
install -m 0755 /tmp/node/bin/node /usr/local/bin/node
fetch npm "$NPM_VERSION" /opt/npm
rm -rf /tmp/node

npm() { node /opt/npm/bin/npm-cli.js --registry "$registry" --no-audit --no-fund --no-progress "$@"; }
# No install scripts: the prebuilt llama.cpp needs none, and Node is here already.
# A lock file made where some platforms' packages could not be seen is refused by newer npm; installing from it works.
npm ci --omit=dev --ignore-scripts 2>/tmp/npm-ci.log || npm install --no-save --omit=dev --ignore-scripts
node scripts/prune-native.mjs
rm -rf /root/.npm
