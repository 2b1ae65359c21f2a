# Each variable is the flag of the same name of the program that a target runs: SET is --set.
# The scenarios to play, the handler under test, and kube-proxy's mode.
SET ?= fast
HANDLER ?= builtin
HANDLER_IMAGE ?=
# Files with IAM policies of the handler, by comma: calls of SQS that they do not allow are refused.
IAM_POLICY ?=
SCENARIOS ?=
REPEAT ?= 1
# A part of the scenarios, such as 2/4; spotdrill report merge joins the reports of all parts.
SHARD ?=
# How many drills of make conformance can play at the same time in lanes: see docs/concepts.md.
LANES ?= 1
# A Ginkgo label filter for the specs of any suite, such as "profile:PDB" or, with
# SET=full, "core && !set:fast".
LABEL_FILTER ?=
# The timeout of make conformance; a repeated or full run needs more.
TIMEOUT ?= 85m
# Empty: that of PLATFORM, or iptables.
PROXY_MODE ?=
# A preset, see spotdrill platforms; empty: the values of kubeadm.
PLATFORM ?=
# Versions, such as v1.34 or v1.34.4; the default is the newest that is known, for handlers that of their description.
KUBERNETES ?=
COREDNS ?=
KARPENTER ?=
NTH ?=
# Your own CloudFormation template for make eventbridge.
RULES ?=
# The queue of that template that is tested, by the name of its resource; the notices that must get there,
# such as spot,state-change; and values of its parameters, such as Environment=prod,AWS::AccountId=111122223333.
QUEUE ?=
WANT ?=
PARAMETERS ?=
# The sessions that make truth plays at each rate, how long make explore begins variations, and the seed to repeat
# either of them.
SESSIONS ?= 20
BUDGET ?= 30m
SEED ?=
# Names of suites/mutants/mutants.yaml for make mutants; the default is all.
MUTANTS ?=
# An issue of suites/reproduce/cases for make reproduce, such as ISSUE=NTH#1277; or
# tonight, for two by the day. The default is all.
ISSUE ?=

# make platforms MISSING=true measures what docs/platforms.md lacks; SETTINGS=shipped or proposed, only one half;
# WAYS=kubectl-drain,restart, only these ways.
MISSING ?= false
SETTINGS ?=
WAYS ?=

# The URL of an emulator for make emulator-test, and its name and version, under which its outcomes are kept.
ENDPOINT ?=
RECORD ?=

# make observe-test KEEP=true leaves the cluster.
KEEP ?= false

# Where make build puts the binary, and a file for -overlay (see go help build), which
# replaces source files: mutants are built in this way.
BINARY ?= bin/spotdrill
OVERLAY ?=

SHELL := /bin/bash
# The binary, the suites and the binaries in the node image are built with the same
# flags, so that they share the build cache; kind/images/steps.sh explains the flags.
# .ci/fold shows the modules that go downloads as one line.
GO_STATIC := CGO_ENABLED=0 GOGC=400 $(CURDIR)/.ci/fold go
LEAN := -trimpath -gcflags=all=-dwarf=false -gcflags='k8s.io/...=-dwarf=false -l' -ldflags '-s -w'
TOOL := $(CURDIR)/.ci/fold go tool -modfile=.ci/tools/go.mod

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  SET=fast|handler|full|soak  HANDLER=builtin|builtin-imds|karpenter|nth|nth-imds|none|path/to/handler.yaml, or two by comma  HANDLER_IMAGE=ref  IAM_POLICY=path/to/policy.json,another"
	@echo "  SCENARIOS=name,name  REPEAT=n  SHARD=2/4  LANES=8  TIMEOUT=85m  PROXY_MODE=iptables|nftables|ipvs  PLATFORM=eks-1.34  KUBERNETES=v1.34  COREDNS=v1.13.2  KARPENTER=v1.14.1  NTH=v1.25.1  RULES=path/to/template.yaml  QUEUE=name  WANT=spot,state-change  PARAMETERS=NAME=value,…  MUTANTS=name,name  ISSUE=NTH#1277"
	@echo "  SESSIONS=n  BUDGET=30m  SEED=n  LABEL_FILTER='profile:SPOT && set:fast'"

# The versions of the cluster, and those of handlers, as flags.
CLUSTER_VERSIONS = $(if $(KUBERNETES),--kubernetes=$(KUBERNETES)) $(if $(COREDNS),--coredns=$(COREDNS))
HANDLER_VERSIONS = $(if $(KARPENTER),--karpenter=$(KARPENTER)) $(if $(NTH),--nth=$(NTH))

# run-suite NAME,TIMEOUT,FAILED,FLAGS compiles a suite and runs it in this folder, which
# paths are relative to: the specs alone, without the unit tests next to them. It prints
# FAILED if the suite does not pass. Ginkgo reports each spec as it begins and ends, except in
# conformance, whose console does; colours are for terminals.
define run-suite
	@$(GO_STATIC) test -c $(LEAN) -o bin/$(1).test ./suites/$(1)
	@[ -t 1 ] && [ -z "$$NO_COLOR" ] || export GINKGO_NO_COLOR=TRUE; \
		bin/$(1).test --drill --test.run='^TestSpecs$$' --test.timeout=0 --ginkgo.timeout=$(2) --ginkgo.grace-period=5m \
		--ginkgo.fail-on-empty --ginkgo.fail-on-pending $(if $(filter conformance,$(1)),,--ginkgo.v) $(if $(LABEL_FILTER),'--ginkgo.label-filter=$(LABEL_FILTER)') $(4) || { code=$$?; echo "make $@: $(3)" >&2; exit $$code; }
endef

.PHONY: conformance
conformance: build ## Bring the system up, play the drills, judge, write reports
	$(call run-suite,conformance,$(TIMEOUT),not passed,--set=$(SET) --handler=$(HANDLER) --handler-image=$(HANDLER_IMAGE) "--iam-policy=$(IAM_POLICY)" "--scenarios=$(SCENARIOS)" --repeat=$(REPEAT) --shard=$(SHARD) --lanes=$(LANES) --binary=$(BINARY) --proxy-mode=$(PROXY_MODE) --platform=$(PLATFORM) $(CLUSTER_VERSIONS) $(HANDLER_VERSIONS))

# SCENARIOS is one scenario.
.PHONY: explore
explore: build ## Disturb each call that the handler makes in a drill, and find what it does wrong then (30 min)
	@$(BINARY) explore $(or $(SCENARIOS),spot-notice-drains-node) --budget=$(BUDGET) $(if $(SEED),--seed=$(SEED)) $(if $(filter-out 1,$(LANES)),--lanes=$(LANES)) --handler=$(HANDLER) $(if $(PROXY_MODE),--proxy-mode=$(PROXY_MODE)) --platform=$(PLATFORM) $(CLUSTER_VERSIONS) $(HANDLER_VERSIONS)

.PHONY: soak
soak: build ## Send notices for half an hour; the handler's memory must not grow with them (35 min)
	@$(BINARY) run --set=soak --handler=$(HANDLER) --handler-image=$(HANDLER_IMAGE) $(CLUSTER_VERSIONS) $(HANDLER_VERSIONS)

.PHONY: mutants
mutants: build ## Plant defects in the built-in handler; the drills must catch each of them
	$(call run-suite,mutants,170m,not all were caught,"--mutants=$(MUTANTS)" --binary=$(BINARY) --proxy-mode=$(PROXY_MODE) $(CLUSTER_VERSIONS))

.PHONY: reproduce
reproduce: build ## Reproduce bugs of released software: red in the broken version, green in the fixed one
	$(call run-suite,reproduce,170m,not all were reproduced,"--issue=$(ISSUE)" --binary=$(BINARY) --proxy-mode=$(PROXY_MODE) $(CLUSTER_VERSIONS))

# PLATFORM=NAME plays one preset, PLATFORM=tonight two by the day; MISSING=true goes on with a run that was interrupted.
.PHONY: platforms
platforms: build ## Measure what is lost on each platform, in each way in which a node ends (45 min for one)
	$(call run-suite,platforms,12h,not all were measured,--platform=$(PLATFORM) --missing=$(MISSING) --settings=$(SETTINGS) --ways=$(WAYS) --binary=$(BINARY) --proxy-mode=$(PROXY_MODE))

.PHONY: eventbridge
eventbridge: ## Check the EventBridge rules with 20 events; needs no cluster
	$(call run-suite,eventbridge,30m,not passed,"--rules=$(RULES)" "--queue=$(QUEUE)" "--want=$(WANT)" "--parameters=$(PARAMETERS)")

.PHONY: truth-lanes
truth-lanes: build ## Check that 60 drills come out the same alone and, five times, in lanes (80 min)
	@$(GO_STATIC) build $(LEAN) -o bin/truth ./suites/truth
	@bin/truth neighbours -binary=$(BINARY) -handler=$(HANDLER) $(if $(filter-out 1,$(LANES)),-lanes=$(LANES))

.PHONY: truth
truth: build dnsperf ## Check windows and verdicts against outages and stalls at known times (14 min, quiet machine)
	@$(GO_STATIC) build $(LEAN) -o bin/truth ./suites/truth
	@bin/truth stalls -binary=$(BINARY)
	@bin/truth windows -binary=$(BINARY) -sessions=$(SESSIONS) $(if $(SEED),-seed=$(SEED))

.PHONY: bench
bench: build dnsperf coredns ## Compare the cost of the prober and dnsperf, with one CoreDNS (6 min, quiet machine)
	@$(GO_STATIC) build $(LEAN) -o bin/truth ./suites/truth
	@bin/truth bench -binary=$(BINARY)

# The newest CoreDNS that is known, from its recipe, as drills run it: the build cache is shared.
.PHONY: coredns
coredns:
	@echo "building bin/coredns (up to 4 min the first time, seconds after)"
	@mkdir -p bin && rm -rf bin/recipe && cp -r "$$(ls -d kind/images/releases/coredns-v* | sort -V | tail -n 1)" bin/recipe && mv bin/recipe/go.mod.txt bin/recipe/go.mod
	@cd bin/recipe && GOWORK=off GOFLAGS= $(GO_STATIC) build -mod=readonly -buildvcs=false $(LEAN) -o ../coredns .

.PHONY: dnsperf
dnsperf:
	@command -v dnsperf >/dev/null || .ci/install dnsperf

.PHONY: sweep
sweep: build ## Drill a matrix of DNS settings and report which of them lose no query
	@$(BINARY) sweep scenarios/sweeps/lameduck-by-readiness.yaml $(if $(PROXY_MODE),--proxy-mode=$(PROXY_MODE)) --platform=$(PLATFORM) $(CLUSTER_VERSIONS)

.PHONY: build
build: ## Build bin/spotdrill, one static binary
	@echo "building $(BINARY) (up to 5 min the first time, seconds after)"
	@$(GO_STATIC) build $(LEAN) $(if $(OVERLAY),-overlay $(OVERLAY)) -o $(BINARY) ./cmd/spotdrill

.PHONY: up
up: build ## Only create or reuse the system
	@$(BINARY) up $(if $(PROXY_MODE),--proxy-mode=$(PROXY_MODE)) --platform=$(PLATFORM) $(CLUSTER_VERSIONS)

# At its end, each process with the race detector sleeps for a second, so that other goroutines may still race; with
# 60 test binaries, and the programs that they start, that is most of a minute. A tenth of it is left.
.PHONY: test
test: cc coredns ## Run every test that needs no cluster, with the race detector
	@echo "running the tests that need no cluster (about 9 min the first time, most of it compiling)"
	@GORACE=atexit_sleep_ms=100 SPOTDRILL_COREDNS=$(CURDIR)/bin/coredns .ci/fold go test -race ./cmd/... ./framework/... ./kind/... ./reports/... ./scenarios/... ./suites/... ./docs/...
	@.ci/fold go test -run AHundredProbers ./reports

.PHONY: emulator-test
emulator-test: ## Check what an emulator of AWS must do: LocalStack, or the one at ENDPOINT=URL; needs no cluster
	$(call run-suite,emulator,30m,not all requirements are kept,--endpoint=$(ENDPOINT) --record=$(RECORD))

.PHONY: engines-test
engines-test: build ## Play drills on a Docker 29 of its own, as a user and as root (10 min on two idle cores, root)
	@.ci/engines/test

.PHONY: guest-test
guest-test: build ## Play a drill on Docker 29 in a guest with cgroup v2 and systemd, as far as that carries (slow, root)
	@.ci/engines/guest

.PHONY: action-test
action-test: ## Run the script of the GitHub Action as a runner does, with one drill
	@.ci/action-test

.PHONY: observe-test
observe-test: build ## Observe and drill a kind cluster that spotdrill did not make (15 min)
	$(call run-suite,observe,60m,not passed,--binary=$(BINARY) --keep=$(KEEP))

.PHONY: report-test
report-test: ## Check the HTML report in Chromium with axe-core, and JUnit with its schema and junitparser
	@.ci/reports/test

# The race detector needs a C compiler.
.PHONY: cc
cc:
	@command -v gcc >/dev/null || .ci/install gcc libc6-dev

.PHONY: demo
demo: build ## Record a terminal session as docs/demo.cast and docs/demo.svg
	@.ci/demo/record

.PHONY: fuzz
fuzz: ## Run every fuzz target for a minute
	@.ci/fuzz 1m

.PHONY: newer
newer: ## List the releases that are newer than those that are pinned
	@$(GO_STATIC) run $(LEAN) ./kind/newer

.PHONY: vulnerabilities
vulnerabilities: ## Look for known vulnerabilities in what the product calls
	@$(TOOL) govulncheck ./cmd/... ./framework/...

.PHONY: verify
verify: ## Check format, lint, import directions, YAML and shell
	@.ci/verify

.PHONY: fix
fix: ## Fix what a tool can fix
	@$(TOOL) gofumpt -w $$(git ls-files -co --exclude-standard '*.go')
	@.ci/yaml-files | xargs $(TOOL) yamlfmt -conf .ci/yamlfmt.yaml
	@$(TOOL) shfmt -w $$(.ci/shell-files)
	@.ci/fold go test ./docs/schema -update
	@.ci/fold go test ./framework/verdict -run TestCatalogueListsEveryCheck -update
	@.ci/fold go test ./reports -run TestTheChecksAreDocumented -update
	@.ci/fold go test ./suites/reproduce/trackrecord -run TestTheTableIsTheRecord -update
	@.ci/fold go test ./suites/platforms/measured -run TestThePageIsTheRecord -update
	@.ci/fold go test ./cmd/spotdrill -run TestWhatThePagesShowIsReal -update
	@$(TOOL) golangci-lint run --fix

.PHONY: clean
clean: build ## Remove the cluster, its containers and its network; reports stay
	@$(BINARY) down
