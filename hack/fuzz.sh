#!/usr/bin/env bash
# fuzz.sh runs each fuzz test of the module for $FUZZTIME; go can run only one at
# a time. What a fuzz test finds is in its package's testdata/fuzz: commit it.
set -euo pipefail
cd "$(dirname "$0")/.."

grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' cmd pkg test | sort | while IFS=: read -r file match; do
	go test -run '^$' -fuzz "^${match#func }\$" -fuzztime "${FUZZTIME:-5s}" "./$(dirname "$file")"
done
