#!/bin/sh
# Writes what is generated from pkg/apis: deep copies beside the types, CRDs in
# config/crd, the API reference in docs/api.md, all that is installed in
# config/install.yaml.
#
# The kinds of group data.packaging.carvel.dev get no CRD: an aggregated API serves
# them. Old CRDs are removed first, so that a kind that is gone leaves no file.
set -eu
cd "$(dirname "$0")/.."

# `make` has built it; without make, the go command does.
controller_gen=bin/dev/controller-gen
[ -x "$controller_gen" ] || controller_gen=$(go -C hack/tools/codegen tool -n controller-gen)
apis=./pkg/apis

"$controller_gen" object paths="$apis/..."

rm -f config/crd/*.yaml
"$controller_gen" crd \
  paths="$apis/kappctrl/v1alpha1" \
  paths="$apis/packaging/v1alpha1" \
  paths="$apis/internalpackaging/v1alpha1" \
  output:crd:dir=config/crd

go run ./hack/apidoc config/crd >docs/api.md

# `make tools` builds ytt. Where it is missing the file stays as it is: a test of
# config compares it.
if [ -x bin/tools/ytt ]; then
  hack/release-manifest.sh >config/install.yaml.new
  mv config/install.yaml.new config/install.yaml
fi
