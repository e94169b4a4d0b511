#!/usr/bin/env bash
# verify-generated.sh generates into a copy of the tree and fails on a difference,
# so that it neither depends on nor changes what is not committed.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r cmd config docs hack pkg go.mod go.sum Makefile "$copy"
"$copy/hack/generate.sh"
for part in config docs pkg; do
	if ! diff -r "$part" "$copy/$part"; then
		echo 'generated files are out of date: run `make update` and commit the result' >&2
		exit 1
	fi
done
