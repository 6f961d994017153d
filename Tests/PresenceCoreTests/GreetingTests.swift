import PresenceWire
import Testing

@testable import PresenceCore

/// Hellos of two processes with one node ID.
@Suite struct GreetingTests {
    var cluster = TestCluster(nodes: 3)

    /// A process with the ID of a member that serves would take its slots.
    @Test("A process with the ID of a live member is refused until the member does not answer") mutating func liveTwin() {
        let known = cluster.processes[1].node.cluster.own
        #expect(refusal(of: later(than: known), by: 0) == .inUse(by: known))
        #expect(
            HelloRefusal.inUse(by: known).description
                == "node ID \"node-1\" is in use by a live process at \(known.address); stop it, or configure a node ID of its own for each node"
        )
        // A restart listens at the address of the process that has ended.
        #expect(refusal(of: later(than: known, at: known.address), by: 0) == nil)
        cluster.kill(1)
        #expect(refusal(of: later(than: known), by: 0) == nil)
    }

    /// A broken link is no sign of death: the member may serve, and the link reconnects.
    @Test("A live member keeps its ID while the link to it is down") mutating func liveTwinWithoutLink() {
        let known = cluster.processes[1].node.cluster.own
        cluster.processes[0].node.unlinked(from: known.id, evidence: .reset, at: cluster.now)
        #expect(refusal(of: later(than: known), by: 0) == .inUse(by: known))
    }

    /// It does not answer, so the later process is to serve its users without a wait for its death.
    @Test("A new process replaces a suspect member") mutating func suspectTwin() {
        let known = cluster.processes[1].node.cluster.own
        cluster.processes[1].isUp = false
        cluster.advance(.milliseconds(1_300))
        #expect(cluster.processes[0].node.cluster.status.members[1].state == .suspect)
        #expect(refusal(of: later(than: known), by: 0) == nil)
    }

    /// The others send it nothing, so it would not learn that it is no member any more.
    @Test("A process that a later one has replaced is told so when it greets") func superseded() {
        let known = cluster.processes[1].node.cluster.own
        #expect(refusal(of: earlier(than: known), by: 0) == .superseded(by: known))
        #expect(
            HelloRefusal.superseded(by: known).description
                == "a later process at \(known.address) uses the node ID \"node-1\" and has replaced this one")
        #expect(refusal(of: earlier(than: known), by: 1) == .superseded(by: known), "its successor says the same")
        #expect(refusal(of: later(than: known), by: 1) == .inUse(by: known))
    }

    /// Its clock was set back, or the other one's was ahead. Nobody has replaced it.
    @Test("A process that starts before a process that is gone learns why it is refused") mutating func startedBefore() throws {
        let known = cluster.processes[1].node.cluster.own
        cluster.kill(1)
        #expect(refusal(of: earlier(than: known), by: 0) == .startedBefore(known, milliseconds: 1))
        #expect(
            HelloRefusal.startedBefore(known, milliseconds: 11_500).description
                == "this process started 12 s before the last process with the node ID \"node-1\", at \(known.address), which is gone; "
                + "synchronize the clocks (NTP), or start again after that time")
        // A node that knows the process from its disk only has no messages of it that may arrive late.
        try cluster.revive(0)
        #expect(cluster.processes[0].node.cluster.peerIndex(known.id) != nil)
        #expect(refusal(of: earlier(than: known), by: 0) == nil)
    }

    /// A process that is refused for good ends. One with another configuration must not end because of its age.
    @Test("The first reason for a refusal decides") func refusalOrder() {
        let known = cluster.processes[1].node.cluster.own
        var hello = hello(of: earlier(than: known))
        hello.wall += 3_600_000
        #expect(cluster.processes[0].node.refusal(of: hello, at: cluster.now) == .superseded(by: known))
        hello.cluster = "other"
        #expect(cluster.processes[0].node.refusal(of: hello, at: cluster.now) == .clusterName("other", own: "test"))
        hello.protocolVersion = 1
        #expect(cluster.processes[0].node.refusal(of: hello, at: cluster.now) == .protocolVersion(1))
    }

    private func later(than peer: Peer, at address: String = "127.0.0.9:7601") -> Peer {
        Peer(id: peer.id, generation: peer.generation + 1, address: address)
    }

    private func earlier(than peer: Peer) -> Peer { Peer(id: peer.id, generation: peer.generation - 1, address: "127.0.0.9:7601") }

    private func hello(of process: Peer) -> Hello {
        Hello(cluster: "test", sender: process, members: [], wall: cluster.now.wall)
    }

    private func refusal(of process: Peer, by index: Int) -> HelloRefusal? {
        cluster.processes[index].node.refusal(of: hello(of: process), at: cluster.now)
    }
}
