#!/bin/sh
# Builds programs of others for the tests, from Go modules at the versions of scripts/go-tools: .cache/go-tools/NAME.
# Usage: scripts/go-tools.sh NAME ...      compose, cosign, or kubernetes: helm, etcd, kube-apiserver, kubectl, kube-controller-manager and
#                                          kube-scheduler in .cache/kubernetes
# Needs Go 1.25 or newer and the Go module proxy. What is there already in this version is kept. The first build of kubernetes takes about
# 20 minutes on two cores.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
command -v go >/dev/null 2>&1 || {
  echo "go-tools: Go is not installed." >&2
  exit 1
}
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false
flags="-s -w -X k8s.io/component-base/version.gitVersion=v1.34.4 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34"

# Usage: build MODULE FOLDER PROGRAM=PACKAGE ...
build() {
  module=$1 to=$root/.cache/$2
  shift 2
  mkdir -p "$to"
  # A program is of this version where its stamp equals the module's checksums.
  stamp=$to/$module.sum
  for program in "$@"; do
    [ -x "$to/${program%%=*}" ] && cmp -s "$root/scripts/go-tools/$module/go.sum" "$stamp" && continue
    echo "Building ${program%%=*} ..."
    (cd "$root/scripts/go-tools/$module" && go build -trimpath -ldflags "$flags" -o "$to/${program%%=*}" "${program#*=}")
  done
  cp "$root/scripts/go-tools/$module/go.sum" "$stamp"
}

for name in "$@"; do
  case $name in
  compose) build compose go-tools docker-compose=github.com/docker/compose/v2/cmd ;;
  cosign) build cosign go-tools cosign=github.com/sigstore/cosign/v2/cmd/cosign ;;
  kubernetes)
    build helm kubernetes helm=helm.sh/helm/v3/cmd/helm
    build etcd kubernetes etcd=go.etcd.io/etcd/server/v3
    build kubernetes kubernetes kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver kubectl=k8s.io/kubernetes/cmd/kubectl \
      kube-controller-manager=k8s.io/kubernetes/cmd/kube-controller-manager kube-scheduler=k8s.io/kubernetes/cmd/kube-scheduler
    ;;
  *)
    echo "go-tools: unknown program $name; see the head of this script." >&2
    exit 1
    ;;
  esac
done
