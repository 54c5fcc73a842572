#!/bin/bash
# Builds the control plane and its tools from Go modules into DIR: some 14 minutes of CPU time and 4 GB of build cache, once.
#
# usage: lab/kube/build.sh DIR
set -eu
dir=$(realpath -m "${1:?usage: lab/kube/build.sh DIR}")
# shellcheck source=lab/common.sh
. "$(dirname "$0")/../common.sh"
here=$LAB/kube
command -v go >/dev/null || die "go is missing: install Go 1.26 or newer"
mkdir -p "$dir"
# If the checksum of the sources changed, build anew.
stamp=$(cat "$here/main.go" "$here/go.sum" | sha256sum | cut -d' ' -f1)
[ "$(cat "$dir/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
echo "building a Kubernetes control plane into $dir: some 10 minutes" >&2
(cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$dir/control-plane" .)
for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do ln -sf control-plane "$dir/$name"; done
GOBIN=$dir CGO_ENABLED=0 go install sigs.k8s.io/kwok/cmd/kwok@v0.8.0
GOBIN=$dir CGO_ENABLED=0 go install helm.sh/helm/v3/cmd/helm@v3.22.0
echo "$stamp" >"$dir/stamp"
