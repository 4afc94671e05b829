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

.PHONY: help build test unit e2e e2e-talos chaos lint fmt demo demo-ready demo-upgrade bench bench-boot bench-fleet fuzz image deps clean

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

lint: ## Run golangci-lint as pinned in tools/go.mod
	$(GOTOOL) golangci-lint run ./...

fmt: ## Format the code
	$(GOTOOL) golangci-lint fmt ./...

demo: build ## Provision 12 emulated nodes in three chassis on this machine, without root
	bash cmd/fleetsim/demo.sh

demo-ready: build ## Take six emulated nodes of two clusters from powered off to Ready, without root
	bash cmd/fleetsim/demo-ready.sh

demo-upgrade: build ## Take a running emulated cluster of 3+3 nodes two minor versions up, without root
	bash cmd/fleetsim/demo-upgrade.sh

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

image: ## Build the container image with buildah, podman or docker, whichever is here
	@for tool in buildah podman docker; do \
	  if command -v $$tool >/dev/null; then exec $$tool build -t talos-provision:$(VERSION) --build-arg VERSION=$(VERSION) .; fi; \
	done; echo "no buildah, podman or docker here: install one of them" >&2; exit 1

deps: ## Install what the end-to-end tests need (QEMU, OVMF, iPXE, a kernel); quick when it is all here
	bash e2e/deps.sh

clean: ## Remove what was built
	rm -rf bin dist
