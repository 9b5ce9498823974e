# Turnus. "make" alone lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/turnus/turnus/cmd/turnus/settings.version=$(VERSION)
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
ENGINE ?= podman
# Of a package or an image. A release has one for each architecture of Linux; that of this machine
# comes last, so that the engine's turnus:VERSION runs here.
ARCH = $(shell $(GO) env GOHOSTARCH)
LINUX := $(patsubst linux/%,%,$(filter linux/%,$(PLATFORMS)))
ARCHITECTURES = $(filter-out $(ARCH),$(LINUX)) $(filter $(ARCH),$(LINUX))
IMAGE = dist/turnus-image-linux-$(ARCH).tar.gz
CERTIFICATES ?= /etc/ssl/certs/ca-certificates.crt
ZONEINFO ?= /usr/share/zoneinfo
NFPM := $(GO) run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.0
SBOM := $(GO) run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
# Static and without this machine's paths. Checks of the code also set it, so that all of it is
# compiled once for both.
SHIPPED := CGO_ENABLED=0 GOFLAGS=-trimpath
# SQLite keeps its data outside of Go's heap, where the race detector sees nothing: translated
# from C and instrumented in vain it takes most of the time of a test. Its driver stays
# instrumented, and with it every value that goes in or out. (core/controller: 240 s of CPU with, 72
# s without.) In the environment, because tests also build programs.
UNINSTRUMENTED := GOFLAGS="-trimpath -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false -gcflags=modernc.org/memory=-race=false"
# A program with the detector sleeps for a second before it exits, in case what still runs then
# races. Ours would be gone by then.
RACE := GORACE=atexit_sleep_ms=0 $(UNINSTRUMENTED)
LINT := $(SHIPPED) $(GO) tool -modfile=$(CURDIR)/.tools/go.mod golangci-lint
TYPECHECK := $(SHIPPED) $(GO) run -modfile=$(CURDIR)/.tools/go.mod $(CURDIR)/.tools/typecheck/main.go
# The SDK of plugins is a module of its own: ./... does not reach into it.
SDK := plugins/sdk

# The packages with long tests. make lint vets them, and those of make race: vet=off there, since
# for each way to compile vet reads all dependencies again.
LABS = $(shell grep -rl --include='*_test.go' '^func TestLab' cmd core plugins | xargs -n 1 dirname | sort -u | sed 's|^|./|')

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/turnus
	$(SHIPPED) $(GO) build -ldflags '$(LDFLAGS)' -o bin/turnus ./cmd/turnus

up: build ## the whole service in one process, with the project in PROJECT=DIR, or what turnus project apply gives it
	bin/turnus up $(if $(PROJECT),--project $(PROJECT))

demo: build ## a fleet of 3000 simulated hosts, two playbooks at the same time; nothing to install
	bin/turnus demo

deps: ## install the real components that tests start (apt; root or sudo)
	@.ci/deps

# Twice as many packages as there are cores: most tests wait most of the time. The longest go first,
# so that none is alone at the end.
BESIDE := -p $$((2 * $$(nproc))) -parallel 4
FIRST := ./core/transport ./cmd/... ./plugins/... ./...

# make lint vets. The tests of the SDK mostly wait, so they run beside the others.
test: deps ## install what tests need, then run the tests: minutes
	$(SHIPPED) $(GO) -C $(SDK) test -vet=off -shuffle=on ./... & sdk=$$!; failed=0; \
	  $(SHIPPED) $(GO) test -vet=off -shuffle=on $(BESIDE) -timeout 20m $(FIRST) || failed=1; \
	  wait $$sdk || failed=1; exit $$failed

test-labs: deps ## the long tests: devices in namespaces, failovers, kills again and again, templates of plugins, faulty plugins
	$(SHIPPED) $(GO) test -vet=off -tags labs -run '^TestLab' -shuffle=on $(BESIDE) -timeout 40m $(LABS)

# Tests that compute for long in one goroutine: the detector finds nothing there, and makes them ten
# times slower.
COMPUTE := BombsAreDefused|EvaluationIsBounded|ConformsToAnsible|LimitsAreBounded|FaultW7SubscriptsConformToAnsible|LoopsEndByTheClock|HostileFilesAreRefused|YearsAgreeWithLookingAtTheClock|NoTextChangesAPage|CompiledSetAgreesWithLookingAtTheClock|LevelsCombineAsSets|FaultS5ApprovalsOfOneTenantBlockNobody|ALargeProjectIsTaken|FolderThatIsTooLarge

race: ## the tests and the processes that they start under the race detector; make lint runs the tests that read the source
	$(SHIPPED) $(GO) test -vet=off -run '^Test($(COMPUTE))$$' ./core/catalog ./core/inventory ./core/pages ./core/server ./playbooks ./windows
	$(RACE) $(GO) -C $(SDK) test -vet=off -race -shuffle=on -timeout 20m ./... & sdk=$$!; failed=0; \
	  $(RACE) $(GO) test -vet=off -race -shuffle=on $(BESIDE) -timeout 20m -skip '^Test(ImportsFollow|LanguageOf|FilesStayReadable|($(COMPUTE))$$)' $(FIRST) || failed=1; \
	  wait $$sdk || failed=1; exit $$failed

check-tls: deps ## the tests, with Redis and PostgreSQL over mutual TLS only
	TURNUS_TEST_TLS=1 $(GO) test -tags labs -shuffle=on -timeout 40m ./...

lab-firewall: build ## a device with nftables and OpenSSH in a namespace, to play with (root)
	TURNUS_LAB=1 $(GO) test -tags labs -count=1 -timeout 0 -run '^TestLabFirewallToPlayWith$$' -v ./plugins

lab-dnssec: build ## a signed zone with its parent and a validating resolver in a namespace, to play with (root)
	TURNUS_LAB=1 $(GO) test -tags labs -count=1 -timeout 0 -run '^TestLabDNSSECToPlayWith$$' -v ./plugins

lab-firmware: build ## a device with A/B slots, RAUC and OpenSSH that really reboots, to play with (root)
	TURNUS_LAB=1 $(GO) test -tags labs -count=1 -timeout 0 -run '^TestLabFirmwareToPlayWith$$' -v ./plugins

check-s3: ## tests against a real S3 server (versitygw), which is built first: minutes, once
	$(GO) build -C .tools/s3 -o $(CURDIR)/bin/versitygw github.com/versity/versitygw/cmd/versitygw
	$(RACE) PATH="$$PATH:$(CURDIR)/bin" $(GO) test -race -count=1 -tags s3 -run '^Test(S3|Bucket)' ./core/ledger ./core/backup

check-acme: ## tests against a real ACME certificate authority (pebble), which is built first: seconds
	$(GO) build -C .tools/acme -o $(CURDIR)/bin/ github.com/letsencrypt/pebble/v2/cmd/pebble github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv
	$(RACE) PATH="$$PATH:$(CURDIR)/bin" $(GO) test -race -count=1 -tags acme -run '^TestPebble' ./cmd/turnus/cli

check-vault: ## tests against a real Vault (its core, 1.1.2), which is built first: a minute, once
	$(GO) build -C .tools/vault -o $(CURDIR)/bin/vaultdev .
	$(RACE) PATH="$$PATH:$(CURDIR)/bin" $(GO) test -race -count=1 -tags vault -run '^TestRealVault' ./core/secrets ./cmd/turnus/node

check-ansible: deps ## twenty everyday steps by Turnus and by Ansible, on HOSTS=2 new machines: the same files, and how long each takes (root)
	$(SHIPPED) TURNUS_BENCH=$(or $(HOSTS),2) $(GO) test -tags labs,ansible -count=1 -timeout 3h -v -run '^TestLabBesideAnsible$$' ./cmd/turnus/e2e

chaos: ## every fault, singly and together, MINUTES=10 long; SEED=n repeats a plan (root)
	$(SHIPPED) $(GO) test -tags labs -count=1 -timeout 3h -v -run '^TestLabChaos$$' ./cmd/turnus/e2e/chaos -chaos.minutes $(or $(MINUTES),10) -chaos.seed $(or $(SEED),0)

flake: deps ## the tests N=20 times beside two busy loops: which fail how often
	@$(SHIPPED) GO=$(GO) .ci/flake $(or $(N),20)

fuzz: ## each fuzz target for 30 s
	@.ci/fuzz 30s

lint: ## format, vet, lint, what the source must look like (./core), and the types for macOS
	@test -z "$$(gofmt -l cmd core plugins playbooks windows)" || { echo "not gofmt-ed:"; gofmt -l cmd core plugins playbooks windows; exit 1; }
	$(SHIPPED) $(GO) vet -tags record ./cmd/turnus/e2e
	$(TYPECHECK) darwin ./...
	cd $(SDK) && $(TYPECHECK) darwin ./...
	$(SHIPPED) $(GO) test -vet=off ./core
	$(SHIPPED) $(GO) test -vet=off -run '^TestLanguage' ./cmd/turnus/cli
	$(LINT) run ./...
	cd $(SDK) && $(LINT) run ./...

generate: ## regenerate the wire code, core/server/openapi.json and the pages of job types and commands
	$(SHIPPED) $(GO) generate ./...
	@rm -rf docs/job-types && $(SHIPPED) $(GO) run ./cmd/turnus plugins docs --dir docs/job-types >docs/job-types.md.part && mv docs/job-types.md.part docs/job-types.md
	$(SHIPPED) $(GO) run ./cmd/turnus admin man --markdown docs/commands

verify: generate ## fail when generated files are not what generate makes
	@git diff --exit-code -- '*.pb.go' '*.connect.go' core/server/openapi.json docs/job-types.md docs/job-types docs/commands || { echo "generated files differ: commit the result of make generate"; exit 1; }

vuln: ## known vulnerabilities in what is used
	$(GO) run golang.org/x/vuln/cmd/govulncheck@latest ./...
	$(GO) -C $(SDK) run golang.org/x/vuln/cmd/govulncheck@latest ./...

bench: build ## every figure of docs/benchmarks.md
	bin/turnus admin bench fair
	bin/turnus admin bench fanout
	bin/turnus admin bench queue
	bin/turnus admin bench api
	bin/turnus admin bench schedules
	$(GO) test -run '^$$' -bench . -benchtime 1s ./core/... ./plugins/... ./playbooks/...

bench-peers: build ## the queue of Turnus and asynq in turns on one Redis: medians of ROUNDS=3, ratios; JOBS=N of asynq's throughput rows
	$(SHIPPED) $(GO) -C .tools/peers run . -rounds $(or $(ROUNDS),3) -jobs $(or $(JOBS),50000) $(CURDIR)/bin/turnus

pictures: build deps ## record docs/pictures/run.svg from turnus demo, and pages from Chromium over simulated hosts
	$(SHIPPED) $(GO) -C .tools/pictures run . -out $(CURDIR)/docs/pictures/run.svg $(CURDIR)/bin/turnus demo
	@mkdir -p dist/shots
	SHOTS=$(CURDIR)/dist/shots $(SHIPPED) $(GO) test -vet=off -tags labs -count=1 -run '^TestLabBrowser(ShowsEveryPage|Has3000HostsOnAPhone)$$' ./cmd/turnus/e2e
	@cd docs/pictures && for p in overview=_-1280-light run=_runs_waits-1280-light windows=_windows-1280-light calendar=_calendar-1280-light-top fleet=fleet-3000-1280-light-top; do install -m 644 "$(CURDIR)/dist/shots/$${p#*=}.png" "page-$${p%%=*}.png"; done

readme: build ## run the commands that README shows
	@.ci/readme

check: deps lint verify race test-labs readme ## what CI runs

release: $(if $(ENGINE),engine) ## in dist/: binaries for Linux and macOS, Debian packages, images, an SBOM of each binary, SHA256SUMS
	@$(if $(ENGINE),:,rm -f dist/turnus-image-linux-*.tar.gz)
	@set -e; for arch in $(ARCHITECTURES); do $(MAKE) --no-print-directory ARCH=$$arch $(if $(ENGINE),container-archive) package; done
	@set -e; for p in $(PLATFORMS); do os=$${p%/*} arch=$${p#*/} f=dist/turnus-$${p%/*}-$${p#*/}; \
	  echo "$$f"; \
	  $(SHIPPED) GOOS=$$os GOARCH=$$arch $(GO) build -ldflags '$(LDFLAGS)' -o $$f ./cmd/turnus; \
	  $(SBOM) bin -json -std -version '$(VERSION)' -output $$f.cdx.json $$f; done
	@cd dist && sha256sum turnus-* turnus_$(patsubst v%,%,$(VERSION))_*.deb >SHA256SUMS && sha256sum --check --quiet SHA256SUMS
	@$(if $(ENGINE),:,echo 'release: dist/ has no image: ENGINE is empty' >&2)

package: ## the Debian package in dist/: binary, units, manual pages, completions; ARCH=arm64 or amd64 is another machine's
	@rm -rf dist/package && mkdir -p dist/package/completion
	$(SHIPPED) $(GO) build -ldflags '$(LDFLAGS)' -o dist/package/here/turnus ./cmd/turnus
	$(SHIPPED) GOOS=linux GOARCH=$(ARCH) $(GO) build -ldflags '$(LDFLAGS)' -o dist/package/turnus ./cmd/turnus
	@export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); dist/package/here/turnus admin man dist/package/man && gzip -9 -n dist/package/man/*.1
	@cd dist/package && here/turnus completion bash >completion/turnus.bash && here/turnus completion zsh >completion/_turnus && here/turnus completion fish >completion/turnus.fish
	@VERSION='$(patsubst v%,%,$(VERSION))' ARCH=$(ARCH) \
	  $(NFPM) package --config .package/nfpm.yaml --packager deb --target "dist/turnus_$(patsubst v%,%,$(VERSION))_$(ARCH).deb"

package-check: ## install, upgrade and purge the package in a throw-away root (root)
	@.package/check

container-tree: ## what the image is made of, in dist/container, with its owners and modes in root.tar; ARCH as for the package
	@rm -rf dist/container && mkdir -p dist/container/{tmp,etc/ssl/certs,usr/bin,usr/share,var/lib/turnus} && chmod 1777 dist/container/tmp && chmod 700 dist/container/var/lib/turnus
	$(SHIPPED) GOOS=linux GOARCH=$(ARCH) $(GO) build -ldflags '$(LDFLAGS)' -o dist/container/usr/bin/turnus ./cmd/turnus
	@cp $(CERTIFICATES) dist/container/etc/ssl/certs/ca-certificates.crt && cp -rL $(ZONEINFO) dist/container/usr/share/zoneinfo
	@echo 'turnus:x:10001:10001:Turnus:/var/lib/turnus:/usr/sbin/nologin' >dist/container/etc/passwd && echo 'turnus:x:10001:' >dist/container/etc/group
	@cd dist/container && tar="tar --sort=name --mtime=@$$(git log -1 --format=%ct) --numeric-owner" && \
	  $$tar --owner=0 --group=0 --exclude=var/lib/turnus -cf root.tar etc tmp usr var && $$tar --owner=10001 --group=10001 -rf root.tar var/lib/turnus

engine:
	@command -v $(firstword $(ENGINE)) >/dev/null || { echo 'make: no engine for the image: "$(ENGINE)" is no program here; install podman, or set ENGINE=docker; without an image: make release ENGINE=' >&2; exit 1; }

container: engine container-tree ## the image turnus:VERSION, with ENGINE (podman, docker or buildah); ARCH as for the package
	$(ENGINE) build --platform linux/$(ARCH) $(if $(filter docker,$(notdir $(ENGINE))),,--format docker) -f Containerfile -t turnus:$(VERSION) dist/container

container-archive: container ## the image as a file in dist/, for podman load and docker load
	@set -o pipefail; $(ENGINE) save turnus:$(VERSION) | gzip -9 -n >$(IMAGE)

container-check: ## build the image and run it as its user would (root, podman)
	@.package/container-check

clean: ## remove what was built
	rm -rf bin dist

.PHONY: help build up demo deps test test-labs race check-s3 check-acme check-vault check-tls check-ansible lab-firewall lab-dnssec lab-firmware chaos flake fuzz lint generate verify vuln bench bench-peers pictures readme check release package package-check container-tree engine container container-archive container-check clean
