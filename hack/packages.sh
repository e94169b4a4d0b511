#!/usr/bin/env bash
# packages.sh unit|cluster lists the packages whose tests do not, or do, start a
# control plane: those whose tests import test/testenv.
set -euo pipefail
cd "$(dirname "$0")/.."

env=github.com/garboard-dev/garboard/test/testenv
go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}} ' ./... | awk -v env="$env" -v want="$1" '
	{ kind = "unit"
	  for (i = 2; i <= NF; i++) if ($i == env || $i == env "/controlplane") kind = "cluster"
	  if ($1 ~ /\/test\/bench$/) kind = "bench"
	  if (kind == want) print $1 }'
