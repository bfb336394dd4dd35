#!/bin/sh
# Inside the image build: Node and npm from the package registry (base images bring neither), then our locked packages.
set -eu
if [ -f extra-ca.pem ]; then
  cat /etc/ssl/certs/ca-certificates.crt extra-ca.pem >/tmp/trusted.pem
  export CURL_CA_BUNDLE=/tmp/trusted.pem NODE_EXTRA_CA_CERTS=/tmp/trusted.pem
fi
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
fetch npm "$NPM_VERSION" /tmp/npm

npm() { node /tmp/npm/bin/npm-cli.js --registry "$registry" --no-audit --no-fund --no-progress "$@"; }
# No install scripts: the prebuilt llama.cpp needs none, and Node is here already.
# A lock file made where some platforms' packages could not be seen is refused by newer npm; installing from it works.
npm ci --omit=dev --ignore-scripts 2>/tmp/npm-ci.log || npm install --no-save --omit=dev --ignore-scripts
node scripts/prune-native.mjs

wants_cuda=no
case $LLAMA_CUDA in
on) wants_cuda=yes ;;
auto) if [ -d /usr/local/cuda ] || [ -n "${CUDA_VERSION:-}" ]; then wants_cuda=yes; fi ;;
esac
if [ "$wants_cuda" = yes ] && [ "$arch" = x64 ]; then
  version=$(node -p 'JSON.parse(require("fs").readFileSync("node_modules/node-llama-cpp/package.json", "utf8")).version')
  for build in linux-x64-cuda linux-x64-cuda-ext; do
    target=node_modules/@node-llama-cpp/$build
    rm -rf "$target"
    mkdir -p "$target"
    (cd /tmp && npm pack --silent "@node-llama-cpp/$build@$version")
    tar -xzf /tmp/node-llama-cpp-$build-$version.tgz -C "$target" --strip-components=1 --no-same-owner
  done
fi
rm -rf /tmp/node /tmp/npm /root/.npm
