# Targets are one line; what needs more is in hack/. `make` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# Binaries are static and do not depend on where they were built; tests without
# the race detector share their compiled packages.
export CGO_ENABLED := 0
export GOFLAGS := -buildvcs=false -trimpath
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo develop)
FAMILIES := carvel vendir helm lfs sops cue kustomize jsonnet registry kwok
STAMP := bin/.stamp
FUZZTIME ?= 10000x

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-20s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/garboard and the sidecar's own tools, static
	@go build -ldflags '-s -w -X main.Version=$(VERSION)' -o bin/garboard ./cmd/garboard && go build -ldflags '-s -w' -o bin/tools/ssh ./cmd/garboard-ssh && go build -ldflags '-s -w' -o bin/tools/unpack ./cmd/garboard-unpack && go build -ldflags '-s -w' -o bin/tools/resolve ./cmd/garboard-resolve

.PHONY: tools
tools: $(FAMILIES:%=$(STAMP)/%) ## build the tools that the sidecar and the tests run

.PHONY: devcluster
devcluster: $(STAMP)/devcluster ## build the control plane for tests

$(STAMP)/devcluster: hack/build-devcluster.sh test/devcluster/go.mod test/devcluster/go.sum test/devcluster/main.go
	@echo building devcluster && hack/build-devcluster.sh && mkdir -p $(@D) && touch $@

$(STAMP)/%: hack/build-tools.sh hack/tools/%/go.mod hack/tools/%/go.sum
	@echo building the tools of hack/tools/$* && hack/build-tools.sh $* && mkdir -p $(@D) && touch $@

.PHONY: update-generated
update-generated: ## generate deepcopy functions, CRDs and what else is generated
	@hack/generate.sh

.PHONY: update
update: update-generated ## bring all generated files up to date

.PHONY: verify-generated
verify-generated: ## fail if a generated file is out of date
	@hack/verify-generated.sh

.PHONY: lint
lint: $(STAMP)/lint ## run the linters of hack/golangci.yml
	@bin/dev/golangci-lint run --allow-parallel-runners --config hack/golangci.yml ./...

.PHONY: vuln
vuln: $(STAMP)/vuln ## look for known vulnerabilities, where their data base can be reached
	@hack/vuln.sh

.PHONY: verify
verify: verify-generated lint vuln ## all checks that run no test

.PHONY: test-unit
test-unit: build tools ## tests that need no cluster, under the race detector
	@CGO_ENABLED=1 go test -race $$(hack/packages.sh unit)

.PHONY: test-cluster
test-cluster: build tools devcluster ## tests on a real control plane, end-to-end tests among them
	@go test -timeout 30m -p 1 $$(hack/packages.sh cluster)

.PHONY: fuzz-short
fuzz-short: ## run each fuzz test with FUZZTIME inputs, or for as long
	@FUZZTIME=$(FUZZTIME) hack/fuzz.sh

.PHONY: test
test: verify fuzz-short test-unit test-cluster ## all that CI runs

.PHONY: bench
bench: build tools devcluster ## end-to-end benchmarks: prints a table and writes bench.json
	@go test -count=1 -timeout 30m -run '^$$' -bench . -benchtime 1x ./test/bench

.PHONY: run
run: build tools devcluster ## show Garboard at work on a real control plane; ONCE=1 ends after the table
	@go build -o bin/dev/devenv ./test/testenv/cmd/devenv && bin/dev/devenv run $(if $(ONCE),-once)

.PHONY: up
up: build tools devcluster ## the same in the background; kubeconfig at .dev/kubeconfig
	@go build -o bin/dev/devenv ./test/testenv/cmd/devenv && bin/dev/devenv up

.PHONY: down
down: ## end what `make up` started
	@bin/dev/devenv down

.PHONY: clean
clean: ## remove what was built
	@rm -rf bin .dev bench.json
