import PresenceWire
import Testing

@testable import PresenceCore

/// Owners and gateways compare what is watched and hosted where; what was lost without a broken link is repaired.
@Suite struct ViewDigestTests {
    static let interval: Duration = .seconds(4)
    var cluster: TestCluster
    let ann: String

    init() {
        var settings = CoreSettings()
        settings.digestInterval = Self.interval
        settings.watchLinger = .seconds(1)
        cluster = TestCluster(nodes: 3, settings: settings)
        ann = cluster.user(ownedBy: 0)
    }

    private mutating func passPeriod() { cluster.advance(Self.interval + .milliseconds(500)) }

    private func differences() -> [UInt64] { cluster.processes.map { $0.node.edge.comparison.differences } }

    @Test("A lost watch is repaired within a period") mutating func lostWatch() {
        let watcher = cluster.login("watcher", on: 1)
        cluster.losing = [(1, 0)]
        cluster.subscribe("watcher", to: [ann], on: 1)
        cluster.losing = []
        cluster.setStatus(ann, "unheard", on: 0)
        passPeriod()
        #expect(cluster.clients[watcher].view[ann]?["customStatus"]?.textValue == "unheard")
    }

    @Test("A lost delta is repaired within a period") mutating func lostDelta() {
        let watcher = cluster.login("watcher", on: 1)
        cluster.subscribe("watcher", to: [ann], on: 1)
        cluster.losing = [(0, 1)]
        cluster.setStatus(ann, "unheard", on: 0)
        cluster.losing = []
        passPeriod()
        #expect(cluster.clients[watcher].view[ann]?["customStatus"]?.textValue == "unheard")
    }

    @Test("A session unknown to its owner is repaired within a period") mutating func lostSession() {
        cluster.losing = [(1, 0)]
        cluster.login(ann, on: 1)
        cluster.losing = []
        #expect(cluster.record(of: ann).statusType != .online)
        passPeriod()
        #expect(cluster.record(of: ann).statusType == .online)
    }

    @Test("A session end unknown to its owner is repaired within a period and the grace") mutating func lostEnd() {
        let phone = cluster.login(ann, on: 1)
        cluster.losing = [(1, 0)]
        cluster.lose(phone)
        cluster.losing = []
        #expect(cluster.record(of: ann).statusType == .online)
        passPeriod()
        cluster.advance(.seconds(3))
        #expect(cluster.record(of: ann).statusType == .offline)
    }

    @Test("A node that stopped watching is removed even if its message was lost") mutating func lostUnwatch() {
        let watcher = cluster.login("watcher", on: 1)
        cluster.subscribe("watcher", to: [ann], on: 1)
        cluster.lose(watcher)
        var later = cluster.now
        later.instant += .seconds(60)
        let unsaid = cluster.processes[1].node.machines.edge.fanOut.sweep(at: later)
        #expect(unsaid.contains(user(ann)))
        passPeriod()
        let users = cluster.processes[0].node.owner.users
        #expect(users.index(of: user(ann)).map { users[$0].watchers } ?? [] == [])
    }

    @Test("The digests are equal if nothing is lost") mutating func equal() {
        for node in 0..<3 {
            for number in 0..<4 { cluster.login(cluster.user(ownedBy: number % 3, number: number), on: node) }
            cluster.login("watcher\(node)", on: node)
            cluster.subscribe("watcher\(node)", to: (0..<20).map { "user\($0)" } + ["nobody"], on: node)
        }
        for _ in 0..<3 { passPeriod() }
        #expect(differences() == [0, 0, 0])
        #expect(cluster.processes.allSatisfy { $0.node.edge.comparison.sentCount > 0 })
    }

    /// A registration that crosses a login must not set again what was changed since.
    @Test("A login that is reported twice is applied once") mutating func repeatedLogin() {
        cluster.losing = [(0, 1)]
        let phone = cluster.login(ann, on: 1, customStatus: "from the login")
        cluster.losing = []
        cluster.setStatus(ann, "newer", on: 2)
        cluster.processes[1].node.registerAgain(with: 1)
        let attach = Attach(
            session: cluster.clients[phone].session, user: user(ann), platform: "ios", customStatus: "from the login", isLogin: true)
        let now = cluster.now
        var outbox = Outbox()
        let gateway = cluster.processes[0].node.cluster.peerIndex(cluster.processes[1].node.cluster.own.id)!
        cluster.processes[0].node.machines.owner.attach(attach, from: gateway, in: &outbox[at: now])
        passPeriod()
        #expect(cluster.record(of: ann).customStatus == "newer")
    }

    @Test("A session that its owner has ended is not registered again") func endedSession() {
        var sessions = LocalSessions()
        let session = SessionID(stamp: 1, node: 2)
        sessions.open(Attach(session: session, user: user("ann"), platform: "ios"), gateway: 0)
        #expect(sessions.hash(of: 0...Slot.max) { _ in true } != 0)
        _ = sessions.end(session, of: user("ann"))
        #expect(sessions.hash(of: 0...Slot.max) { _ in true } == 0)
        #expect(sessions.sessions(of: user("ann")).isEmpty)
    }

    @Test("A digest of another ring is ignored") mutating func otherRing() throws {
        cluster.login(ann, on: 1)
        let sender = cluster.processes[0].node.cluster.own.id
        for (ring, expected) in [(UInt64(7), 0), (cluster.processes[1].node.cluster.placement.id, 64)] {
            var writer = WireWriter()
            writer.message(.viewDigest(ring: ring, first: 0, Array(repeating: 5, count: 64)))
            try cluster.deliver(writer.bytes, from: sender, to: 1)
            #expect(cluster.processes[1].node.edge.comparison.differences == UInt64(expected))
        }
    }

    @Test("A digest past the last range is ignored") mutating func pastTheEnd() throws {
        let sender = cluster.processes[0].node.cluster.own.id
        var writer = WireWriter()
        writer.message(.viewDigest(ring: cluster.processes[1].node.cluster.placement.id, first: 255, [1]))
        try cluster.deliver(writer.bytes, from: sender, to: 1)
        #expect(differences()[1] == 0)
    }
}
