// swift-tools-version: 6.0
import PackageDescription

// The SDK of Rollcall for apps. It uses no other package: URLSession sends its requests.
// Package@swift-6.1.swift adds the trait AsyncHTTPClient for programs on Linux. All else is the same in both manifests.

let settings: [SwiftSetting] = [.swiftLanguageMode(.v6), .enableUpcomingFeature("ExistentialAny")]
let facades = ["TencentStatus", "TencentFriendship", "RongCloudStatus", "CommsEaseStatus", "ZIMStatus"]

let package = Package(
    name: "rollcall-swift",
    // Clock and Duration need these versions.
    platforms: [.macOS(.v13), .iOS(.v16), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: (["PresenceClient"] + facades).map { .library(name: $0, targets: [$0]) },
    targets: [.target(name: "PresenceClient", swiftSettings: settings)]
        + facades.map { .target(name: $0, dependencies: ["PresenceClient"], swiftSettings: settings) }
)
