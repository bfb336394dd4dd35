#!/bin/sh
# Inside the image build: adds the CUDA builds of llama.cpp and of ONNX Runtime to the locked packages, or removes ONNX Runtime.
set -eu
. scripts/image/trust-extra-ca.sh
registry=${NPM_REGISTRY%/}
npm() { node /opt/npm/bin/npm-cli.js --registry "$registry" --no-audit --no-fund --no-progress "$@"; }
arch=$(node -p process.arch)
has_cuda=no
if [ -d /usr/local/cuda ] || [ -n "${CUDA_VERSION:-}" ]; then has_cuda=yes; fi

case $LLAMA_CUDA in
auto) llama=$has_cuda ;;
on) llama=yes ;;
off) llama=no ;;
*) echo "LLAMA_CUDA must be auto, on or off, not $LLAMA_CUDA." >&2 && exit 1 ;;
esac
case $ONNX in
auto) if [ "$has_cuda" = yes ]; then onnx=cuda; else onnx=cpu; fi ;;
cuda | cpu | off) onnx=$ONNX ;;
*) echo "ONNX must be auto, cuda, cpu or off, not $ONNX." >&2 && exit 1 ;;
esac
# Neither project publishes CUDA builds for other processors.
if [ "$arch" != x64 ]; then
  llama=no
  [ "$onnx" != cuda ] || onnx=cpu
fi

if [ "$llama" = yes ]; then
  version=$(node -p 'JSON.parse(require("fs").readFileSync("node_modules/node-llama-cpp/package.json", "utf8")).version')
  for build in linux-x64-cuda linux-x64-cuda-ext; do
    target=node_modules/@node-llama-cpp/$build
    rm -rf "$target"
    mkdir -p "$target"
    expected=$(sed -n "s#^@node-llama-cpp/$build@$version ##p" scripts/image/checksums.txt)
    [ -n "$expected" ] || { echo "scripts/image/checksums.txt has no SHA-512 of @node-llama-cpp/$build@$version: add it." >&2; exit 1; }
    (cd /tmp && npm pack --silent "@node-llama-cpp/$build@$version")
    echo "$expected  /tmp/node-llama-cpp-$build-$version.tgz" | sha512sum --check --strict --quiet
    tar -xzf "/tmp/node-llama-cpp-$build-$version.tgz" -C "$target" --strip-components=1 --no-same-owner
    rm "/tmp/node-llama-cpp-$build-$version.tgz"
  done
fi

# npm ci installed ONNX Runtime from package-lock.json.
package=node_modules/onnxruntime-node
case $onnx in
off) rm -rf "$package" node_modules/onnxruntime-common ;;
cuda)
  # The package's own script downloads the provider, which is too large for the package registry, from NuGet.
  (cd "$package" && node script/install.js --onnxruntime-node-install=cuda12)
  # TensorRT is in no base image.
  rm -f "$package"/bin/napi-v*/linux/"$arch"/*tensorrt*
  ;;
esac
rm -rf /root/.npm
