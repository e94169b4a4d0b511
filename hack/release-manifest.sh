#!/usr/bin/env bash
# release-manifest.sh [YTT-OPTION...] prints what installs Garboard. ytt's options
# choose values of config/deployment/values-schema.yml:
#
#	hack/release-manifest.sh -v image=registry.example.com/garboard:1.0.0 >install.yaml
#
# config/install.yaml is its output without options.
set -euo pipefail
cd "$(dirname "$0")/.."

# Namespaces, accounts and kinds come before what needs them.
parts=()
for part in crd rbac apiservice deployment; do
	[[ -d config/$part ]] && parts+=(-f "config/$part")
done
exec bin/tools/ytt "${parts[@]}" "$@"
