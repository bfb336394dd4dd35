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
# A registry or proxy that serves other bytes fails the build.
fetch() { # <package> <version> <folder>
  expected=$(sed -n "s#^$1@$2 ##p" scripts/image/checksums.txt)
  [ -n "$expected" ] || { echo "scripts/image/checksums.txt has no SHA-512 of $1@$2: add it." >&2; exit 1; }
  curl -fsSL --retry 3 --max-time 600 -o /tmp/fetched.tgz "$registry/$1/-/$1-$2.tgz"
  echo "$expected  /tmp/fetched.tgz" | sha512sum --check --strict --quiet
  mkdir -p "$3"
  tar -xzf /tmp/fetched.tgz -C "$3" --strip-components=1 --no-same-owner
  rm /tmp/fetched.tgz
}
fetch "node-linux-$arch" "$NODE_VERSION" /tmp/node
install -p -m 0755 /tmp/node/bin/node /usr/local/bin/node
fetch npm "$NPM_VERSION" /opt/npm
rm -rf /tmp/node

npm() { node /opt/npm/bin/npm-cli.js --registry "$registry" --no-audit --no-fund --no-progress "$@"; }
# No install scripts: the prebuilt llama.cpp needs none, and Node is here already.
npm ci --omit=dev --ignore-scripts
# Registries that sign packages publish their keys there; mirrors often do not.
if curl -fsS --max-time 30 -o /dev/null "$registry/-/npm/v1/keys" 2>/dev/null; then
  npm audit signatures
else
  echo "$registry publishes no keys: package signatures are not checked."
fi
node scripts/prune-native.mjs
# All packages of package-lock.json: write-sbom.ts keeps those that an image holds.
npm sbom --package-lock-only --sbom-format cyclonedx --sbom-type application >all.cdx.json
# Without what differs each time; write-sbom.ts adds its own.
node -e 'const { serialNumber, ...bom } = JSON.parse(require("fs").readFileSync("all.cdx.json", "utf8")); delete bom.metadata.timestamp; console.log(JSON.stringify(bom))' >npm.cdx.json
rm all.cdx.json
rm -rf /root/.npm
