# The commands of the project. `make demo` and `make test` work on a machine that has only the Swift toolchain.

SHELL := /bin/bash
# One binary: Swift's runtime inside. jemalloc holds 10,000 sessions in 15 % less memory than glibc's allocator (Benchmarks/README.md).
RELEASE := --configuration release --scratch-path .build-release --static-swift-stdlib \
	-Xlinker --no-as-needed -Xlinker -ljemalloc -Xlinker --as-needed
ROLLCALL := .build-release/release/rollcall

.PHONY: run demo test bench chaos lint build deps test-deps

# A node on loopback with development keys.
run: build
	$(ROLLCALL) serve

# Three nodes, a simulated population, and a live view. Ends with Ctrl-C; DURATION=10 ends it by itself.
demo: build
	$(ROLLCALL) demo $(if $(DURATION),--duration $(DURATION))

build: deps
	@echo "== build (release)"
	swift build $(RELEASE) --product rollcall

test: deps test-deps lint
	@echo "== build (debug)"
	swift build --build-tests
	@echo "== test"
	swift test --skip-build
	@echo "== deploy"
	Tests/Deploy/check

# Real nodes, killed, restarted, drained and split under a verifying load. Takes some ten minutes; the split needs root.
chaos: build
	Tests/Chaos/rolling-restart
	Tests/Chaos/random-kills
	Tests/Chaos/partition

lint:
	@echo "== lint"
	swift format lint --strict --parallel --recursive Sources Tests Package.swift

# Ratios beside nghttpd and a bare send loop, in one run; see Benchmarks/README.md.
bench: build test-deps
	@echo "== bench"
	Benchmarks/run

# Installs what is missing, and nothing else: Debian packages for building, and for the tests.
deps:
	@Benchmarks/install libnghttp2-dev libsqlite3-dev libjemalloc-dev pkg-config

test-deps:
	@Benchmarks/install curl nghttp2-client nghttp2-server openssl python3 python3-yaml prometheus
