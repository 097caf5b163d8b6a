# Everything runs inside the checkout: tools are built into bin/, caches live in .cache/ or in Go's own caches.

FUZZTIME ?= 20s
COUNT    ?= 1
ROUNDS   ?= 3
BASE     ?= HEAD
PKG      ?= ./...

# A go.work above the checkout must not change what is built here.
export GOWORK = off
export STATICCHECK_CACHE = $(CURDIR)/.cache/staticcheck

.DEFAULT_GOAL := help
.PHONY: findings help build build-gpu test test-browser test-deploy test-door test-envs test-gpu quick test-long race fuzz bench bench-build bench-durable bench-mpi bench-nats bench-old bench-proto bench-ray bench-reverb bench-rl lint vuln demo cluster clean tools consul nats need-go need-cc

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: need-go ## build bin/raysys, without the tables of a debugger
	go build -trimpath -ldflags '-s -w' -o bin/raysys ./cmd/raysys

# rapid draws the same cases each time, and others in the long forms, ten times as many.
test quick: export RAPID_SEED = 1
test-long: export RAPID_CHECKS = 1000
test: need-cc ## all tests, shuffled, against a real Consul and NATS; the race detector where goroutines share memory; the linters
	tools/test.sh

quick: need-go ## tests of the packages changed since BASE=HEAD and of their importers: no race detector, no Consul, no NATS, -short
	@list=$$(tools/quick.sh $(BASE)) || exit 1; test -z "$$list" || go test -short $$list

# The machine with the GPU may lack Go: then bin/gpu comes from another one.
test-gpu: ## tests on a GPU, in ten minutes at most, and rows for docs/benchmarks.md; where there is no GPU one line says so
	$(if $(no-go),,@$(MAKE) -s build-gpu)
	@test -x bin/gpu/run || { echo "make test-gpu: missing: go, or the folder bin/gpu, which make build-gpu makes on a machine that has it" >&2; exit 1; }
	bin/gpu/run

build-gpu: need-cc consul ## pack what test-gpu runs into bin/gpu (60 MB), for a machine without Go and network: gpu/run there
	tools/buildgpu.sh

# The packages that have long forms import internal/long in their tests. Of the others those that use rapid draw more.
# examples/gpu is a module of its own: its tests run here as they are, first, because they take a minute, and then its long forms.
test-long: need-cc consul nats ## the long forms of the tests, which docs/reliability.md quotes (hours): PKG=./internal/faults
	$(if $(filter ./...,$(PKG)),CGO_ENABLED=1 go test -race -shuffle=on -timeout 1h ./...)
	$(if $(filter ./...,$(PKG)),go test -C examples/gpu -count=1 -p 1 ./...)
	$(if $(filter ./...,$(PKG)),go test -C examples/gpu -count=1 -p 1 ./train ./gputest -long)
	go test -long -count=1 -p 1 -timeout 4h $(if $(filter-out ./...,$(PKG)),$(PKG),$$(grep -rl --include='*_test.go' --exclude-dir=gpu '"github.com/raysys/raysys/internal/long"' . | xargs -n1 dirname | sort -u))
	$(if $(filter-out ./...,$(PKG)),,go test -count=1 -p 1 -timeout 4h $$(grep -rl --include='*_test.go' '"pgregory.net/rapid"' . | xargs -n1 dirname | sort -u | while read -r d; do \
		grep -q '"github.com/raysys/raysys/internal/long"' $$d/*_test.go || echo $$d; done))

race: need-cc consul nats ## tests with the race detector alone: COUNT=200 PKG=./internal/wheel
	CGO_ENABLED=1 go test -race -shuffle=on -count=$(COUNT) $(PKG)

# `go test -list` prints the targets of a package and then its 'ok' line. Each target runs by itself, because go test
# fuzzes one at a time; a failure does not keep the others from running.
fuzz: need-go ## every fuzz target of every package: FUZZTIME=20s each
	@list=$$(go test -list '^Fuzz' $(PKG)) || { echo "$$list"; exit 1; }; \
	pairs=$$(echo "$$list" | awk '/^Fuzz/ { t[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2 ":" t[i]; n = 0 }'); \
	test -n "$$pairs" || { echo "make fuzz: no fuzz target in $(PKG)" >&2; exit 1; }; \
	bad=; for p in $$pairs; do \
		echo "fuzz $$p"; \
		go test -run '^$$' -fuzz "^$${p##*:}\$$" -fuzztime $(FUZZTIME) "$${p%%:*}" || bad="$$bad $$p"; \
	done; \
	test -z "$$bad" || { echo "make fuzz: failed:$$bad" >&2; exit 1; }

bench: need-go ## measure every row beside its raw limit
	go run ./cmd/raysys-lab bench

bench-build: need-go ## measure what a task and a grain method cost the compiler: MANY=200 FEW=50
	go run ./tools/benchbuild -few $(or $(FEW),50) -many $(or $(MANY),200)

# Restate comes from npm, its library and DBOS's from Go's proxy. What is not to be had is skipped, but for those libraries, once.
bench-durable: need-go consul ## measure calls that count once of Durable grains, Restate, and DBOS over Postgres in turn, into docs/benchmarks.md: ROUNDS=5 FOR=20s ONLY=nodes,restate (npm; Debian's postgresql)
	@mkdir -p .cache/restate && cp tools/benchdurable/package.json .cache/restate/
	@npm install --silent --no-audit --no-fund --prefix .cache/restate || echo "npm does not get Restate: is npm there, and its registry?" >&2
	go build -C tools/benchdurable -o $(CURDIR)/.cache/benchdurable .
	.cache/benchdurable -doc docs/benchmarks.md -restate '.cache/restate/node_modules/@restatedev/restate-server-*/bin/restate-server' $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(FOR),-for $(FOR)) $(if $(ONLY),-only $(ONLY))

bench-old: need-go consul ## measure rows with an earlier commit and with this tree in turn: REF=HEAD ROUNDS=7 TIER=cross-process ROWS=tasks_async,actor_sync
	go run ./tools/benchold $(if $(REF),-ref $(REF)) $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(TIER),-tier $(TIER)) $(if $(ROWS),-rows $(ROWS))

bench-mpi: need-go consul ## measure AllReduce of grains/collective, Open MPI and gloo in turn, into docs/benchmarks.md: ROUNDS=3 (needs mpicc and mpirun; gloo where python3 has torch)
	go run ./tools/benchmpi -doc docs/benchmarks.md $(if $(ROUNDS),-rounds $(ROUNDS))

bench-nats: need-go consul nats ## measure package stream and bare nats.go in turn, on a real NATS: ROUNDS=5
	go run ./tools/benchnats $(if $(ROUNDS),-rounds $(ROUNDS))

bench-proto: need-go consul ## measure grains, proto.Actor kinds on raysys, and stock proto.Actor in turn, between two processes: ROUNDS=7
	go run ./tools/benchproto $(if $(ROUNDS),-rounds $(ROUNDS))

bench-ray: need-go consul ## measure Ray and raysys in turn, into docs/benchmarks.md: ROUNDS=3 (needs python3)
	go build -trimpath -o bin/raysys-lab ./cmd/raysys-lab
	test -d .cache/ray || python3 -m venv .cache/ray
	.cache/ray/bin/pip install --quiet -r tools/benchray/requirements.txt
	.cache/ray/bin/python tools/benchray/compare.py bin/raysys-lab $(ROUNDS) docs/benchmarks.md

bench-reverb: need-go consul ## measure grains/replay and Reverb in turn, between two processes, into docs/benchmarks.md: ROUNDS=5 (needs python3, 3.8 to 3.11)
	test -d .cache/reverb || python3 -m venv .cache/reverb
	.cache/reverb/bin/pip install --quiet -r tools/benchreverb/requirements.txt
	go run ./tools/benchreverb -python .cache/reverb/bin/python -doc docs/benchmarks.md $(if $(ROUNDS),-rounds $(ROUNDS))

bench-rl: need-go ## measure rl/ppo, Stable-Baselines3 and RLlib in turn, and environments beside gymnasium, into docs/benchmarks.md: FULL=1 for training (7 GB) ROUNDS=3 (needs python3, 3.11 or later)
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make bench-rl: missing: python3 (3.11 or later)" >&2; exit 1; }
	test -x .cache/rl/bin/pip || python3 -m venv .cache/rl
	.cache/rl/bin/pip install --quiet $(if $(FULL),--no-cache-dir) -r tools/benchrl/requirements$(if $(FULL),-full).txt
	go run ./tools/benchrl -python .cache/rl/bin/python -doc docs/benchmarks.md $(if $(FULL),-full) $(if $(ROUNDS),-rounds $(ROUNDS))

test-envs: need-go ## step environments of many packages through grains/process beside Python alone, and the table of docs/guide/rl/environments.md (4 GB, half an hour; needs python3, 3.11): ONLY='minigrid|pgx'
	@for f in tools/testenvs/requirements/*.txt; do \
		v=.cache/envs/$$(basename $$f .txt); test -x $$v/bin/pip || python3 -m venv $$v || exit 1; \
		$$v/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps -r $$f || exit 1; \
	done
	go run ./tools/testenvs -doc docs/guide/rl/environments.md $(if $(ONLY),-only '$(ONLY)')

test-browser: need-go consul ## the page of a node in a real Chromium, and the pictures of docs/guide/dashboard.md; where there is no Chromium one line says so: LONG=1 watches a tab for ten minutes
	go test -C tools/browser -count=1 -timeout 30m -v . -args -pictures $(CURDIR)/docs/guide/pictures $(if $(LONG),-long)

test-deploy: need-go consul ## the files of deploy/ with systemd-analyze, promtool, the types of Kubernetes, and in a container (root); what needs a tool that is not there is skipped with a line
	go test -C tools/deploy -count=1 -v .

test-door: need-go ## a door as others see it: its OpenAPI document by kin-openapi, its tools by Python's mcp (skipped with a line where pip gets none)
	go test -C tools/door -count=1 -v .

lint: tools ## vet, staticcheck and gofumpt, of the modules in examples/gpu, tools/browser, tools/deploy and tools/door too
	go vet ./...
	go vet -C examples/gpu ./...
	go vet -C tools/browser ./...
	go vet -C tools/deploy ./...
	go vet -C tools/door ./...
	bin/staticcheck ./...
	cd examples/gpu && ../../bin/staticcheck ./...
	cd tools/browser && ../../bin/staticcheck ./...
	cd tools/deploy && ../../bin/staticcheck ./...
	cd tools/door && ../../bin/staticcheck ./...
	@bad=$$(bin/gofumpt -l .) || exit 1; \
	test -z "$$bad" || { echo "not in gofumpt's form (bin/gofumpt -w FILE mends it):" >&2; echo "$$bad" >&2; exit 1; }

vuln: need-go ## look for known vulnerabilities in what the programs call (asks Go's vulnerability database; no part of make test)
	@go -C tools/vuln build -o ../../bin/ tool
	bin/govulncheck ./...
	cd examples/gpu && ../../bin/govulncheck ./...

findings: need-go ## what the software of others really does, each with its pinned version (needs a network; no part of make test)
	@bad=; for f in findings/*.sh; do echo "--- $$f"; $$f || bad="$$bad $$f"; done; test -z "$$bad" || { echo "make findings: changed:$$bad" >&2; exit 1; }

demo: need-go ## learn CartPole and serve the policy
	go run ./examples/cartpole

# Not -trimpath: all packages would be compiled again that go run and go test have compiled.
cluster: need-go consul nats ## a local Consul, a NATS server and three nodes with the cartpole program; says what to do next
	go build -ldflags '-s -w' -o bin/raysys ./cmd/raysys
	go build -o bin/cartpole ./examples/cartpole
	bin/raysys local --app bin/cartpole --consul-program bin/consul --nats-program bin/nats-server

consul: need-go ## build bin/consul, the server of the tests and of local clusters (three minutes the first time)
	@test bin/consul -nt internal/consulbuild/consul.mod || go run ./testkit/consul -o bin/consul

nats: need-go ## build bin/nats-server, the NATS server of the tests and of local clusters (a minute the first time)
	@test bin/nats-server -nt internal/natsbuild/nats.mod || go run ./testkit/nats -o bin/nats-server

clean: ## remove what the targets made here
	rm -rf bin .cache cover.out *.test *.prof

# go build leaves a tool that is up to date alone, and rebuilds one that an older Go built.
tools: need-go
	@go -C tools/lint build -o ../../bin/ tool

need-go:
	$(if $(no-go),$(error missing: $(no-go)))

need-cc:
	$(if $(no-go)$(no-cc),$(error missing: $(no-go)$(if $(no-go),$(if $(no-cc),$(comma) ))$(no-cc)))

# One line names everything that is missing. The race detector links C code, so the tests need a compiler for it.
comma := ,
no-go = $(shell command -v go >/dev/null || echo 'go (1.26 or later)')
no-cc = $(shell cc=$$(go env CC 2>/dev/null); cc=$${cc%% *}; command -v "$${cc:-cc}" >/dev/null || echo "a C compiler ($${cc:-cc}: the race detector needs it)")
