#!/usr/bin/env bash
# fuzz.sh runs each fuzz test of the module for $FUZZTIME: a number of inputs, such
# as 10000x, or a time. A time can fail a test that found nothing, with "context
# deadline exceeded", when it ends in the middle of an input. go can run only one at
# a time. Inputs that reach new code are made smaller in a few steps only: by default
# each may take a minute. What a fuzz test finds is in its package's testdata/fuzz: commit it.
set -euo pipefail
cd "$(dirname "$0")/.."

grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' cmd pkg test | sort | while IFS=: read -r file match; do
	go test -run '^$' -fuzz "^${match#func }\$" -fuzztime "${FUZZTIME:-10000x}" -fuzzminimizetime 100x "./$(dirname "$file")"
done
