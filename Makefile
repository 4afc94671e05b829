# Every target says what it is for: `make help`.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   := -s -w -X main.version=$(VERSION)
GOTOOL    := go tool -modfile=tools/go.mod
FUZZTIME  ?= 30s
CACHE     ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/talos-provision
# The end-to-end tests boot machines; on two cores they take minutes. They build the
# program themselves, which the test cache does not see: -count=1.
# Many tests wait for machines and timers rather than for a processor: -parallel 4.
TESTFLAGS ?= -race -count=1 -timeout 20m -parallel 4

.PHONY: help build test unit e2e e2e-talos chaos lint fmt demo demo-dashboard demo-ready demo-upgrade bench bench-boot bench-fleet docs screenshots fuzz image deb release-check deps clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/provision and bin/fleetsim, static
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

test: deps ## Run every test with the race detector, the end-to-end ones in QEMU among them
	E2E=required go test $(TESTFLAGS) ./...

unit: ## Run the tests that need no QEMU and no root
	go test -race -short ./...

e2e: deps ## Run the end-to-end tests alone: real firmware in QEMU
	E2E=required go test $(TESTFLAGS) -v ./e2e/...

chaos: ## Kill controllers of 300 nodes with all faults, 20 times for each of SEEDS ("1 2 3"); five minutes a seed
	CHAOS_SEEDS='$(or $(SEEDS),1 2 3)' go test -count=1 -timeout 120m -v -run TestChaos ./e2e/chaos

# Needs root. Under TCG each boot takes minutes: E2E_ACCEL=kvm where KVM works.
e2e-talos: ## The same on real Talos files: TALOS_KERNEL=... TALOS_INITRAMFS=... [TALOS_VERSION=v1.13.9] [E2E_ACCEL=kvm]
	@for file in "$(TALOS_KERNEL)" "$(TALOS_INITRAMFS)"; do \
	  [ -f "$$file" ] || { echo "e2e-talos: there is no file '$$file'. Set TALOS_KERNEL and TALOS_INITRAMFS to kernel-amd64 and initramfs-amd64.xz" \
	    "of the Image Factory's schematic without any customization, and TALOS_VERSION to their version (v1.13.9 when it is not set)" >&2; exit 2; }; \
	done
	$(MAKE) deps
	E2E=required TALOS_KERNEL='$(abspath $(TALOS_KERNEL))' TALOS_INITRAMFS='$(abspath $(TALOS_INITRAMFS))' go test $(TESTFLAGS) -timeout 120m -v ./e2e

lint: ## Run golangci-lint, and look for vulnerabilities and licences of what is linked, as pinned in tools/
	$(GOTOOL) golangci-lint run ./...
	go test -C tools/licences ./... && go run -C tools/licences . -dir '$(CURDIR)' ./cmd/...
	go test -C tools/vuln ./... && go run -C tools/vuln . -dir '$(CURDIR)' ./...

fmt: ## Format the code
	$(GOTOOL) golangci-lint fmt ./...

demo: build ## Provision 12 emulated nodes in three chassis on this machine, without root
	bash cmd/fleetsim/demo.sh

demo-dashboard: build ## The same through a daemon, with its dashboard to watch, until Ctrl-C
	bash cmd/fleetsim/demo-dashboard.sh

demo-ready: build ## Take six emulated nodes of two clusters from powered off to Ready, without root
	bash cmd/fleetsim/demo-ready.sh

demo-upgrade: build ## Take a running emulated cluster of 3+3 nodes two minor versions up, without root
	bash cmd/fleetsim/demo-upgrade.sh

docs: ## Build the documentation into site/, and check every link of it (Debian's mkdocs; root the first time)
	sh docs/site/deps.sh
	mkdocs build --strict --quiet --clean
	go run ./docs/site/check -hosts site .

screenshots: deps ## Pictures of the dashboard's pages with 0, 12 and 1,000 nodes into dist/screenshots/
	SCREENSHOTS='$(CURDIR)/dist/screenshots' E2E=required go test -count=1 -run TestPicturesOfThePages ./e2e/dashboard

bench: ## Run the benchmarks
	go test -run '^$$' -bench . -benchmem ./...

bench-boot: ## Measure DHCP, TFTP and HTTP beside dnsmasq, Kea, tftpd-hpa and nginx (root; 5 minutes)
	sh e2e/bench/deps.sh
	go run ./e2e/bench $(BENCHFLAGS)

bench-fleet: ## Measure what a run over 1,000 and 10,000 emulated nodes costs the controller
	go run ./e2e/bench/fleet $(BENCHFLAGS)

fuzz: ## Fuzz every parser for FUZZTIME (30s) each
	@for pkg in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' $$pkg 2>/dev/null | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$pkg; \
	  done; done

image: ## Build the container image with buildah, podman or docker; without a registry on a Debian made here
	VERSION='$(VERSION)' bash deploy/image/build.sh talos-provision:$(VERSION) talos-provision:latest

deb: ## Build the Debian package into dist/
	VERSION='$(VERSION)' bash deploy/deb/build.sh dist

release-check: ## Build all of a release, install it, boot it under systemd and as a container, and check it (root; 5 minutes)
	sh deploy/image/deps.sh
	VERSION='$(VERSION)' bash deploy/release/dist.sh dist
	$(MAKE) image
	INSTALL=required E2E=required VERSION='$(VERSION)' go test -count=1 -timeout 20m -v ./e2e/install

deps: ## Install what the end-to-end tests need (QEMU, OVMF, iPXE, a kernel); quick when it is all here
	bash e2e/deps.sh

clean: ## Remove what was built
	rm -rf bin dist
