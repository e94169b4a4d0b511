#!/usr/bin/env bash
# build-devcluster.sh builds bin/dev/devcluster, the control plane for tests.
set -euo pipefail
cd "$(dirname "$0")/.."

# Without these the API server reports a version that no client can parse.
version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' test/devcluster/go.mod)
IFS=. read -r major minor _ <<<"${version#v}"
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	flags+=" -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"
	flags+=" -X $package.gitCommit=0000000000000000000000000000000000000000"
	flags+=" -X $package.gitTreeState=clean -X $package.buildDate=2026-01-01T00:00:00Z"
done
mkdir -p bin/dev
CGO_ENABLED=0 go build -C test/devcluster -trimpath -ldflags "$flags" -o "$PWD/bin/dev/devcluster" .
