#!/usr/bin/env bash
# build-tools.sh FAMILY builds the tools that hack/tools/FAMILY/go.mod names:
# static, those that the sidecar may run into bin/tools, all others into bin/dev.
set -euo pipefail
cd "$(dirname "$0")/.."

family=$1
module=hack/tools/$family
sidecar=" vendir git-lfs ytt kbld helm sops cue kustomize jsonnet "

# A tool that is built as a dependency does not know its own version. Some check
# it (vendir's and kbld's minimumRequiredVersion, ytt's version.require_at_least)
# and refuse a "v" before it; the others only print it.
version() { awk -v m="$1" '$1 == m { print substr($2, 2); exit }' "$module/go.mod"; }
flags="-s -w"
case $family in
carvel)
	flags+=" -X carvel.dev/ytt/pkg/version.Version=$(version carvel.dev/ytt)"
	flags+=" -X carvel.dev/kbld/pkg/kbld/version.Version=$(version carvel.dev/kbld)"
	flags+=" -X carvel.dev/imgpkg/pkg/imgpkg/cmd.Version=$(version carvel.dev/imgpkg)"
	flags+=" -X carvel.dev/kapp/pkg/kapp/version.Version=$(version carvel.dev/kapp)"
	;;
vendir) flags+=" -X carvel.dev/vendir/pkg/vendir/version.Version=$(version carvel.dev/vendir)" ;;
helm)
	flags+=" -X helm.sh/helm/v3/internal/version.version=v$(version helm.sh/helm/v3)"
	# What charts see of the cluster unless they are told: as in Helm's own builds
	# the Kubernetes release of its libraries, 0.N.x for 1.N. Without it charts would
	# see 1.20, and many refuse that.
	minor=$(version k8s.io/client-go | cut -d. -f2)
	flags+=" -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=$minor"
	;;
registry) flags+=" -X github.com/distribution/distribution/v3/version.version=v$(version github.com/distribution/distribution/v3)" ;;
esac

mkdir -p bin/tools bin/dev
out=$(mktemp -d bin/.build-XXXXXX)
trap 'rm -rf "$out"' EXIT
CGO_ENABLED=0 go build -C "$module" -trimpath -ldflags "$flags" -o "$PWD/$out/" tool
for built in "$out"/*; do
	name=${built##*/}
	case $sidecar in
	*" $name "*) mv -f "$built" bin/tools/ ;;
	*) mv -f "$built" bin/dev/ ;;
	esac
done
