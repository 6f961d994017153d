# The commands of the project. `make demo` and `make test` need git, make and the Swift toolchain, and install the rest.

SHELL := /bin/bash
# One binary: Swift's runtime inside. jemalloc holds 10,000 sessions in 15 % less memory than glibc's allocator (Benchmarks/README.md).
# Accesses that overlap are found by the compiler and by the debug tests. The checks at run time take a third of a push.
# No path of this machine is in the binary: paths of sources begin at the top of the repository, and there is no run path.
# Without the table of exported symbols, which only plug-ins need, the binary is 5 MB smaller.
RELEASE := --configuration release --scratch-path .build-release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked \
	-Xlinker --no-as-needed -Xlinker -ljemalloc -Xlinker --as-needed --disable-local-rpath -Xlinker --no-export-dynamic \
	-Xcc -ffile-prefix-map=$(CURDIR)=. -Xswiftc -file-prefix-map -Xswiftc $(CURDIR)=.
ROLLCALL := .build-release/release/rollcall
# Some 15 % faster with Swift's runtime inside, optimized across modules, and without checks of exclusive access; the same histories run in the
# debug tests with them.
SIMULATION := --configuration release --scratch-path .build-simulation --static-swift-stdlib \
	-Xswiftc -enforce-exclusivity=unchecked -Xswiftc -cross-module-optimization

# What `rollcall --version` names as the commit; "-dirty" for a changed work tree. Package.swift reads it. Empty outside a git repository.
export BUILD_COMMIT ?= $(shell git describe --always --dirty --exclude '*' 2>/dev/null)

# The tests without a socket and a clock.
COMPUTING := ^(PresenceCoreTests|PresenceWireTests|ClusterSimulationTests|LoadSimulatorTests|TidyTests)\.

.PHONY: run demo test smoke pages bench gate chaos chaos-short attacks attacks-short lint format build simulation same-histories deps test-deps \
	package package-test package-deps browsers browser-deps

# A node on loopback with development keys.
run: build
	$(ROLLCALL) serve

# Three nodes, a simulated population, and a live view. Ends with Ctrl-C; DURATION=10 ends it by itself.
demo: build
	$(ROLLCALL) demo $(if $(DURATION),--duration $(DURATION))

# The ICU data of Foundation without the languages that nothing here uses: 30 of its 34 MB.
build: deps
	@echo "== build (release)"
	flags=$$(deploy/package/icu-data .build-icu) && swift build $(RELEASE) $$flags --product rollcall

# A Debian package, an archive, symbols, checksums and a list of contents (SPDX) in .build-package.
package: build package-deps
	@echo "== package"
	deploy/package/build

# Installs the package in a bare Debian root and runs it there; needs root.
package-test: package package-deps
	Tests/Deploy/package

# The JavaScript client and the console in Node and in headless Chromium, and event streams behind nginx and HAProxy.
browsers: browser-deps
	@echo "== browsers"
	ROLLCALL=$${ROLLCALL:-.build/debug/rollcall} Tests/WebClient/run
	ROLLCALL=$${ROLLCALL:-.build/debug/rollcall} Tests/Console/run
	@# The debug binary shares two cores with everything else here.
	ROLLCALL=$${ROLLCALL:-.build/debug/rollcall} SLACK=1.8 Tests/Deploy/proxies

# Whole clusters in virtual time: .build-simulation/release/cluster-simulation --seeds 1..1000
simulation: deps
	@echo "== build (simulation)"
	swift build $(SIMULATION) --product cluster-simulation

# Compares what the work tree and the commit BASE do in the same histories, byte by byte. HISTORIES="--seeds 1..50000" runs more of them.
same-histories: deps
	Tests/Simulation/same-histories $(BASE) $(HISTORIES)

test: deps test-deps lint
	@echo "== build (debug)"
	swift build --build-tests
	@echo "== test"
	@# They take two minutes; one that hangs is to fail while somebody looks. What only computes comes first, by itself: all tests begin at
	@# once on a thread a core, and those with sockets and deadlines would wait for half a minute behind it.
	@# The others are let in eight at a time, so that a slow machine answers each of them within its deadlines.
	timeout 900 swift test --skip-build --filter '$(COMPUTING)'
	SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=8 timeout 900 swift test --skip-build --skip '$(COMPUTING)'
	@echo "== whole clusters from seeds"
	$(MAKE) --no-print-directory simulation
	Tests/Simulation/seeds
	@echo "== deploy"
	Tests/Deploy/check
	Tests/Deploy/prometheus
	@echo "== README, as printed"
	Tests/Deploy/readme
	@echo "== fuzz"
	ROLLCALL=.build/debug/rollcall Tests/Fuzz/api
	@echo "== generated client"
	ROLLCALL=.build/debug/rollcall Tests/OpenAPI/python-client
	$(MAKE) --no-print-directory browsers
	@echo "== webhooks"
	ROLLCALL=.build/debug/rollcall Tests/Webhooks/run
	@echo "== chaos, short"
	$(MAKE) --no-print-directory chaos-short
	$(MAKE) --no-print-directory gate

# Writes the pages of the documentation that are made from the code: Configuration, Metrics, and the tests in Requirements. `make test`
# fails while one of them is stale.
pages: deps
	swift build --build-tests
	ROLLCALL_TESTS=write-pages swift test --skip-build --filter '(GeneratedPagesTests|RequirementsPageTests)'

# The fast part of `make test`: lint, build and the tests that only compute. Under three minutes after a first build.
smoke: deps lint
	@echo "== build (debug)"
	swift build --build-tests
	@echo "== test (computing)"
	timeout 600 swift test --skip-build --filter '$(COMPUTING)'

# Real nodes, killed, restarted, drained, joined, without room on a disk, without their files, told other policies, given another time, and
# cut off from one another, under a verifying load; and clients behind bad and dead networks. Takes some sixty minutes; the partitions, the
# cuts, the dead network and the full disk need root.
chaos: build
	Tests/Chaos/rolling-restart
	Tests/Chaos/drain-clients
	Tests/Chaos/random-kills
	Tests/Chaos/join-leave
	Tests/Chaos/replace
	Tests/Chaos/full-disk
	Tests/Chaos/deleted-files
	Tests/Chaos/import-friends 2000 50
	CHANGES=100000 ROLLCALL=$(ROLLCALL) Tests/Webhooks/run load
	Tests/Chaos/chain-kills
	Tests/Chaos/overload
	Tests/Chaos/policy-change
	Tests/Chaos/hidden
	Tests/Chaos/twin
	Tests/Chaos/twin 3 30 cut
	Tests/Chaos/dead-network
	swift build --build-tests
	Tests/Chaos/clock
	Tests/Chaos/clock-jump
	Tests/Chaos/cut-off
	Tests/Chaos/bad-network
	for fault in split one-way loss delay; do Tests/Chaos/partition $$fault || exit; done

# The same with the debug binary and few users, within three minutes: part of `make test`.
chaos-short: export ROLLCALL := .build/debug/rollcall
# The debug binary shares two cores with everything else here: what a death may take is shown by `make chaos`.
chaos-short: export DEATH_SECONDS := 4
chaos-short: export FOLLOW_SECONDS := 4
chaos-short: export NOTICE_SECONDS := 4
chaos-short: export READING_SECONDS := 0.4
chaos-short: export SLACK := 4
chaos-short: export SLOW_MILLISECONDS := 4
chaos-short:
	Tests/Chaos/rolling-restart 3 200 2
	Tests/Chaos/drain-clients
	Tests/Chaos/random-kills 3 200
	Tests/Chaos/policy-change 1 30 60
	Tests/Chaos/hidden 30 rollcall
	Tests/Chaos/deleted-files 3
	Tests/Chaos/import-friends 100 60
	Tests/Chaos/twin 1 10
	Tests/Chaos/clock-jump 1 60
	Tests/Chaos/full-disk 1 60
	Tests/Chaos/cut-off 1 3 3 1

# Strangers who try to hurt a node, each for ten seconds at full speed, beside an honest client that must not notice. `Tests/Attacks/run NAME`
# runs one.
attacks: build
	Tests/Attacks/run --seconds 10

# The debug binary is some ten times slower and shares the cores with everything else here: delays are judged by `make attacks`.
attacks-short:
	Tests/Attacks/run --seconds 1.5 --slack-milliseconds 100 --binary .build/debug/rollcall

lint:
	@echo "== lint"
	swift format lint --strict --parallel --recursive Sources Tests Package.swift

# Rewrites the Swift sources in the style of .swift-format.
format:
	swift format --in-place --parallel --recursive Sources Tests Package.swift

# Ratios beside nghttpd and a bare send loop, in one run; see Benchmarks/README.md.
bench: build test-deps
	@echo "== bench"
	Benchmarks/run

# Instructions of a request, a login, a delta and a push, and bytes of a session, beside Benchmarks/costs.json: fails at 2 % more.
gate: deps test-deps
	@echo "== build (release, what is counted)"
	swift build $(RELEASE) --product cost-gate
	@echo "== gate"
	Benchmarks/gate

# Installs what is missing, and nothing else: Debian packages for building, and for the tests.
deps:
	@Benchmarks/install libnghttp2-dev libsqlite3-dev libjemalloc-dev pkg-config python3

browser-deps:
	@Benchmarks/install nodejs chromium nginx-light haproxy openssl curl python3

package-deps:
	@Benchmarks/install dpkg-dev binutils python3 man-db debootstrap curl iproute2 util-linux systemd

test-deps:
	@Benchmarks/install curl nghttp2-client nghttp2-server openssl python3 python3-yaml prometheus valgrind binutils nodejs iproute2
