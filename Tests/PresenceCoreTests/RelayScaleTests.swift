import Foundation
import PresenceWire
import Testing

@testable import PresenceCore

/// Many whole cores in one thread, every one linked to every other; batches pass in rounds of 10 ms, one round a hop. No death
/// is noticed: the owner goes on to trust relays that are gone, which is the worst that can happen to those behind them.
struct RelayCluster {
    static let hop: Duration = .milliseconds(10)

    /// One node. A class, because an array cannot hold a node, which is never copied.
    final class Member {
        var node: Node

        init(_ node: consuming Node) { self.node = node }
    }

    private struct Passing {
        let from: Int
        let to: Int
        let batch: [UInt8]
    }

    var now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)
    var members: [Member] = []
    var isDead: [Bool]
    private let ids: [NodeID]
    private var indices: [NodeID: Int] = [:]
    private var passing: [Passing] = []
    private var rounds = 0

    init(count: Int, settings: CoreSettings = CoreSettings()) {
        isDead = Array(repeating: false, count: count)
        let cards = (0..<count).map { Peer(id: NodeID("node-\($0)"), generation: 1, address: "n\($0):7601") }
        ids = cards.map(\.id)
        for (index, id) in ids.enumerated() { indices[id] = index }
        let ring = Ring(members: cards.map { Ring.Member(id: $0.id, weight: 100) })
        for own in cards.indices {
            var node = Node(selfPeer: cards[own], cluster: "scale", gatewaysCount: 1, settings: settings)
            for other in cards.indices where other != own {
                let peer = node.machines.cluster.insert(cards[other], rowVersion: .zero).index
                node.machines.edge.add(peer)
                node.machines.cluster.links.open(to: peer)
                node.machines.cluster.peers[peer].state = .alive
            }
            let placement = Placement(ring: ring) { [known = node.cluster.peers] in known.index(of: $0)! }
            node.machines.cluster.ownership = Ownership(placement: placement, generation: 1, joins: false, settings: node.cluster.settings)
            members.append(Member(node))
        }
    }

    /// Records that a node has sent to all others.
    func deltasSent(by node: Int) -> UInt64 { members[node].node.statistics.peers.map(\.link.deltasSent).reduce(0, +) }

    /// Lets batches pass for so many rounds.
    mutating func pass(_ count: Int, beating: Int) {
        for _ in 0..<count {
            now.instant += Self.hop
            now.wall += Self.hop.wholeMilliseconds
            rounds += 1
            let arriving = passing
            passing = []
            for one in arriving where !isDead[one.to] { take(one) }
            if rounds % 25 == 0 { members[beating].node.beat(at: now) }
            for index in members.indices where !isDead[index] { tick(index) }
        }
    }

    private mutating func take(_ one: Passing) {
        one.batch.withUnsafeBytes { bytes in
            let connection = ConnectionID(generation: 1, number: 1)
            do { try members[one.to].node.receive(batch: bytes, from: ids[one.from], on: connection, at: now) } catch {
                preconditionFailure("\(error)")
            }
        }
        guard !isDead[one.from], let peer = members[one.from].node.cluster.peerIndex(ids[one.to]) else { return }
        members[one.from].node.acknowledged(by: peer, at: now)
    }

    /// The part of a tick that this test needs. The members stay the same.
    private mutating func tick(_ index: Int) {
        if rounds % 5 == 0 {
            members[index].node.verifyRelayed(at: now)
            members[index].node.run(at: now)
        }
        obey(index)
    }

    mutating func obey(_ index: Int) {
        while !members[index].node.effects.isEmpty {
            let effects = members[index].node.effects
            members[index].node.effects.removeAll()
            for effect in effects {
                switch effect {
                case .persist(_, let ticket, _): members[index].node.stored(ticket, isDurable: true, at: now)
                case .transmit(let peer):
                    let to = indices[members[index].node.cluster.peerID(peer)]!
                    while let batch = members[index].node.nextBatch(for: peer, at: now) {
                        passing.append(Passing(from: index, to: to, batch: batch))
                    }
                default: break
                }
            }
        }
    }
}

/// Relays at size: small and short, or with 1,000 nodes, by
/// `ROLLCALL_SCALE=1 swift test -c release -Xswiftc -enable-testing --filter RelayScale`.
@Suite(.serialized) struct RelayScaleTests {
    static let isFull = ProcessInfo.processInfo.environment["ROLLCALL_SCALE"] != nil

    @Test("A user watched on every node costs its owner few sends, and every node is current") func watchedEverywhere() {
        let count = Self.isFull ? 1_000 : 70
        var cluster = RelayCluster(count: count)
        let star = user("star")
        let owner = cluster.members.indices.first { cluster.members[$0].node.cluster.owner(of: star) == 0 }!
        for index in cluster.members.indices {
            cluster.members[index].node.receive(.subscribe([star]), from: 0, at: cluster.now)
            cluster.obey(index)
        }
        cluster.pass(10, beating: owner)
        var random = SplitMix64(seed: 7)
        var sentMax: UInt64 = 0
        var hopsMax = 0
        var behindMax = 0
        var late = 0
        /// For how many rounds a node has not had the newest record.
        var behindFor = [Int?](repeating: nil, count: count)
        for change in 0..<(Self.isFull ? 40 : 8) {
            // One node in a hundred dies in the course of it, at any moment of a change's way.
            if change >= 4, change % (Self.isFull ? 3 : 2) == 0 {
                let victim = Int(random.next() % UInt64(count))
                if victim != owner { cluster.isDead[victim] = true }
            }
            let before = cluster.deltasSent(by: owner)
            let call = Call.setSelfStatus(customStatus: "\(change)", seconds: nil)
            cluster.members[owner].node.perform(call, caller: star, gateway: 0, token: UInt64(change), at: cluster.now)
            cluster.obey(owner)
            let version = cluster.members[owner].node.owner.record(of: star).version
            for index in cluster.members.indices where behindFor[index] == nil { behindFor[index] = 0 }
            for round in 1...100 {
                cluster.pass(1, beating: owner)
                for index in cluster.members.indices where behindFor[index] != nil && !cluster.isDead[index] {
                    behindFor[index]! += 1
                    if (cluster.members[index].node.edge.fanOut.recordHeld(of: star)?.version ?? .zero) >= version {
                        if !cluster.isDead.contains(true) { hopsMax = max(hopsMax, round) }
                        behindFor[index] = nil
                        continue
                    }
                    behindMax = max(behindMax, behindFor[index]!)
                    guard round == 3 else { continue }
                    late += 1
                    let member = cluster.members[index]
                    #expect(member.node.cluster.peers.others.allSatisfy { member.node.edge.relays.knownUpTo($0) <= version.milliseconds })
                }
            }
            sentMax = max(sentMax, cluster.deltasSent(by: owner) - before)
        }
        let bytes = cluster.members[owner].node.statistics.peers.map(\.link.bytesSent).reduce(0, +)
        print(
            "a user watched on \(count) nodes: at most \(sentMax) records sent a change, all within \(hopsMax) hops; with "
                + "\(cluster.isDead.count { $0 }) dead and not noticed, \(late) times somebody was behind after three hops, for at most "
                + "\(behindMax * 10) ms; the owner sent \(bytes / 1_024) KiB in all")
        #expect(sentMax <= 64)
        #expect(hopsMax <= 3)
        #expect(late > 0, "relays died")
        #expect(Duration.milliseconds(behindMax * 10) <= CoreSettings().digestInterval)
    }
}
