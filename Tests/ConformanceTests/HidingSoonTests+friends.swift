import NodeFixture
import Testing

extension ConformanceTests.HidingSoonTests {
    /// The reasons of ann's owner for what bob sees of ann.
    private func reasons(in app: App) async throws -> [String] {
        let part = try await app.admin("explain", #"{"viewer":"bob","target":"ann"}"#, node: 1)["ownerOfTarget"]
        return part["because"]?.elements.compactMap(\.text) ?? []
    }

    /// Expects that ann is shown to bob at each node for now, and then OFFLINE as a lost user. Returns the time of the OFFLINE.
    @discardableResult private func expectLossLater(after busy: JSON, shownTo bob: Session, in app: App) async throws -> Int64 {
        for node in 0..<3 { #expect(try await app.status(of: "ann", as: "bob", node: node).custom == "busy", "at node \(node)") }
        let changed = try await expectLossInStream(of: bob, after: busy)
        try await expectOfflineAtEachNode(in: app)
        return changed
    }

    @Test("A friend who ends the friendship with a friends-only user right after a change is answered at once, and sees a loss later")
    func endedByTheFriend() async throws {
        let app = try await App("rollcall")
        let (ann, bob, busy) = try await busyAnn(in: app) { try await showToFriends(in: app) }
        let answer = try await app.call("deleteFriends", users(["ann"], #""delType":2"#), as: "bob", node: 2)
        #expect(answer["resultList"].elements.map { $0["resultCode"]?.number } == [0])
        let waiting = try await reasons(in: app)
        let words = "ann is visible to friends, and bob is not in the friend list"
        #expect(waiting.contains { $0.hasPrefix("\(words), which hides the status from ") }, "\(waiting)")
        try await expectLossLater(after: busy, shownTo: bob, in: app)
        #expect(try await reasons(in: app).contains(words))
        ann.close()
    }

    @Test("A policy that makes blocks hide right after a change shows a blocked user a loss, and ends it when it takes that back")
    func policyThatHides() async throws {
        let app = try await App("rollcall", #"{"block.hidesStatus":false}"#)
        let (ann, bob, busy) = try await busyAnn(in: app) {
            let blocked = try await app.call("addBlackList", users(["bob"]), as: "ann", node: 2)
            #expect(blocked.code == 0)
        }
        let before = try await reasons(in: app)
        #expect(before.contains { $0.hasSuffix("which hides nothing, because block.hidesStatus is off") }, "\(before)")
        try await app.set(#"{"block.hidesStatus":true}"#)
        let changed = try await expectLossLater(after: busy, shownTo: bob, in: app)
        try await app.set(#"{"block.hidesStatus":false}"#)
        try await bob.status(of: "ann") { $0.general == "ONLINE" && $0["lastOnlineStatusUpdateTime"]?.number ?? 0 > changed }
        ann.close()
    }

    @Test("While a block right after a change waits, explain has the time from which it hides the user, one grace after the block")
    func explained() async throws {
        let app = try await App("rollcall")
        let (ann, bob, busy) = try await busyAnn(in: app)
        async let answer = app.call("addBlackList", users(["bob"]), as: "ann", node: 2)
        var reason: String?
        try await app.cluster.until("explain names the block") {
            reason = try await reasons(in: app).first { $0.hasPrefix("ann has blocked bob since ") }
            return reason != nil
        }
        let words = "which hides the status (block.hidesStatus)"
        let times = try #require(
            reason?.firstMatch(of: /since ([0-9]+), which hides the status \(block\.hidesStatus\) from ([0-9]+) on,/), "\(reason ?? "")")
        let (since, hiddenFrom) = (try #require(Int64(times.1)), try #require(Int64(times.2)))
        #expect(hiddenFrom == since + 2_000)
        #expect(try await expectLossLater(after: busy, shownTo: bob, in: app) >= hiddenFrom)
        #expect(try await answer.code == 0)
        #expect(try await reasons(in: app).contains("ann has blocked bob since \(since), \(words)"))
        ann.close()
    }
}
