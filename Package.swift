// swift-tools-version: 6.2
import PackageDescription

/// One rule for every target of ours: Swift 6 mode, and a warning is an error.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
]

let nio: [Target.Dependency] = [
    .product(name: "NIOCore", package: "swift-nio"),
    .product(name: "NIOPosix", package: "swift-nio"),
    .product(name: "NIOSSL", package: "swift-nio-ssl"),
]

/// The commit that `rollcall --version` names: what `make` puts into the environment. A build without `make` does not know it.
let commit = Context.environment["BUILD_COMMIT"].flatMap { $0.allSatisfy { $0.isLetter || $0.isNumber || $0 == "-" } ? $0 : nil } ?? ""

/// `BUILD_SUITES=computing` builds the core and its suites alone, in a third of the time. `make smoke` sets it.
let isCoreOnly = Context.environment["BUILD_SUITES"] == "computing"

/// Tests run an optimized core, with the checks of arithmetic, of exclusive access and of `assert`: the suites take a third of the time.
/// One module at a time would optimize more, and would compile all of the core for each changed line.
let coreSettings = strict + [.unsafeFlags(["-O", "-assert-config", "Debug"], .when(configuration: .debug))]

/// The core, and its suites: what needs no socket, no TLS and no database.
let core: [Target] = [
    .target(name: "PresenceWire", swiftSettings: coreSettings),
    .target(
        name: "PresenceCore",
        dependencies: [
            "PresenceWire",
            .product(name: "DequeModule", package: "swift-collections"),
            .product(name: "HeapModule", package: "swift-collections"),
        ],
        swiftSettings: coreSettings
    ),
    .target(
        name: "ClusterSimulation",
        dependencies: ["PresenceWire", "PresenceCore", .product(name: "HeapModule", package: "swift-collections")],
        swiftSettings: coreSettings
    ),
    .executableTarget(
        name: "cluster-simulation",
        dependencies: ["ClusterSimulation", .product(name: "ArgumentParser", package: "swift-argument-parser")],
        swiftSettings: strict
    ),
    .testTarget(name: "PresenceWireTests", dependencies: ["PresenceWire"], swiftSettings: strict),
    .testTarget(name: "PresenceCoreTests", dependencies: ["PresenceCore", "ClusterSimulation"], swiftSettings: strict),
    .testTarget(name: "ClusterSimulationTests", dependencies: ["ClusterSimulation"], exclude: ["Transcripts"], swiftSettings: strict),
    .testTarget(name: "TidyTests", exclude: ["edges"], swiftSettings: strict),
]

/// A façade of the SDK, in the words of one vendor.
func facade(_ name: String) -> Target {
    .target(name: name, dependencies: ["PresenceClient"], path: "Clients/swift/Sources/\(name)", swiftSettings: strict)
}

/// All else.
let node: [Target] = [
    .systemLibrary(
        name: "CNGHTTP2",
        pkgConfig: "libnghttp2",
        providers: [.apt(["libnghttp2-dev"]), .brew(["nghttp2"])]
    ),
    .systemLibrary(
        name: "CSQLite",
        pkgConfig: "sqlite3",
        providers: [.apt(["libsqlite3-dev"]), .brew(["sqlite3"])]
    ),
    .systemLibrary(
        name: "CZlib",
        pkgConfig: "zlib",
        providers: [.apt(["zlib1g-dev"]), .brew(["zlib"])]
    ),
    // Swift has no compile-time values; C has.
    .target(name: "CBuild", cSettings: [.define("BUILD_COMMIT", to: "\"\(commit)\"")]),
    // The client and the console, which a node serves: C has #embed.
    .target(name: "CAssets"),
    .target(name: "HTTP2", dependencies: ["CNGHTTP2", "CZlib"] + nio, swiftSettings: strict),
    .target(
        name: "PresenceNode",
        dependencies: [
            "PresenceWire", "PresenceCore", "HTTP2", "CSQLite", "CAssets", "CBuild",
            .product(name: "AsyncHTTPClient", package: "async-http-client"),
            .product(name: "GRDB", package: "GRDB.swift"),
            .product(name: "JWTKit", package: "jwt-kit"),
            .product(name: "Crypto", package: "swift-crypto"),
            .product(name: "Configuration", package: "swift-configuration"),
            .product(name: "Yams", package: "Yams"),
            .product(name: "Logging", package: "swift-log"),
        ] + nio,
        swiftSettings: strict
    ),
    .target(
        name: "LoadSimulator",
        dependencies: [
            "HTTP2", "PresenceWire",
            .product(name: "Histogram", package: "hdrhistogram-swift"),
        ] + nio,
        swiftSettings: strict
    ),
    .target(
        name: "FriendImport",
        dependencies: [
            "PresenceWire",
            .product(name: "AsyncHTTPClient", package: "async-http-client"),
            .product(name: "NIOCore", package: "swift-nio"),
            .product(name: "NIOSSL", package: "swift-nio-ssl"),
        ],
        swiftSettings: strict
    ),
    // The SDK for apps is a package of its own in Clients/swift. Here AsyncHTTPClient sends its requests, because tests need TLS with
    // certificates of their own.
    .target(
        name: "PresenceClient",
        dependencies: [
            .product(name: "AsyncHTTPClient", package: "async-http-client"),
            .product(name: "NIOSSL", package: "swift-nio-ssl"),
        ],
        path: "Clients/swift/Sources/PresenceClient",
        swiftSettings: strict + [.define("AsyncHTTPClient")]
    ),
    facade("TencentStatus"),
    facade("TencentFriendship"),
    facade("RongCloudStatus"),
    facade("CommsEaseStatus"),
    facade("ZIMStatus"),
    .executableTarget(
        name: "rollcall",
        dependencies: [
            "PresenceNode", "LoadSimulator", "FriendImport", "HTTP2", "PresenceWire",
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
            .product(name: "AsyncHTTPClient", package: "async-http-client"),
            .product(name: "Logging", package: "swift-log"),
            .product(name: "UnixSignals", package: "swift-service-lifecycle"),
        ],
        swiftSettings: strict
    ),
    .executableTarget(
        name: "cost-gate",
        dependencies: [
            "PresenceNode", "PresenceCore", "PresenceWire", "HTTP2", .product(name: "Logging", package: "swift-log"),
            .product(name: "NIOEmbedded", package: "swift-nio"),
        ] + nio,
        swiftSettings: strict
    ),
    .testTarget(name: "HTTP2Tests", dependencies: ["HTTP2"] + nio, swiftSettings: strict),
    .testTarget(
        name: "PresenceNodeTests",
        dependencies: [
            "PresenceNode", "PresenceCore", "PresenceWire", "HTTP2", "NodeFixture", "InProcessFixture",
            .product(name: "JWTKit", package: "jwt-kit"), .product(name: "GRDB", package: "GRDB.swift"),
            .product(name: "Crypto", package: "swift-crypto"), .product(name: "Logging", package: "swift-log"),
        ] + nio,
        swiftSettings: strict),
    .target(
        name: "NodeFixture",
        dependencies: ["HTTP2", .product(name: "Crypto", package: "swift-crypto")] + nio,
        path: "Tests/NodeFixture", swiftSettings: strict),
    .target(
        name: "InProcessFixture",
        dependencies: [
            "NodeFixture", "PresenceNode", "HTTP2", "PresenceWire", .product(name: "Logging", package: "swift-log"),
        ] + nio,
        path: "Tests/InProcessFixture", swiftSettings: strict),
    .testTarget(
        name: "PresenceClientTests",
        dependencies: [
            "PresenceClient", "NodeFixture", "InProcessFixture", "PresenceWire", "PresenceNode",
            .product(name: "Logging", package: "swift-log"),
        ],
        swiftSettings: strict),
    .testTarget(
        name: "DialectTests",
        dependencies: [
            "PresenceClient", "TencentStatus", "TencentFriendship", "RongCloudStatus", "CommsEaseStatus", "ZIMStatus", "NodeFixture",
        ],
        swiftSettings: strict),
    .testTarget(
        name: "ConformanceTests",
        dependencies: [
            "PresenceClient", "TencentStatus", "TencentFriendship", "RongCloudStatus", "CommsEaseStatus", "ZIMStatus", "NodeFixture",
            "HTTP2",
        ] + nio,
        swiftSettings: strict),
    .testTarget(
        name: "ClusterTests",
        dependencies: ["NodeFixture", "HTTP2"] + nio,
        swiftSettings: strict),
    .testTarget(name: "LoadSimulatorTests", dependencies: ["LoadSimulator", "PresenceWire"], swiftSettings: strict),
    .testTarget(name: "FriendImportTests", dependencies: ["FriendImport", "PresenceWire"], swiftSettings: strict),
]

let package = Package(
    name: "rollcall",
    platforms: [.macOS(.v15)],
    products: isCoreOnly ? [] : [.executable(name: "rollcall", targets: ["rollcall"])],
    // Exact versions of the packages that this one names. SwiftPM takes the newest versions of those that they name in turn, because a
    // package that no target uses here is a warning. Tests/Deploy/packages has the versions that were tested, and `make test` compares.
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio.git", exact: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl.git", exact: "2.37.6"),
        .package(url: "https://github.com/apple/swift-collections.git", exact: "1.6.0"),
        .package(url: "https://github.com/apple/swift-argument-parser.git", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-configuration.git", exact: "1.4.0", traits: ["YAML"]),
        .package(url: "https://github.com/jpsim/Yams.git", exact: "6.2.2"),
        .package(url: "https://github.com/apple/swift-log.git", exact: "1.16.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", exact: "2.13.0"),
        .package(url: "https://github.com/groue/GRDB.swift.git", exact: "7.10.0"),
        .package(url: "https://github.com/swift-server/async-http-client.git", exact: "1.37.0"),
        .package(url: "https://github.com/vapor/jwt-kit.git", exact: "5.7.1"),
        .package(url: "https://github.com/apple/swift-crypto.git", exact: "4.5.2"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift.git", exact: "0.2.0"),
    ],
    targets: isCoreOnly ? core : core + node
)
