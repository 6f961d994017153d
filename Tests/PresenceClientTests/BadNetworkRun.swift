import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import PresenceNode
import PresenceWire
import Synchronization

@testable import PresenceClient

/// Users whose clients reach a cluster through bad networks, and who change their statuses and subscriptions meanwhile.
final class BadNetworkRun: Sendable {
    /// A node's ports on loopback.
    struct Node: Sendable {
        let client: Int
        let ops: Int
    }

    /// The errors, if any, and the counts.
    struct Report: Sendable {
        /// Views that differ from the owners' records at the end: viewer, user, and both versions.
        var differences: [String] = []
        /// Acknowledged changes that did not hold.
        var lost: [String] = []
        /// Custom statuses that an older one replaced: a call that its client had given up was carried out late.
        var overwritten = 0
        /// Received statuses that were older than earlier ones.
        var wentBack = 0
        var viewsCount = 0
        var callsCount = 0
        /// Calls that failed, by code.
        var failures: [Int: Int] = [:]
        var reconnectsCount = 0
        var connectionsCount = 0
        var faults: [FaultyNetwork.Fault: Int] = [:]
        var memory = MemorySamples()
    }

    static let app = "default"

    let nodes: [Node]
    let networks: [FaultyNetwork]
    let users: [BadNetworkUser]
    let tally = Mutex(Report())
    private let admin: String

    /// - Parameters:
    ///   - seed: decides the fate of each connection, and what the users do.
    ///   - change: of every client's configuration.
    static func start(
        nodes: [Node], users count: Int, seed: UInt64, scheme: String = "http", _ change: (inout ClientConfiguration) -> Void = { _ in }
    ) async throws -> BadNetworkRun {
        var networks: [FaultyNetwork] = []
        for (index, node) in nodes.enumerated() {
            networks.append(try await FaultyNetwork(to: node.client, seed: seed &* 31 &+ UInt64(index)))
        }
        let mint = try await TokenMint()
        let names = (0..<count).map { "user\($0)" }
        var users: [BadNetworkUser] = []
        for (index, name) in names.enumerated() {
            var configuration = ClientConfiguration(addresses: networks.map { "\(scheme)://127.0.0.1:\($0.port)" }) {
                try await mint.token(user: name)
            }
            configuration.backoff = Backoff(initial: .milliseconds(50), max: .milliseconds(500))
            (configuration.callTimeout, configuration.connectTimeout) = (.seconds(2), .seconds(2))
            configuration.random = SplitMix64(seed: seed &+ UInt64(index) << 32)
            change(&configuration)
            var direct = configuration
            direct.addresses = nodes.map { "\(scheme)://127.0.0.1:\($0.client)" }
            users.append(try BadNetworkUser(name, among: names, configuration, direct: direct, seed: seed &* 7_919 &+ UInt64(index)))
        }
        return BadNetworkRun(
            nodes: nodes, networks: networks, users: users, admin: try await mint.token(user: "operator", app: app, isAdmin: true))
    }

    private init(nodes: [Node], networks: [FaultyNetwork], users: [BadNetworkUser], admin: String) {
        (self.nodes, self.networks, self.users, self.admin) = (nodes, networks, users, admin)
    }

    /// Lets all users act for a while, heals the network, and compares. Closes all.
    ///
    /// On a busy machine the logins alone can take that while. Each user then acts until it has made a few calls and the faults were met,
    /// two minutes at most.
    func run(for duration: Duration) async throws -> Report {
        // A user who is offline for long keeps its status, because only the network has faults here.
        let settings = #"{"settings":{"customStatus.clearOnOffline":false,"rate.query":false,"rate.subscribe":false}}"#
        _ = try await ask("/admin/v1/setAppPolicy", settings, port: nodes[0].ops)
        let start = ContinuousClock.now
        await withTaskGroup(of: Void.self) { group in
            for user in users {
                group.addTask {
                    await user.act { callsCount in
                        let passed = ContinuousClock.now - start
                        self.tally.withLock { $0.memory.sample(after: passed, of: duration) }
                        return passed >= duration && (passed >= .seconds(120) || callsCount > 8 && self.provesSomething)
                    }
                }
            }
        }
        for network in networks { network.heal() }
        try await compare()
        var report = tally.withLock { $0 }
        for user in users { await user.add(to: &report) }
        for network in networks {
            report.connectionsCount += network.connectionsCount
            report.faults.merge(network.counts) { $0 + $1 }
        }
        for user in users {
            await user.client.close()
            await user.direct.close()
        }
        for network in networks { try await network.close() }
        return report
    }

    /// Whether clients have met four kinds of faults and have reconnected.
    private var provesSomething: Bool {
        var faults: Set<FaultyNetwork.Fault> = []
        for network in networks { faults.formUnion(network.counts.keys) }
        return faults.count >= 4 && users.contains { $0.listener.reconnectsCount > 0 }
    }

    // MARK: The owners' records

    private func ask(_ path: String, _ body: String, port: Int) async throws -> JSONValue {
        let response = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: port, path: path, headers: [("authorization", "Bearer \(admin)")], body: body,
            on: MultiThreadedEventLoopGroup.singleton.next())
        guard response.status == 200 else { throw TestFailure(response.text) }
        return try JSONReader.read(response.body)
    }

    /// Waits until every view is what the owners say, half a minute at most, and notes what is not.
    private func compare() async throws {
        let deadline = ContinuousClock.now + .seconds(30)
        for user in users {
            var differences = try await self.differences(of: user)
            while !differences.isEmpty, ContinuousClock.now < deadline {
                try await pauseBetweenChecks()
                differences = try await self.differences(of: user)
            }
            let lost = await user.lost
            tally.withLock {
                $0.differences += differences
                $0.lost += lost
            }
        }
    }

    private func differences(of user: BadNetworkUser) async throws -> [String] {
        let followed = try await user.direct.getSubscribedUserStatus().subscriptions.map(\.userID)
        let names = ([user.name] + followed).map { "\"\($0)\"" }.joined(separator: ",")
        let records = try await ask("/admin/v1/queryOnlineStatus", "{\"userIDs\":[\(names)]}", port: nodes[1].ops)
        guard await user.client.connectionState == .connected else { return ["\(user.name) is not connected"] }
        var differences: [String] = []
        for record in records["userStatusList"]?.elements ?? [] {
            guard let name = record["userID"]?.text else { continue }
            let version = record["version"]?.text ?? ""
            let (known, told) = (await user.client.status(of: name), user.listener.newest(of: name))
            if known?.version != version || known?.customStatus != record["customStatus"]?.text
                || known?.statusType.rawValue != record["statusType"]?.text
            {
                differences.append("\(user.name) knows \(name) at \(known?.version ?? "nothing"), its owner at \(version)")
            }
            if told != version { differences.append("\(user.name) was told \(name) at \(told ?? "nothing"), its owner is at \(version)") }
            if name == user.name { await user.compare(record) }
        }
        await user.compare(followed: followed)
        tally.withLock { $0.viewsCount = max($0.viewsCount, users.count * followed.count) }
        return differences
    }
}

/// The private memory of this process, once a second.
struct MemorySamples: Sendable {
    /// The share of the run that was over, 0 to 1, and bytes.
    private(set) var samples: [(share: Double, bytes: Int)] = []
    private var nextSecond: Int64 = 0
    /// glibc's `malloc_trim`, which no module names: what is free goes back, so that what stays resident is in use.
    private static let trim = dlsym(nil, "malloc_trim").map { unsafeBitCast($0, to: (@convention(c) (Int) -> CInt).self) }

    mutating func sample(after time: Duration, of duration: Duration) {
        guard time.components.seconds >= nextSecond else { return }
        nextSecond = time.components.seconds + 1
        _ = Self.trim?(0)
        // Resident, and no file's: code that is used for the first time is not counted.
        guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8),
            let line = status.split(separator: "\n").first(where: { $0.hasPrefix("RssAnon:") }),
            let kibibytes = line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap({ Int($0) })
        else { return }
        samples.append((time / duration, kibibytes * 1_024))
    }

    /// The median in a part of the run; 0 when there is none.
    func median(_ shares: ClosedRange<Double>) -> Int {
        let part = samples.filter { shares.contains($0.share) }.map(\.bytes).sorted()
        return part.isEmpty ? 0 : part[part.count / 2]
    }
}
