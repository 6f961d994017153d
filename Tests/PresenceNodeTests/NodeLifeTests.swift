import NIOCore
import Testing

@testable import PresenceNode

@Suite struct NodeLifeTests {
    private let state = NodeState()
    private let inUse = LinkRefusal(reason: "node ID \"a\" is in use", kind: .inUse)
    private let clockSkew = LinkRefusal(reason: "clock skew is 84 s", kind: .clockSkew)

    @Test("A node becomes ready once, and ends once") func phases() {
        let phases: [NodeLife] = [.starting, .incomplete, .serving, .draining, .stopping, .superseded(reason: "x")]
        let allowed = phases.map { phase in phases.filter { phase.mayBecome($0) } }
        let ends: [NodeLife] = [.stopping, .superseded(reason: "x")]
        #expect(
            allowed == [
                [.incomplete, .serving, .draining] + ends, [.serving, .draining] + ends, [.draining] + ends, ends, [], [],
            ])
        #expect(state.notReady(beside: nil) == "starting")
        #expect(state.advance(to: .serving) && state.notReady(beside: nil) == nil)
        #expect(state.advance(to: .serving), "the phase is reached already")
        #expect(state.advance(to: .draining) && !state.advance(to: .serving) && state.notReady(beside: nil) == "draining")
    }

    @Test("Each phase fails one check of readiness, and the machine and the other nodes have checks of their own") func checks() {
        let failing = { (state: NodeState) in
            state.checks(clock: nil, disk: nil).filter { $0.problem != nil }.map(\.line)
        }
        #expect(failing(state) == ["start: starting\n"])
        state.advance(to: .incomplete)
        #expect(failing(state) == ["completeness: incomplete: the database was damaged, and no other member is connected yet\n"])
        state.advance(to: .serving)
        #expect(failing(state) == [])
        #expect(!state.refused(clockSkew, at: .uptimeNanoseconds(0)))
        #expect(failing(state) == ["acceptance: refused: clock skew is 84 s\n"])
        #expect(
            state.checks(clock: "wrong", disk: "full").map(\.line).joined() == """
                start: ok
                completeness: ok
                drain: ok
                supersession: ok
                acceptance: refused: clock skew is 84 s
                clock: wrong
                disk: full

                """)
        #expect(!state.refused(nil, at: .uptimeNanoseconds(0)))
        state.advance(to: .draining)
        #expect(failing(state) == ["drain: draining\n"])
        state.advance(to: .superseded(reason: "why"))
        #expect(failing(state) == ["supersession: superseded: why\n"])
    }

    @Test("A process that stops is not superseded any more, and keeps its exit code") func stopFirst() async {
        #expect(state.advance(to: .stopping) && !state.advance(to: .superseded(reason: "late")))
        #expect(state.supersededReason == nil)
        for await reason in state.supersessions { Issue.record("\(reason)") }
    }

    @Test("A superseded process stays so while it stops") func supersededFirst() async {
        #expect(state.advance(to: .serving) && state.advance(to: .superseded(reason: "why")))
        #expect(!state.advance(to: .stopping) && !state.advance(to: .draining) && !state.advance(to: .superseded(reason: "again")))
        #expect(state.supersededReason == "why" && state.notReady(beside: "full") == "superseded: why")
        var reasons: [String] = []
        for await reason in state.supersessions { reasons.append(reason) }
        #expect(reasons == ["why"])
    }

    @Test("A later process with the node ID ends a process at once") func superseded() {
        let refusal = LinkRefusal(reason: "a later process", kind: .superseded)
        #expect(state.refused(refusal, at: .uptimeNanoseconds(0)) && state.supersededReason == "a later process")
        #expect(!state.refused(refusal, at: .uptimeNanoseconds(0)), "it ends once")
    }

    /// It has started alone, and the cluster has a live process with its node ID.
    @Test("A process whose node ID is in use ends after three seconds without a break") func inUseForLong() {
        state.advance(to: .serving)
        let start = NIODeadline.uptimeNanoseconds(0)
        #expect(!state.refused(inUse, at: start) && !state.refused(inUse, at: start + .milliseconds(2_999)))
        #expect(state.notReady(beside: "disk full") == "refused: node ID \"a\" is in use; disk full")
        // One node accepts it, or none answers.
        #expect(!state.refused(nil, at: start + .seconds(3)) && state.notReady(beside: nil) == nil)
        #expect(!state.refused(inUse, at: start + .seconds(4)) && !state.refused(clockSkew, at: start + .seconds(5)))
        #expect(!state.refused(inUse, at: start + .seconds(6)) && !state.refused(inUse, at: start + .milliseconds(8_999)))
        #expect(state.refused(inUse, at: start + .seconds(9)))
        #expect(state.notReady(beside: nil) == "superseded: node ID \"a\" is in use")
    }

    @Test("A node with a wrong clock is not ready until the others accept it") func clockSkewForLong() {
        state.advance(to: .serving)
        for second in 0..<600 { #expect(!state.refused(clockSkew, at: .uptimeNanoseconds(0) + .seconds(Int64(second)))) }
        #expect(state.life == .serving && state.notReady(beside: nil) == "refused: clock skew is 84 s")
        #expect(!state.refused(nil, at: .uptimeNanoseconds(0) + .seconds(600)) && state.notReady(beside: nil) == nil)
    }

    @Test("A refusal that does not end leaves a running node ready") func mismatch() {
        state.advance(to: .serving)
        #expect(!state.refused(LinkRefusal(reason: "another name", kind: .mismatch), at: .uptimeNanoseconds(0)))
        #expect(state.notReady(beside: nil) == nil && state.notReady(beside: "disk full") == "disk full")
    }
}
