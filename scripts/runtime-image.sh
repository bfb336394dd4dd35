#!/bin/sh
# Builds the images of Dockerfile.gpu: the model server's, stoker-runtime:<version>, which the docker driver starts, the agent's,
# stoker-agent:<version>, or the control plane's, stoker-control-plane:<version>.
# Usage: scripts/runtime-image.sh --base IMAGE|debootstrap [--target runtime|agent|control-plane|base] [--tag NAME] [--ca FILE]
#                                 [--cuda auto|on|off] [--onnx auto|cuda|cpu|off] [--runtime IMAGE] [--cache no]
#                                 [--platform linux/amd64|linux/arm64]
#   --base IMAGE         with its digest (NAME@sha256:...), so that every build has the same base; required.
#   --base debootstrap   makes a small Debian base here first (root, debootstrap): for machines that reach no image registry.
#                        It is kept in .cache/ and as the image localhost/stoker-base:bookworm. Models then run on the CPU.
#   --target base        makes that base only.
#   --ca FILE            certificates to trust during the build, where a proxy re-signs TLS ($NODE_EXTRA_CA_CERTS).
#   --cuda, --onnx       what of CUDA goes inside; auto: what the base image can use.
#   --runtime IMAGE      the image that the agent's starts (stoker-runtime:<version>).
#   --cache no           builds every layer again.
#   --platform           another one than the engine's own needs QEMU for its programs (Debian: qemu-user-static, binfmt-support).
#                        The tag then ends with the processor, as in stoker-runtime:<version>-arm64, unless --tag is given.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
version=$(sed -n 's/^ *"version": *"\([^"]*\)".*/\1/p' "$root/package.json" | head -n 1)
target=runtime base= tag= ca=${NODE_EXTRA_CA_CERTS:-} cuda=auto onnx=auto runtime=stoker-runtime:$version cache=yes platform=
suite=bookworm

fail() {
  printf 'runtime-image: %s\n' "$*" >&2
  exit 1
}

while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || fail "$1 needs a value; see the head of this script."
  case $1 in
  --target) target=$2 ;;
  --base) base=$2 ;;
  --tag) tag=$2 ;;
  --ca) ca=$2 ;;
  --cuda) cuda=$2 ;;
  --onnx) onnx=$2 ;;
  --runtime) runtime=$2 ;;
  --cache) cache=$2 ;;
  --platform) platform=$2 ;;
  *) fail "unknown option $1; see the head of this script." ;;
  esac
  shift 2
done

case $platform in
"" | linux/amd64 | linux/arm64) ;;
*) fail "--platform is linux/amd64 or linux/arm64, not $platform." ;;
esac
tag=${tag:-stoker-$target:$version${platform:+-${platform#linux/}}}
case $target in
runtime | agent | control-plane) ;;
base) [ "$base" = debootstrap ] || fail "--target base needs --base debootstrap." ;;
*) fail "--target is runtime, agent, control-plane or base, not $target." ;;
esac
case $base in
debootstrap) ;;
*@sha256:????????????????????????????????????????????????????????????????)
  case ${base##*@sha256:} in *[!0-9a-f]*) fail "--base $base has a digest that is not 64 hexadecimal digits." ;; esac
  ;;
"") fail "--base is missing: give NAME@sha256:DIGEST, such as nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04@sha256:... ('docker buildx imagetools inspect NAME' prints the digest), or debootstrap." ;;
*) fail "--base $base has no digest: give it as $base@sha256:... ('docker buildx imagetools inspect $base' prints the digest)." ;;
esac
command -v docker >/dev/null 2>&1 || fail "the docker command is missing: install Docker (Debian: docker.io) and run this again."
docker version >/dev/null 2>&1 || fail "no Docker engine answers: start it (dockerd, or systemctl start docker) and run this again."
[ -z "$ca" ] || [ -r "$ca" ] || fail "$ca cannot be read."

own_platform=linux/$(docker version --format '{{.Server.Arch}}')
[ "$platform" != "$own_platform" ] || platform=
# A name that no registry can serve in its place.
local_base=localhost/stoker-base:$suite${platform:+-${platform#linux/}}

make_base() {
  docker image inspect "$local_base" >/dev/null 2>&1 && return 0
  arch=${platform:-$own_platform}
  arch=${arch#linux/}
  archive=$root/.cache/debian-$suite-$arch.tar
  if [ ! -f "$archive" ]; then
    [ "$(id -u)" = 0 ] || fail "making a base image needs root: run this with sudo, or give --base an image you have."
    command -v debootstrap >/dev/null 2>&1 || fail "debootstrap is missing: apt-get install debootstrap, then run this again."
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
      sed -n 's#.*\(https\{0,1\}://[^ ]*/debian\)/\{0,1\}\( .*\)\{0,1\}$#\1#p' | grep -v security | head -n 1)
    mkdir -p "$root/.cache"
    tree=$(mktemp -d "$root/.cache/debootstrap.XXXXXX")
    trap 'rm -rf "$tree" "$archive.new"' EXIT INT TERM
    echo "Making a Debian base (once, about a minute) ..."
    debootstrap --force-check-gpg --variant=minbase --arch="$arch" "$suite" "$tree" ${mirror:+"$mirror"} >"$tree.log" 2>&1 || {
      tail -n 5 "$tree.log" >&2
      fail "debootstrap failed (its last lines are above)."
    }
    rm -rf "$tree.log" "$tree"/var/cache/apt/archives/*.deb "$tree"/usr/share/doc "$tree"/usr/share/man "$tree"/usr/share/locale \
      "$tree"/var/lib/apt/lists/*
    tar -C "$tree" -cf "$archive.new" .
    mv "$archive.new" "$archive"
    rm -rf "$tree"
    trap - EXIT INT TERM
  fi
  # Engines import archives as of their own processor, and load images of any.
  image=$(mktemp -d "$root/.cache/base-image.XXXXXX")
  trap 'rm -rf "$image"' EXIT INT TERM
  ln -s "$archive" "$image/layer.tar"
  digest=$(sha256sum <"$archive" | cut -d ' ' -f 1)
  created=1970-01-01T00:00:00Z
  printf '%s' "{\"architecture\":\"$arch\",\"os\":\"linux\",\"created\":\"$created\",\"config\":{\"Cmd\":[\"/bin/sh\"]}," \
    "\"history\":[{\"created\":\"$created\",\"comment\":\"debootstrap $suite\"}]," \
    "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:$digest\"]}}" >"$image/config.json"
  printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$local_base" >"$image/manifest.json"
  tar -C "$image" --dereference -cf - manifest.json config.json layer.tar | docker load >/dev/null
  rm -rf "$image"
  trap - EXIT INT TERM
}

if [ "$base" = debootstrap ]; then
  make_base
  base=$local_base
fi
if [ "$target" = base ]; then
  echo "Built $local_base."
  exit
fi

# A folder of its own as context: nothing else of the repository is sent, and the extra CA never lies in the tree.
context=$(mktemp -d "${TMPDIR:-/tmp}/stoker-image.XXXXXX")
trap 'rm -rf "$context"' EXIT INT TERM
mkdir -p "$context/scripts"
cp "$root/package.json" "$root/package-lock.json" "$root/.npmrc" "$root/Dockerfile.gpu" "$context"
cp -R "$root/proto" "$root/runtime" "$root/agent" "$context"
cp -R "$root/scripts/image" "$root/scripts/prune-native.mjs" "$context/scripts"
if [ "$target" = control-plane ]; then
  cp -R "$root/control-plane" "$root/console" "$root/docs" "$root/CHANGELOG.md" "$root/tsconfig.json" "$context"
  rm -rf "$context"/console/dist* "$context"/docs/dist*
  cp -R "$root/scripts/docs" "$root/scripts/build-console.ts" "$root/scripts/build-docs.ts" "$context/scripts"
  mkdir "$context/deploy"
  cp "$root/deploy/agent-types.json" "$context/deploy"
fi
[ -z "$ca" ] || cp "$ca" "$context/extra-ca.pem"

epoch=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || true)}
set -- --build-arg "SOURCE_DATE_EPOCH=$epoch" --build-arg "LLAMA_CUDA=$cuda" --build-arg "ONNX=$onnx" --build-arg "RUNTIME_IMAGE=$runtime" \
  --build-arg "NPM_REGISTRY=$(npm config get registry 2>/dev/null)"
[ -z "$base" ] || set -- "$@" --build-arg "BASE_IMAGE=$base"
[ -z "$platform" ] || set -- "$@" --platform "$platform"
[ "$cache" != no ] || set -- "$@" --no-cache
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  eval "value=\${$name:-}"
  [ -z "$value" ] || set -- "$@" --build-arg "$name=$value"
done
# A client without buildx can only build the classic way, which also builds all stages before the target: leave out those of other images.
if ! docker buildx version >/dev/null 2>&1; then
  export DOCKER_BUILDKIT=0
  awk -v target="$target" '
    /^FROM / { stage = $NF; isUsed = stage == "packages" || stage == target || stage == target "-files" || (stage == "site" && target == "control-plane") }
    NR == 1 { isUsed = 1 }
    isUsed' "$root/Dockerfile.gpu" >"$context/Dockerfile.gpu"
fi
docker build --network host --target "$target" --tag "$tag" --file "$context/Dockerfile.gpu" "$@" "$context"
echo "Built $tag."
