import PresenceWire
import Testing

@testable import PresenceClient

@Suite struct SessionMachineTests {
    var random = SplitMix64(seed: 7)
    var machine = SessionMachine(
        addressesCount: 3, firstAddress: 1, backoff: Backoff(initial: .milliseconds(100), max: .seconds(1)), loginAttemptsMax: 3)

    private mutating func connect() {
        #expect(machine.begin() == [.report(ConnectionChange(.connecting, .login)), .open(stream: 1, address: 1)])
        #expect(machine.connected(1, node: "b") == [.report(ConnectionChange(.connected, .sessionOpened))])
        #expect(machine.synced(1) == [])
    }

    private func delay(_ effects: [SessionMachine.Effect]) -> Duration? {
        for case .wake(let delay) in effects { return delay }
        return nil
    }

    @Test("A lost session is reopened at the next address without end") mutating func lostSession() {
        connect()
        let lost = machine.lost(1, .broken("x"), using: &random)
        #expect(lost.first == .report(ConnectionChange(.reconnecting, .connectionLost("x"))))
        #expect(delay(lost)! <= .milliseconds(100))
        #expect(machine.woke() == [.open(stream: 2, address: 2)])
        for stream in 2...40 {
            let lost = machine.lost(stream, .broken("x"), using: &random)
            #expect(lost.count == 1 && delay(lost)! <= .seconds(1))
            #expect(machine.woke() == [.open(stream: stream + 1, address: (stream + 1) % 3)])
        }
        #expect(machine.state == .reconnecting)
        #expect(machine.connected(41, node: "c") == [.report(ConnectionChange(.connected, .sessionOpened))])
    }

    @Test("An obsolete wait opens nothing") mutating func obsoleteWait() {
        connect()
        _ = machine.lost(1, .broken("x"), using: &random)
        #expect(machine.end(.closed) == [.report(ConnectionChange(.disconnected, .closed)), .end])
        #expect(machine.woke() == [])
        #expect(machine.end(.closed) == [])
    }

    @Test("A first login fails after its attempts") mutating func attempts() {
        _ = machine.begin()
        _ = machine.lost(1, .broken("x"), using: &random)
        _ = machine.woke()
        _ = machine.lost(2, .broken("y"), using: &random)
        _ = machine.woke()
        #expect(machine.lost(3, .broken("z"), using: &random) == [.report(ConnectionChange(.disconnected, .connectionLost("z"))), .end])
        #expect(machine.begin().last == .open(stream: 4, address: 0))
    }

    @Test("A final answer ends the login") mutating func finalAnswer() {
        connect()
        let error = PresenceError(code: .notInPlan, status: 403, detail: "not in the plan")
        #expect(machine.lost(1, .refused(error), using: &random).contains(.report(ConnectionChange(.disconnected, .refused(error)))))
    }

    @Test("A rejected token ends a first login") mutating func rejectedLogin() {
        _ = machine.begin()
        let error = PresenceError(code: .notLoggedIn, status: 401, detail: "expired")
        #expect(machine.lost(1, .refused(error), using: &random).contains(.report(ConnectionChange(.disconnected, .refused(error)))))
    }

    @Test("A lost session whose token is rejected is opened again without end, in waits of at most 8 s, and the app is told why")
    mutating func rejectedToken() {
        machine = SessionMachine(addressesCount: 3, firstAddress: 1, backoff: Backoff(), loginAttemptsMax: 3)
        connect()
        let error = PresenceError(code: .notLoggedIn, status: 401, detail: "expired")
        _ = machine.lost(1, .broken("x"), using: &random)
        for stream in 2...40 {
            #expect(machine.woke() == [.open(stream: stream, address: stream % 3)])
            let lost = machine.lost(stream, .refused(error), using: &random)
            #expect(lost.first == .report(ConnectionChange(.reconnecting, .refused(error))))
            #expect(delay(lost)! <= .seconds(8))
        }
    }

    @Test("The machine waits for the time that a refusal gives") mutating func refusalWithTime() {
        connect()
        let error = PresenceError(code: .overloaded, status: 503, detail: "", retryAfter: .seconds(7))
        let wait = delay(machine.lost(1, .refused(error), using: &random))!
        #expect(wait >= .seconds(7) && wait <= .seconds(7) + .milliseconds(100))
    }

    @Test("A hint opens the next stream, and drops the old one when the new one is synced") mutating func hint() {
        connect()
        #expect(machine.hinted(1, after: .milliseconds(30), using: &random) == [.wake(after: .milliseconds(30))])
        #expect(machine.hinted(1, after: .zero, using: &random) == [])
        #expect(machine.woke() == [.open(stream: 2, address: 2)])
        #expect(machine.connected(2, node: "c") == [])
        #expect(machine.retiring == 1 && machine.current == 2 && machine.state == .connected)
        #expect(machine.synced(2) == [.cancel(stream: 1)])
        #expect(machine.lost(1, .broken("late"), using: &random) == [])
        #expect(machine.state == .connected)
    }

    @Test("A doubted stream is kept until a stream elsewhere is synced, and while none opens") mutating func doubt() {
        connect()
        #expect(machine.doubted(1) == [.open(stream: 2, address: 2)])
        #expect(machine.doubted(1) == [])
        #expect(delay(machine.lost(2, .broken("no word"), using: &random)) != nil)
        #expect(machine.state == .connected && machine.current == 1 && machine.doubted(1) == [])
        #expect(machine.woke() == [.open(stream: 3, address: 0)])
        #expect(machine.connected(3, node: "a") == [])
        #expect(machine.retiring == 1 && machine.replaced(1) == [])
        #expect(machine.synced(3) == [.cancel(stream: 1)])
        #expect(machine.doubted(1) == [] && machine.state == .connected)
    }

    @Test("The leaving node's stream goes on if the new one breaks") mutating func brokenSuccessor() {
        connect()
        _ = machine.hinted(1, after: .zero, using: &random)
        _ = machine.woke()
        _ = machine.connected(2, node: "c")
        let effects = machine.lost(2, .broken("x"), using: &random)
        #expect(effects.count == 1 && delay(effects) != nil)
        #expect(machine.current == 1 && machine.state == .connected)
        #expect(machine.woke() == [.open(stream: 3, address: 0)])
        // Now it is gone, too; the one on its way is waited for.
        #expect(machine.lost(1, .broken("y"), using: &random) == [.report(ConnectionChange(.reconnecting, .connectionLost("y")))])
        #expect(machine.connected(3, node: "a") == [.report(ConnectionChange(.connected, .sessionOpened))])
    }

    @Test("A stream that is lost before its hint is followed does not go back to the node") mutating func lostBeforeHint() {
        connect()
        _ = machine.hinted(1, after: .seconds(5), using: &random)
        let effects = machine.lost(1, .broken("x"), using: &random)
        #expect(delay(effects)! <= .milliseconds(100))
        #expect(machine.woke() == [.open(stream: 2, address: 2)])
    }

    @Test("A stream that is replaced ends the session, unless the client is opening the next stream or has opened it")
    mutating func replaced() {
        connect()
        _ = machine.hinted(1, after: .zero, using: &random)
        _ = machine.woke()
        #expect(machine.replaced(1) == [])
        _ = machine.connected(2, node: "c")
        #expect(machine.replaced(1) == [] && machine.state == .connected)
        #expect(machine.synced(2) == [.cancel(stream: 1)] && machine.synced(2) == [])
        #expect(machine.replaced(2).contains(.report(ConnectionChange(.disconnected, .kickedOffline("replaced")))))
    }

    @Test("A session that the login of the next stream replaces is not reported as lost, unless the next stream breaks")
    mutating func handedOver() {
        connect()
        _ = machine.hinted(1, after: .zero, using: &random)
        _ = machine.woke()
        #expect(machine.replaced(1) == [])
        #expect(machine.lost(1, .broken("the node ended the stream"), using: &random) == [])
        #expect(machine.state == .connected && machine.current == nil && machine.connected(2, node: "c") == [])
        _ = machine.synced(2)
        _ = machine.doubted(2)
        #expect(machine.replaced(2) == [] && machine.lost(2, .broken("the node ended the stream"), using: &random) == [])
        let effects = machine.lost(3, .broken("x"), using: &random)
        #expect(effects.first == .report(ConnectionChange(.reconnecting, .connectionLost("x"))) && delay(effects) != nil)
        #expect(machine.woke() == [.open(stream: 4, address: 1)])
    }

    @Test("The login of a stream that was given up may replace the session, which then goes on with the next stream")
    mutating func replacedByItself() {
        connect()
        _ = machine.hinted(1, after: .zero, using: &random)
        _ = machine.woke()
        #expect(delay(machine.lost(2, .broken("silent"), using: &random)) != nil)
        #expect(machine.replaced(1) == [])
        _ = machine.lost(1, .broken("the node ended the stream"), using: &random)
        #expect(machine.woke().count == 1)
        _ = machine.connected(3, node: "a")
        #expect(machine.replaced(3).contains(.report(ConnectionChange(.disconnected, .kickedOffline("replaced")))))
    }

    /// The node ends the stream before it answers the logout.
    @Test("A machine that is leaving opens no stream") mutating func leaving() {
        connect()
        #expect(machine.leave() == [])
        #expect(machine.hinted(1, after: .zero, using: &random) == [])
        #expect(machine.lost(1, .broken("kicked"), using: &random) == [])
        #expect(machine.woke() == [])
        #expect(machine.end(.loggedOut) == [.report(ConnectionChange(.disconnected, .loggedOut)), .end])
        #expect(machine.begin().last == .open(stream: 2, address: 1))
        #expect(machine.leave() == [.cancel(stream: 2)])
        _ = machine.end(.loggedOut)
    }

    @Test("A machine that leaves while it follows a hint ends the old stream first") mutating func leavingDuringHint() {
        connect()
        _ = machine.hinted(1, after: .zero, using: &random)
        _ = machine.woke()
        _ = machine.connected(2, node: "c")
        #expect(machine.leave() == [.cancel(stream: 1)])
        #expect(machine.end(.loggedOut).first == .cancel(stream: 2))
    }

    /// One address before all nodes can lead back to the one that is leaving, which hints at once.
    @Test("Hints that lead back are followed more and more slowly") mutating func hintsBack() {
        connect()
        var waits: [Duration] = []
        for stream in 1...60 {
            let effects = machine.hinted(stream, after: .zero, using: &random)
            waits.append(delay(effects)!)
            _ = machine.woke()
            _ = machine.connected(stream + 1, node: "b")
            _ = machine.synced(stream + 1)
        }
        #expect(waits[0] == .zero && waits.max()! > .milliseconds(800) && waits.max()! <= .seconds(1))
        _ = machine.hinted(61, after: .zero, using: &random)
        _ = machine.woke()
        _ = machine.connected(62, node: "c")
        #expect(machine.hinted(62, after: .zero, using: &random) == [.wake(after: .zero)])
    }
}

@Suite struct CallRetryTests {
    private func delay(_ code: PresenceError.Code, _ asked: Duration? = nil, attempt: Int = 0) -> Duration? {
        var random = SplitMix64(seed: 3)
        let error = PresenceError(code: code, status: 503, detail: "", retryAfter: asked)
        return CallRetry().delay(after: error, attempt: attempt, using: &random)
    }

    @Test("Only safe calls are retried") func retries() {
        #expect(delay(.ownerUnreachable) != nil && delay(.unreachable) != nil)
        for code in [PresenceError.Code.badParameter, .switchedOff, .notInPlan, .cancelled, .badAnswer] { #expect(delay(code) == nil) }
        #expect(delay(.ownerUnreachable, attempt: 3) == nil)
    }

    @Test("The machine keeps to the node's retryAfter") func nodeTime() {
        #expect(delay(.calledTooOften, .seconds(4))! >= .seconds(4))
        #expect(delay(.overloaded, .seconds(10)) != nil)
        #expect(delay(.calledTooOften, .seconds(60)) == nil)
    }
}
