# The scenarios to play, the handler under test, and kube-proxy's mode.
SET ?= fast
HANDLER ?= builtin
HANDLER_IMAGE ?=
SCENARIOS ?=
REPEAT ?= 1
# A Ginkgo label filter for the specs of any suite, such as "profile:PDB" or, with
# SET=full, "core && !set:fast".
LABELS ?=
# How long make conformance may take in all; a repeated or full run needs more.
TIMEOUT ?= 85m
PROXY_MODE ?= iptables
# A CloudFormation template of one's own for make eventbridge.
RULES ?=
# How many sessions make truth plays at each rate, how many rounds make chaos does,
# and the seed to play either again.
SESSIONS ?= 20
ROUNDS ?= 5
SEED ?=
# The matrix of DNS settings for make sweep.
SWEEP ?= scenarios/sweeps/lameduck-by-readiness.yaml
# Names of suites/mutants/mutants.yaml for make mutants; all without it.
MUTANTS ?=

# Where make build puts the binary, and files to compile in place of others, as go
# help build says of -overlay: a mutant is built in this way.
BINARY ?= bin/spotdrill
OVERLAY ?=

SHELL := /bin/bash
# Binary, suite and the binaries in the node image are built alike, so that they
# share what is compiled; kind/images/steps.sh says why in this way.
GO_STATIC := CGO_ENABLED=0 GOGC=400 go
LEAN := -trimpath -gcflags=all=-dwarf=false -gcflags='k8s.io/...=-dwarf=false -l' -ldflags '-s -w'
TOOL := go tool -modfile=.ci/tools/go.mod

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  SET=fast|full  HANDLER=builtin|karpenter|nth|none|path/to/handler.yaml  HANDLER_IMAGE=ref"
	@echo "  SCENARIOS=name,name  REPEAT=n  TIMEOUT=85m  PROXY_MODE=iptables|nftables|ipvs  RULES=path/to/template.yaml  SWEEP=path/to/matrix.yaml  MUTANTS=name,name"
	@echo "  SESSIONS=n  ROUNDS=n  SEED=n  LABELS='profile:SPOT && set:fast'"

# run-suite NAME,TIMEOUT,FAILED,FLAGS compiles a suite and runs it in this folder, from
# which paths are meant; FAILED is printed if it does not pass. Its progress goes
# to stderr, Ginkgo's own output to a file.
define run-suite
	@$(GO_STATIC) test -c $(LEAN) -o bin/$(1).test ./suites/$(1)
	@bin/$(1).test --drill --test.timeout=0 --ginkgo.timeout=$(2) --ginkgo.grace-period=5m \
		--ginkgo.fail-on-empty --ginkgo.fail-on-pending --ginkgo.no-color --ginkgo.v $(if $(LABELS),'--ginkgo.label-filter=$(LABELS)') $(4) >bin/ginkgo.log || { code=$$?; \
		grep -q 'Running Suite' bin/ginkgo.log || cat bin/ginkgo.log >&2; \
		echo "make $(1): $(3); Ginkgo's output is in bin/ginkgo.log" >&2; exit $$code; }
endef

.PHONY: conformance
conformance: build ## Bring the system up, play the drills, judge, write reports
	$(call run-suite,conformance,$(TIMEOUT),not passed,--set=$(SET) --handler=$(HANDLER) --handler-image=$(HANDLER_IMAGE) "--scenarios=$(SCENARIOS)" --repeat=$(REPEAT) --proxy-mode=$(PROXY_MODE))

.PHONY: chaos
chaos: build ## Have several things go wrong at once, drawn from a seed (a minute a round)
	$(call run-suite,chaos,$(TIMEOUT),not passed,--rounds=$(ROUNDS) $(if $(SEED),--seed=$(SEED)) --handler=$(HANDLER) --handler-image=$(HANDLER_IMAGE) --proxy-mode=$(PROXY_MODE))

.PHONY: mutants
mutants: build ## Plant defects in the built-in handler; each must be caught
	$(call run-suite,mutants,85m,not all were caught,"--mutants=$(MUTANTS)" --proxy-mode=$(PROXY_MODE))

.PHONY: eventbridge
eventbridge: ## Judge the EventBridge rules by 20 events; needs no cluster
	$(call run-suite,eventbridge,30m,not passed,--rules=$(RULES))

.PHONY: truth
truth: build dnsperf ## Hold the prober's windows against outages at known times (9 min, quiet machine)
	@$(GO_STATIC) build $(LEAN) -o bin/truth ./suites/truth
	@bin/truth windows -spotdrill=$(BINARY) -sessions=$(SESSIONS) $(if $(SEED),-seed=$(SEED))

.PHONY: bench
bench: build dnsperf ## Measure the prober beside dnsperf, against one CoreDNS (6 min, quiet machine)
	@$(GO_STATIC) build $(LEAN) -o bin/truth ./suites/truth
	@cd kind/images/coredns && GOWORK=off GOFLAGS= $(GO_STATIC) build -mod=readonly -buildvcs=false $(LEAN) -o ../../../bin/coredns .
	@bin/truth bench -spotdrill=$(BINARY)

.PHONY: dnsperf
dnsperf:
	@command -v dnsperf >/dev/null || .ci/install dnsperf

.PHONY: sweep
sweep: build ## Drill a matrix of DNS settings, and say which of them lose no query
	@bin/spotdrill sweep $(SWEEP) --proxy-mode=$(PROXY_MODE)

.PHONY: build
build: ## Build bin/spotdrill, one static binary
	@echo "building $(BINARY) (up to 5 min the first time, seconds after)"
	@$(GO_STATIC) build $(LEAN) $(if $(OVERLAY),-overlay $(OVERLAY)) -o $(BINARY) ./cmd/spotdrill

.PHONY: up
up: build ## Only bring the system up
	@bin/spotdrill up --proxy-mode=$(PROXY_MODE)

.PHONY: test
test: cc ## Run every test that needs no cluster, with the race detector
	@echo "running the tests that need no cluster (about 5 min the first time, most of it compiling)"
	@go test -race ./cmd/... ./framework/... ./kind/... ./reports/... ./scenarios/... ./suites/... ./docs/...

.PHONY: queue-test
queue-test: build ## Test queue, rules and the proxy's faults with a real LocalStack
	@eval "$$(bin/spotdrill up --proxy-mode=$(PROXY_MODE))" && go test -count=1 -v -run LocalStack ./framework/proxy ./framework/cloud

.PHONY: report-test
report-test: ## Open the HTML report in Chromium with axe-core, hold JUnit to its schema and read it with junitparser
	@.ci/reports/test

# The race detector needs a C compiler.
.PHONY: cc
cc:
	@command -v gcc >/dev/null || .ci/install gcc libc6-dev

.PHONY: demo
demo: build ## Record a terminal session as docs/demo.cast and docs/demo.svg
	@.ci/demo/record

.PHONY: verify
verify: ## Check format, lint, import directions, YAML and shell
	@.ci/verify

.PHONY: fix
fix: ## Mend what a tool can mend
	@$(TOOL) gofumpt -w $$(git ls-files -co --exclude-standard '*.go')
	@.ci/yaml-files | xargs $(TOOL) yamlfmt -conf .ci/yamlfmt.yaml
	@$(TOOL) shfmt -w $$(.ci/shell-files)
	@go test ./docs/schema -update
	@$(TOOL) golangci-lint run --fix

.PHONY: clean
clean: build ## Remove the cluster, its containers and its network; reports stay
	@bin/spotdrill down
