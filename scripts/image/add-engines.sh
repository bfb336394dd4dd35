#!/bin/sh
# Inside the image build: the CUDA build of llama.cpp, and ONNX Runtime with its CUDA provider, beside the locked packages.
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
auto) if [ "$has_cuda" = yes ]; then onnx=cuda; else onnx=off; fi ;;
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
    (cd /tmp && npm pack --silent "@node-llama-cpp/$build@$version")
    tar -xzf "/tmp/node-llama-cpp-$build-$version.tgz" -C "$target" --strip-components=1 --no-same-owner
    rm "/tmp/node-llama-cpp-$build-$version.tgz"
  done
fi

if [ "$onnx" != off ]; then
  npm install --prefix /tmp/onnx --no-save --omit=dev --ignore-scripts "onnxruntime-node@$ONNXRUNTIME_VERSION"
  package=/tmp/onnx/node_modules/onnxruntime-node
  # Its own script fetches the provider, too large for the package registry, from NuGet.
  if [ "$onnx" = cuda ]; then (cd "$package" && node script/install.js --onnxruntime-node-install=cuda12); fi
  # Ours is one platform of the five, and TensorRT is in no base image.
  for build in "$package"/bin/napi-v*/*/*; do
    case $build in
    */linux/"$arch") rm -f "$build"/*tensorrt* ;;
    *) rm -rf "$build" ;;
    esac
  done
  for name in onnxruntime-node onnxruntime-common; do
    rm -rf "node_modules/$name"
    cp -R "/tmp/onnx/node_modules/$name" "node_modules/$name"
  done
  rm -rf /tmp/onnx
fi
rm -rf /root/.npm
