import PresenceWire
import Testing

@testable import PresenceCore

/// The pushes of users who change often, in preset `rollcall`.
@Suite struct PushPacingTests {
    private var pacing = PushPacing()
    private var cluster = TestCluster(nodes: 3)

    private static func pace(atMillisecond millisecond: Int64) -> PushPacing.Pace {
        PushPacing.Pace(rate: Policy.Rate(calls: 20, seconds: 5), now: Instant(nanoseconds: millisecond * 1_000_000))
    }

    @Test("Of a change each millisecond, 20 are pushed at once, and then the newest every 250 ms") mutating func spacing() {
        var allowance = PushPacing.Allowance()
        var times: [Int64] = []
        for millisecond in 0..<5_000 as Range<Int64> {
            let pace = Self.pace(atMillisecond: millisecond)
            if let due = pacing.firstDue(at: pace.now) {
                allowance.use(pace)
                pacing.endWait(of: due)
                times.append(millisecond)
            }
            if pacing.changed(0, &allowance, isUrgent: false, pace, position: 0) == .push { times.append(millisecond) }
        }
        #expect(times == Array(0..<20) + (1...19).map { $0 * 250 })
        #expect(pacing.replacedCount == 4_960 && pacing.waitingCount == 1)
    }

    @Test("Beyond the most users who may wait, a record is pushed at once") mutating func bound() {
        var allowance = PushPacing.Allowance()
        let pace = Self.pace(atMillisecond: 0)
        for _ in 0..<20 { allowance.use(pace) }
        for index in 0...UInt32(PushPacing.waitingMax) {
            var own = allowance
            let isLast = index == PushPacing.waitingMax
            #expect(pacing.changed(index, &own, isUrgent: false, pace, position: 0) == (isLast ? .push : .wait))
        }
        pacing.endWait(of: 0)
        #expect(pacing.waitingCount == PushPacing.waitingMax - 1)
        #expect(pacing.changed(0, &allowance, isUrgent: false, pace, position: 0) == .wait)
    }

    // MARK: Whole nodes

    /// Has ann change 50 times at one moment, while bob follows ann and carl at node 2. Returns bob's stream.
    private mutating func changeOften() -> Int {
        for name in ["ann", "carl"] { cluster.login(name, on: 1) }
        let bob = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: ["ann", "carl"], on: 2)
        cluster.advance(.seconds(1))
        for number in 1...50 { cluster.setStatus("ann", "\(number)", on: 0) }
        return bob
    }

    private func text(of user: String, at client: Int) -> String? { cluster.clients[client].view[user]?["customStatus"]?.textValue }

    @Test("The view has the newest change at once, the stream after 250 ms, and no other user waits") mutating func newest() {
        let bob = changeOften()
        #expect(text(of: "ann", at: bob) == "20")
        #expect(cluster.processes[2].node.edge.fanOut.record(of: user("ann"))?.customStatus == "50")
        cluster.setStatus("carl", "hello", on: 0)
        #expect(text(of: "carl", at: bob) == "hello")
        cluster.advance(.milliseconds(250))
        #expect(text(of: "ann", at: bob) == "50")
        #expect(cluster.processes.allSatisfy { $0.node.edge.fanOut.pacing.waitingCount == 0 })
    }

    @Test("A stream that ends while a record waits is sent the record when it resumes on another node") mutating func position() {
        let bob = changeOften()
        cluster.advance(.milliseconds(200))
        cluster.setStatus("carl", "hello", on: 0)
        #expect(text(of: "carl", at: bob) == "hello" && text(of: "ann", at: bob) == "20")
        cluster.lose(bob)
        let resumed = cluster.login("bob", on: 0, resumeFrom: cluster.clients[bob].lastEventID)
        #expect(text(of: "ann", at: resumed) == "50")
    }

    @Test("A user who changes often and logs out is gone at once, and the return waits") mutating func leaving() {
        let bob = changeOften()
        cluster.call(.logout(nil), by: "ann", on: 0)
        #expect(cluster.statuses(told: bob, of: "ann").last == "UNLOGINED")
        cluster.login("ann", on: 1)
        #expect(cluster.statuses(told: bob, of: "ann").last == "UNLOGINED")
        cluster.advance(.milliseconds(300))
        #expect(cluster.statuses(told: bob, of: "ann").last == "ONLINE")
    }

    @Test("A user who changes often and hides has the changes shown first, and is gone one grace later") mutating func hiding() {
        let bob = changeOften()
        cluster.waitsForHides = false
        cluster.call(.setVisibility(Visibility.Change(mode: .nobody)), by: "ann", on: 0)
        cluster.advance(.milliseconds(300))
        #expect(text(of: "ann", at: bob) == "50" && cluster.statuses(told: bob, of: "ann").last == "ONLINE")
        cluster.endHides()
        #expect(cluster.statuses(told: bob, of: "ann").last == "OFFLINE")
    }

    @Test("The hiding of a user who is OFFLINE does not wait: viewers have the text of the hidden view when the call is answered")
    mutating func hidingWhileOffline() {
        let bob = changeOften()
        cluster.logOut("ann")
        for number in 1...30 { cluster.setStatus("ann", "gone \(number)", on: 0) }
        #expect(text(of: "ann", at: bob) != "gone 30")
        // A visibility that hides the user from nobody is newer than the record that the hidden view will be.
        cluster.call(.setVisibility(Visibility.Change(mode: .everyone, listed: [user("bob")])), by: "ann", on: 0)
        cluster.call(.setVisibility(Visibility.Change(mode: .nobody)), by: "ann", on: 0)
        #expect(text(of: "ann", at: bob) == "gone 30")
    }

    @Test("Only a change that shows less may not wait") func takingAway() {
        var before = Record(blank: user("ann"))
        before.statusType = .online
        var after = before
        after.customStatus = "busy"
        #expect(!after.takesAway(from: before))
        after.statusType = .offline
        #expect(after.takesAway(from: before))
        #expect(!before.takesAway(from: after), "the return waits")
    }
}
