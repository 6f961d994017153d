import PresenceWire
import Testing

@testable import PresenceCore

/// Records that many nodes watch.
@Suite struct RelayTests {
    var cluster: TestCluster
    let ann: String
    var watchers: [Int] = []

    /// Six nodes, of which each has a session that follows a user of the first.
    init() {
        var settings = CoreSettings()
        settings.relayAbove = 2
        cluster = TestCluster(nodes: 6, settings: settings)
        ann = cluster.user(ownedBy: 0)
        for node in 0..<6 {
            watchers.append(cluster.login("watcher\(node)", on: node))
            cluster.subscribe("watcher\(node)", to: [ann], on: node)
        }
        cluster.advance(.seconds(1))
    }

    private func texts() -> [String] { watchers.map { cluster.clients[$0].view[ann]?["customStatus"]?.textValue ?? "" } }

    private func deltasSent() -> UInt64 { cluster.processes[0].node.statistics.peers.map(\.link.deltasSent).reduce(0, +) }

    /// Nothing that is said between nodes other than the owner arrives.
    private mutating func deafenRelays() {
        for from in 1..<6 { for to in 1..<6 where from != to { cluster.losing.append((from, to)) } }
    }

    @Test("A record that many nodes watch is sent to few and reaches all") mutating func tree() {
        let before = deltasSent()
        cluster.setStatus(ann, "hello", on: 0)
        #expect(texts() == Array(repeating: "hello", count: 6))
        #expect(deltasSent() - before == 2)
        #expect(cluster.processes.map { $0.node.edge.relays.counters.forwarded }.reduce(0, +) >= 2)
    }

    @Test("The load of relays spreads over versions") mutating func spread() {
        for number in 0..<40 {
            cluster.setStatus(ann, "\(number)", on: 0)
            cluster.advance(.milliseconds(50))
        }
        #expect(cluster.processes.dropFirst().allSatisfy { $0.node.edge.relays.counters.forwarded >= 8 })
        #expect(cluster.processes.allSatisfy { $0.node.edge.relays.counters.fetched == 0 })
    }

    @Test("A record that a relay dropped is requested from the owner") mutating func dropped() {
        deafenRelays()
        cluster.setStatus(ann, "hello", on: 0)
        #expect(texts().count { $0 == "hello" } == 3, "the owner and two relays have it")
        cluster.advance(.milliseconds(300))
        #expect(texts() == Array(repeating: "hello", count: 6))
        #expect(cluster.processes.map { $0.node.edge.relays.counters.fetched }.reduce(0, +) == 3)
    }

    @Test("No node claims a position past a record that a relay still has to forward") mutating func claims() {
        deafenRelays()
        cluster.setStatus(ann, "hello", on: 0)
        let written = cluster.record(of: ann).version.milliseconds
        for _ in 0..<2 {
            cluster.advance(.milliseconds(50))
            for node in 1..<6 where texts()[node] != "hello" {
                #expect(cluster.processes[node].node.edge.position <= written)
                let process = cluster.processes[node]
                #expect(process.node.cluster.peers.others.contains { process.node.edge.relays.knownUpTo($0) <= written })
            }
        }
        cluster.losing = []
        cluster.advance(.seconds(1))
        #expect(cluster.processes.allSatisfy { $0.node.edge.position > written })
    }

    @Test("No node claims a position past the version of a record that its owner publishes late") mutating func late() {
        var record = cluster.record(of: ann)
        // An owner that was cut off trusts no earlier position, so its records are known since a later time.
        record.knownSince = cluster.now.wall + 32_000
        record.version = Version(milliseconds: record.version.milliseconds + 1, counter: 0, node: record.version.node)
        let others = Array(cluster.processes[0].node.cluster.peers.others)
        cluster.processes[0].node.publish(record, to: others)
        for peer in others { #expect(cluster.processes[0].node.edge.relays.namedFrom(peer) == record.version) }
        // One that is published after it, and is older, must be listed first too.
        record.version = Version(milliseconds: record.version.milliseconds - 1, counter: 0, node: record.version.node)
        cluster.processes[0].node.publish(record, to: others)
        for peer in others { #expect(cluster.processes[0].node.edge.relays.namedFrom(peer) == record.version) }
    }

    @Test("The owner answers a query of a record that a relay still has to forward") mutating func query() {
        deafenRelays()
        cluster.setStatus(ann, "hello", on: 0)
        cluster.advance(.milliseconds(300))
        cluster.losing = []
        for node in 1..<6 {
            // The node counts the queries of its own users.
            let caller = cluster.user(ownedBy: node)
            guard case .userStatusList(let records, _, let asOf) = cluster.call(.getUserStatus([user(ann)]), by: caller, on: node) else {
                return #expect(Bool(false), "no answer")
            }
            #expect(records[0]?.customStatus == "hello" || asOf <= cluster.record(of: ann).version.milliseconds)
        }
    }

    @Test("A dead target is counted and delays no other") mutating func deadTarget() {
        let last = cluster.processes[5].node.cluster.own.id
        for from in 1..<5 {
            guard let peer = cluster.processes[from].node.cluster.peerIndex(last) else { continue }
            cluster.processes[from].node.machines.cluster.links.close(to: peer)
        }
        for number in 0..<10 {
            cluster.setStatus(ann, "\(number)", on: 0)
            cluster.advance(.milliseconds(50))
        }
        cluster.setStatus(ann, "hello", on: 0)
        cluster.advance(.milliseconds(500))
        #expect(cluster.processes.contains { $0.node.edge.relays.counters.dropped > 0 })
        #expect(texts() == Array(repeating: "hello", count: 6))
    }

    @Test("A relay forwards nothing to unknown numbers") mutating func junk() throws {
        var record = Record(blank: user("somebody"))
        record.version = Version(milliseconds: cluster.now.wall, counter: 1, node: 1)
        var writer = WireWriter()
        writer.message(.relay(record, targets: [0, 1, 2, .max]))
        try cluster.deliver(writer.bytes, from: cluster.processes[1].node.cluster.own.id, to: 0)
        #expect(cluster.processes[0].node.edge.relays.counters.dropped == 4)
    }
}

/// The records that wait on a link for relay targets.
@Suite struct RelayedLinkTests {
    static func record(_ milliseconds: Milliseconds) -> Record {
        var record = Record(blank: user("ann"))
        record.version = Version(milliseconds: milliseconds, counter: 0, node: 1)
        return record
    }

    static func messages(_ link: inout Link) throws -> [Message] {
        let batch = link.nextBatch(clock: .zero) ?? []
        return try batch.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            var messages: [Message] = []
            while reader.remainingBytes > 0 { messages.append(try reader.message()) }
            return messages
        }
    }

    @Test("A newer record goes to all targets of the older one") func newerRecord() throws {
        var link = Link(messagesMax: 10)
        link.append(.relay(Self.record(1), targets: [1, 2]))
        link.append(.relay(Self.record(3), targets: [2, 4]))
        link.append(.delta(Self.record(2)))
        #expect(try Self.messages(&link).first == .relay(Self.record(3), targets: [1, 2, 4]))
        link.append(.delta(Self.record(5)))
        #expect(try Self.messages(&link).first == .delta(Self.record(5)), "a share is passed on once")
    }

    @Test("Records dropped by an overflow are not claimed as complete") func overflow() throws {
        var link = Link(messagesMax: 1)
        link.append(.delta(Self.record(1)))
        for _ in 0..<3 { link.append(.requestSync) }
        #expect(try !Self.messages(&link).contains(.complete(upTo: .zero)))
    }
}
