# The commands of the project. `make demo` and `make test` need git, make and the Swift toolchain, and install the rest.

SHELL := /bin/bash
# One binary: Swift's runtime inside. jemalloc holds 10,000 sessions in 15 % less memory than glibc's allocator (Benchmarks/README.md).
# Accesses that overlap are found by the compiler and by the debug tests. The checks at run time take a third of a push.
# No path of this machine is in the binary: paths of sources begin at the top of the repository, and there is no run path.
# Without the table of exported symbols, which only plug-ins need, the binary is 5 MB smaller. With packed relocations (glibc 2.36 reads them)
# it is 3.5 MB smaller. Debug information names functions and lines, which is what a stack trace shows; all of it takes a tenth of the build.
RELEASE := --configuration release --scratch-path .build-release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked \
	-Xswiftc -gline-tables-only -Xcc -gline-tables-only -Xswiftc -use-ld=lld -Xlinker -z -Xlinker pack-relative-relocs \
	-Xlinker --no-as-needed -Xlinker -ljemalloc -Xlinker --as-needed --disable-local-rpath -Xlinker --no-export-dynamic \
	-Xcc -ffile-prefix-map=$(CURDIR)=. -Xswiftc -file-prefix-map -Xswiftc $(CURDIR)=.
ROLLCALL ?= .build-release/release/rollcall

# Builds one product in the release folder. All products share the folder and the flags, so that each module is compiled once: the command,
# the simulator and what the cost gate counts. The ICU data of Foundation is without the languages that nothing here uses: 30 of its 34 MB.
RELEASE_BUILD := flags=$$(deploy/package/icu-data .build-icu) && swift build $(RELEASE) $$flags --product

# The build with every check of Swift and NIO, for the tests. In CI nobody steps through a debugger: a trace without
# lines has the names of functions, and the suites compile a seventh faster. The index of sources cannot be left out:
# SwiftPM finds the tests by it.
CHECKED := $(if $(CI),-Xswiftc -gnone -Xcc -g0)
export SWIFT_CHECKED := $(CHECKED)

# What `rollcall --version` names as the commit; "-dirty" for a changed work tree. Package.swift reads it. Empty outside a git repository.
export BUILD_COMMIT ?= $(shell git describe --always --dirty --exclude '*' 2>/dev/null)

.PHONY: run demo test smoke nightly pages bench gate chaos chaos-short attacks attacks-short lint format build build-checked build-core \
	build-release simulation same-histories sdk-test deps test-deps packages package package-test package-deps image-test browsers browser-deps \
	npm npm-deps chart secrets-in-logs

# A node on loopback with development keys.
run: build
	$(ROLLCALL) serve

# Three nodes, a simulated population, and a live view. Ends with Ctrl-C; DURATION=10 ends it by itself.
demo: build
	$(ROLLCALL) demo $(if $(DURATION),--duration $(DURATION))

build: deps
	@echo "== build (release)"
	$(RELEASE_BUILD) rollcall

# Everything that is measured or proved in its release form.
build-release: build
	$(RELEASE_BUILD) cluster-simulation
	$(RELEASE_BUILD) cost-gate

# All suites, with checks of exclusive access and of arithmetic, and the assertions of NIO.
build-checked: deps
	swift build $(CHECKED) --build-tests

# The sources of all packages, for both builds.
packages: deps
	swift package resolve
	swift package --scratch-path .build-release resolve

# The suites of the core only: Package.swift leaves out what needs sockets, TLS or a database.
build-core: export BUILD_SUITES := computing
build-core: deps
	swift build $(CHECKED) --scratch-path .build-core --build-tests

# A Debian package, an RPM, an archive, symbols, checksums and a list of contents (SPDX) in .build-package.
package: build package-deps
	@echo "== package"
	deploy/package/build

# Installs the package in a bare Debian root and runs it there; needs root.
package-test: package package-deps
	Tests/Deploy/package

# The instructions of deploy/Dockerfile in buildah, and a node in the root that comes out; needs root, and no registry of images.
image-test: build package-deps
	Tests/Deploy/image

# The package of the JavaScript client for npm, in .build-npm. Needs no Swift.
npm: npm-deps
	@echo "== npm"
	deploy/npm/build

# The Helm chart with the version, in .build-helm. Needs neither Swift nor Helm. IMAGE names the repository of the image.
chart:
	@echo "== chart"
	deploy/helm/build

# The JavaScript client and the console in Node and in headless Chromium, and event streams behind nginx and HAProxy.
browsers: build browser-deps
	Tests/run test "JavaScript client" console proxies

# An app with a database adds the Swift SDK by its git URL, builds, and runs against a node.
sdk-test: build
	Tests/SwiftClient/run

# Whole clusters in virtual time: .build-release/release/cluster-simulation --seeds 1..1000
simulation: deps
	@echo "== build (simulation)"
	$(RELEASE_BUILD) cluster-simulation

# Compares what the work tree and the commit BASE do in the same histories, byte by byte. HISTORIES="--seeds 1..50000" runs more of them.
same-histories: deps
	Tests/Simulation/same-histories $(BASE) $(HISTORIES)

# Each step has a log in .build-logs, and the last lines are a table of the seconds of all steps. `Tests/run test --list` names them.
test: deps test-deps browser-deps
	Tests/run test

# What takes hours, or longer than a person waits: the faults, the attackers, the fuzzer and the seeds in full size, the package and the image.
nightly: deps test-deps browser-deps package-deps
	Tests/run nightly

# Writes the pages of the documentation that are made from the code: Configuration, Metrics, and the tests in Requirements; and what follows
# the inputs in the transcripts of Tests/ClusterSimulationTests. `make test` fails while one of them is stale.
pages: build-checked
	ROLLCALL_TESTS=write-pages swift test $(CHECKED) --skip-build --filter '(GeneratedPagesTests|RequirementsPageTests|TranscriptTests)'

# Lint, and the suites of the core: messages, rules, the simulator of clusters, and rules of style.
smoke: deps
	Tests/run smoke

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
	Tests/Chaos/move-app
	Tests/Chaos/delete-user
	Tests/Chaos/flip-bits
	CHANGES=100000 ROLLCALL=$(ROLLCALL) Tests/Webhooks/run load
	Tests/Webhooks/sessions 50
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
	Tests/Chaos/clock-skew
	Tests/Chaos/cut-off
	Tests/Chaos/bad-network
	for fault in split one-way loss delay; do Tests/Chaos/partition $$fault || exit; done

# Most of these scripts with few users, within three minutes: part of `make test`, where another step runs beside it.
chaos-short: export DEATH_SECONDS := 2
chaos-short: export FOLLOW_SECONDS := 2
chaos-short: export NOTICE_SECONDS := 2
chaos-short: export READING_SECONDS := 0.2
chaos-short: export SLACK := 2
chaos-short: export SLOW_MILLISECONDS := 4
chaos-short:
	Tests/Chaos/rolling-restart 3 200 2
	Tests/Chaos/drain-clients
	Tests/Chaos/random-kills 3 200
	Tests/Chaos/policy-change 1 30 60
	Tests/Chaos/hidden 30 rollcall
	Tests/Chaos/deleted-files 3
	Tests/Chaos/import-friends 100 60
	Tests/Chaos/move-app 300
	Tests/Chaos/delete-user 1 100
	Tests/Chaos/flip-bits 20 400
	Tests/Chaos/twin 1 10
	Tests/Chaos/clock-jump 1 60
	Tests/Chaos/clock-skew
	Tests/Chaos/full-disk 1 60
	Tests/Chaos/cut-off 1 3 3 1

# Strangers who try to hurt a node, each for ten seconds at full speed, beside an honest client that must not notice. `Tests/Attacks/run NAME`
# runs one.
attacks: build
	Tests/Attacks/run --seconds 10

# Some attacks of each file for 1.5 s each: part of `make test`, where another step runs beside it. Growth of memory, a lost call and a harmed
# app fail them as in `make attacks`. A delay fails them from a second on: less may be the work of the other step.
attacks-short:
	Tests/Attacks/run rapid-reset reconnecting-continuation-flood hpack-bomb answers-behind-a-shut-window@client pipelined-requests@client \
		crowd-that-reads-nothing@client silent-connections-beyond-the-files metrics-pages token-spellings tickets wrong-proofs \
		blocks-of-unknown-users --seconds 1.5 --slack-milliseconds 1000

# All suites of `make test` that start nodes, with nodes that log at the level `trace`: no log may have a token, a ticket, a key or a secret.
secrets-in-logs: build build-checked
	Tests/OpenAPI/secrets-in-logs

lint:
	@echo "== lint"
	swift format lint --strict --parallel --recursive Sources Clients Tests Package.swift

# Rewrites the Swift sources in the style of .swift-format.
format:
	swift format --in-place --parallel --recursive Sources Clients Tests Package.swift

# Ratios beside nghttpd and a bare send loop, in one run; see Benchmarks/README.md.
bench: build test-deps
	@echo "== bench"
	Benchmarks/run

# Instructions of a request, a login, a delta and a push, and bytes of a session, beside Benchmarks/costs.json: fails at 2 % more.
gate: deps test-deps
	$(RELEASE_BUILD) cost-gate
	Benchmarks/gate

# Installs what is missing, and nothing else: Debian packages for building, and for the tests.
deps:
	@Benchmarks/install libnghttp2-dev libsqlite3-dev libjemalloc-dev zlib1g-dev pkg-config python3

npm-deps:
	@Benchmarks/install nodejs node-typescript esbuild

browser-deps: npm-deps
	@Benchmarks/install node-react node-react-dom nodejs chromium nginx-light haproxy openssl curl python3

package-deps:
	@Benchmarks/install dpkg-dev rpm binutils python3 man-db debootstrap buildah curl iproute2 util-linux systemd

test-deps:
	@Benchmarks/install curl nghttp2-client nghttp2-server openssl python3 python3-yaml prometheus valgrind binutils nodejs iproute2
