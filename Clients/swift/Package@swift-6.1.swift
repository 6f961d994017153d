// swift-tools-version: 6.1
import PackageDescription

// The SDK of Rollcall for apps. It uses no other package: URLSession sends its requests.
// Package.swift is for Swift 6.0, which has no traits. All else is the same in both manifests.

let settings: [SwiftSetting] = [.swiftLanguageMode(.v6), .enableUpcomingFeature("ExistentialAny")]
let facades = ["TencentStatus", "TencentFriendship", "RongCloudStatus", "CommsEaseStatus", "ZIMStatus"]
/// The packages that the trait adds.
let http: [Target.Dependency] = [
    .product(name: "AsyncHTTPClient", package: "async-http-client", condition: .when(platforms: [.linux], traits: ["AsyncHTTPClient"])),
    .product(name: "NIOSSL", package: "swift-nio-ssl", condition: .when(platforms: [.linux], traits: ["AsyncHTTPClient"])),
]

let package = Package(
    name: "rollcall-swift",
    // Clock and Duration need these versions.
    platforms: [.macOS(.v13), .iOS(.v16), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: (["PresenceClient"] + facades).map { .library(name: $0, targets: [$0]) },
    traits: [
        .trait(name: "AsyncHTTPClient", description: "On Linux, AsyncHTTPClient sends the requests. An authority of one's own needs it.")
    ],
    dependencies: [
        .package(url: "https://github.com/swift-server/async-http-client.git", from: "1.24.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl.git", from: "2.27.0"),
    ],
    targets: [.target(name: "PresenceClient", dependencies: http, swiftSettings: settings)]
        + facades.map { .target(name: $0, dependencies: ["PresenceClient"], swiftSettings: settings) }
)
