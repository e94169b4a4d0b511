#!/bin/sh
# Writes what is generated from pkg/apis: deep copies beside the types, CRDs in
# config/crd, OpenAPI for the aggregated API in pkg/apiserver/openapi, the API
# reference in docs/api.md, all that is installed in config/install.yaml.
#
# The kinds of group data.packaging.carvel.dev get no CRD: an aggregated API serves
# them. Old CRDs are removed first, so that a kind that is gone leaves no file.
set -eu
cd "$(dirname "$0")/.."

# `make` has built it; without make, the go command does.
controller_gen=bin/dev/controller-gen
[ -x "$controller_gen" ] || controller_gen=$(go -C hack/tools/codegen tool -n controller-gen)
openapi_gen=bin/dev/openapi-gen
[ -x "$openapi_gen" ] || openapi_gen=$(go -C hack/tools/codegen tool -n openapi-gen)
apis=./pkg/apis

"$controller_gen" object paths="$apis/..."

rm -f config/crd/*.yaml
"$controller_gen" crd \
  paths="$apis/kappctrl/v1alpha1" \
  paths="$apis/packaging/v1alpha1" \
  paths="$apis/internalpackaging/v1alpha1" \
  output:crd:dir=config/crd

# The report names rules for APIs of Kubernetes itself.
"$openapi_gen" --output-dir pkg/apiserver/openapi --output-pkg github.com/garboard-dev/garboard/pkg/apiserver/openapi \
  --output-file zz_generated.openapi.go --output-model-name-file zz_generated.model_name.go \
  --readonly-pkg k8s.io/apimachinery/pkg/apis/meta/v1 --readonly-pkg k8s.io/apimachinery/pkg/runtime \
  --readonly-pkg k8s.io/apimachinery/pkg/version --go-header-file /dev/null --report-filename /dev/null \
  "$apis/kappctrl/v1alpha1" "$apis/datapackaging/v1alpha1" \
  k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version

go run ./hack/apidoc config/crd >docs/api.md

# `make tools` builds ytt. Where it is missing the file stays as it is: a test of
# config compares it.
if [ -x bin/tools/ytt ]; then
  hack/release-manifest.sh >config/install.yaml.new
  mv config/install.yaml.new config/install.yaml
fi
