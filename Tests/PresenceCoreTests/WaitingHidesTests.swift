import PresenceWire
import Testing

@testable import PresenceCore

/// A user who hides soon after a change that viewers saw looks like a user who was lost when the call began.
@Suite struct WaitingHidesTests {
    var cluster = TestCluster(nodes: 3)
    private var bob = 0
    private var twin = 0

    init() { cluster.waitsForHides = false }

    /// A change that viewers see.
    enum Change: CaseIterable {
        case login, text, event, platform
    }

    private func hiding(_ isHidden: Bool, byBlock isBlock: Bool = false) -> Call {
        isBlock ? .chain(.setBlocked([user("bob")], isHidden)) : .setVisibility(.init(isInvisible: isHidden))
    }

    private mutating func begin() {
        bob = cluster.login("bob", on: 1)
        cluster.login("ann", on: 0)
        twin = cluster.login("twin", on: 0)
        cluster.subscribe("bob", to: ["ann", "twin"], on: 1)
        cluster.advance(.seconds(5))
    }

    private mutating func make(_ change: Change, by name: String) -> Int? {
        switch change {
        case .login:
            cluster.logOut(name)
            return cluster.login(name, on: 0)
        case .text: cluster.setStatus(name, "busy", on: 0)
        case .event:
            cluster.call(.publishEvent(value: 10_001, ext: "e", seconds: 600, isForOnlineOnly: false, isSynced: true), by: name, on: 0)
        case .platform: return cluster.login(name, on: 0, platform: "web")
        }
        return nil
    }

    private func told(_ name: String) -> [String] { cluster.statuses(told: bob, of: name) }

    /// The answers of a node, in the order of the calls.
    private func answers(on node: Int) -> [CallAnswer] { cluster.processes[node].answers.sorted { $0.key < $1.key }.map(\.value) }

    /// The fields that bob's device holds of a user; times since the last change of the status.
    private func shape(_ name: String) -> [String] {
        let view = cluster.clients[bob].view[name]!
        let since = { (field: String) in "\(view[field]!.number - view["lastOnlineStatusUpdateTime"]!.number)" }
        let texts = ["statusType", "customStatus"].map { view[$0]?.textValue ?? "" }
        return texts + ["\(view["onlinePlatforms"] == nil)", "\(view["event"] == nil)"] + ["lastUpdateTime", "lastSeenTime"].map(since)
    }

    /// Expects that bob sees ann ONLINE until a grace from now, and then OFFLINE, as a user who was lost now.
    private mutating func expectLossAfterGrace() {
        let before = told("ann")
        #expect(before.last == "ONLINE")
        cluster.advance(.milliseconds(1_900))
        #expect(told("ann") == before)
        cluster.advance(.milliseconds(200))
        #expect(told("ann") == before + ["OFFLINE"] && shape("ann")[5] == "-2000")
    }

    @Test(
        "A user who hides right after a change looks lost since the call, which is answered once viewers see it",
        arguments: Change.allCases, [false, true])
    mutating func hidesSoon(change: Change, isBlock: Bool) throws {
        begin()
        _ = make(change, by: "ann")
        let second = make(change, by: "twin")
        cluster.advance(.milliseconds(500))
        let before = told("ann")
        let askedAt = cluster.now.wall
        if change != .login { cluster.lose(twin) }
        if let second { cluster.lose(second) }
        #expect(cluster.call(hiding(true, byBlock: isBlock), by: "ann", on: 2) == nil)
        cluster.advance(.milliseconds(1_900))
        #expect(told("ann") == before && cluster.lastAnswer(on: 2) == nil)
        cluster.advance(.milliseconds(200))
        #expect(cluster.lastAnswer(on: 2) != nil)
        #expect(told("ann") == before + ["OFFLINE"])
        #expect(shape("ann") == shape("twin") && shape("ann")[5] == "-2000")
        let hidden = try #require(cluster.clients[bob].view["ann"])
        #expect(hidden["lastSeenTime"]!.number == askedAt)
    }

    @Test("Calls of another time, of presets without a grace and of policies with a long one do not wait", arguments: [0, 2, 5])
    mutating func noWait(grace: Int) {
        var settings = CoreSettings()
        settings.policy.offlineGrace = .seconds(grace)
        cluster = TestCluster(nodes: 3, settings: settings)
        cluster.waitsForHides = false
        begin()
        if grace != 2 { cluster.setStatus("ann", "busy", on: 0) }
        cluster.call(hiding(true), by: "ann", on: 2)
        cluster.advance(.milliseconds(50))
        #expect(cluster.lastAnswer(on: 2)?.shown == ShownVisibility(visibility: Visibility().changed(by: .init(isInvisible: true))))
        #expect(told("ann").last == "OFFLINE")
    }

    @Test("A user who hides soon after showing again looks lost after the return", arguments: [false, true])
    mutating func hidesAfterReturn(isBlock: Bool) {
        begin()
        for isHidden in [true, false] {
            cluster.call(hiding(isHidden, byBlock: isBlock), by: "ann", on: 0)
            cluster.advance(.milliseconds(500))
        }
        #expect(told("ann") == ["ONLINE", "OFFLINE", "ONLINE"])
        #expect(cluster.call(hiding(true, byBlock: isBlock), by: "ann", on: 0) == nil)
        expectLossAfterGrace()
        #expect(told("ann").count == 4)
    }

    @Test("A user who shows again before viewers saw any change has not hidden, and both calls are answered so")
    mutating func showsMeanwhile() {
        begin()
        cluster.setStatus("ann", "busy", on: 0)
        cluster.call(hiding(true), by: "ann", on: 2)
        cluster.advance(.milliseconds(500))
        let events = cluster.clients[bob].events.count
        cluster.call(hiding(false), by: "ann", on: 2)
        cluster.advance(.milliseconds(100))
        #expect(answers(on: 2).suffix(2).compactMap(\.shown) == Array(repeating: ShownVisibility(visibility: Visibility()), count: 2))
        cluster.advance(.seconds(5))
        #expect(cluster.clients[bob].events.count == events)
    }

    @Test("A user who is being lost and hides is shown OFFLINE once, with one version in streams and answers", arguments: [false, true])
    mutating func hidesWhileLost(isBlock: Bool) throws {
        begin()
        let cid = cluster.login("cid", on: 2)
        cluster.subscribe("cid", to: ["ann"], on: 2)
        cluster.logOut("ann")
        let phone = cluster.login("ann", on: 0)
        cluster.advance(.milliseconds(500))
        cluster.lose(phone)
        cluster.advance(.milliseconds(30))
        let call = isBlock ? hiding(true, byBlock: true) : .setVisibility(.init(mode: .list, listed: [user("cid")]))
        #expect(cluster.call(call, by: "ann", on: 2) == nil)
        let before = told("ann")
        cluster.advance(.milliseconds(1_800))
        #expect(told("ann") == before)
        cluster.advance(.milliseconds(200))
        #expect(told("ann") == before + ["OFFLINE"] && shape("ann")[5] == "-2000")
        #expect(cluster.lastAnswer(on: 2) != nil)
        // The other viewers see the loss. When the user hides from them as well, they see what they saw.
        cluster.call(hiding(true), by: "ann", on: 0)
        cluster.advance(.milliseconds(100))
        for (viewer, device) in [("bob", bob), ("cid", cid)] {
            #expect(cluster.statuses(told: device, of: "ann").suffix(2) == ["ONLINE", "OFFLINE"])
            guard case .userStatusList(let records, _, _) = cluster.call(.getUserStatus([user("ann")]), by: viewer, on: 1) else {
                return #expect(Bool(false), "\(viewer) is not answered")
            }
            let (answered, view) = (try #require(records.first ?? nil), try #require(cluster.clients[device].view["ann"]))
            #expect(answered.version.text == view["version"]?.textValue, "\(viewer)")
            #expect(answered.lastUpdateTime == view["lastUpdateTime"]?.number, "\(viewer)")
        }
    }

    @Test("A user who is being lost, hides and comes back is hidden one grace after the call")
    mutating func comesBack() {
        begin()
        cluster.logOut("ann")
        let phone = cluster.login("ann", on: 0)
        cluster.advance(.milliseconds(100))
        cluster.lose(phone)
        cluster.advance(.milliseconds(1_000))
        cluster.call(hiding(true), by: "ann", on: 2)
        cluster.advance(.milliseconds(500))
        cluster.login("ann", on: 0)
        let before = told("ann")
        cluster.advance(.milliseconds(1_400))
        #expect(told("ann") == before)
        cluster.advance(.milliseconds(200))
        #expect(told("ann") == before + ["OFFLINE"])
    }

    @Test("A call beyond the most that wait hides its user at once, and is counted")
    mutating func bound() {
        var settings = CoreSettings()
        settings.callsMax = 25  // One may wait.
        cluster = TestCluster(nodes: 1, settings: settings)
        cluster.waitsForHides = false
        for name in ["ann", "cid"] { cluster.login(name, on: 0) }
        #expect(cluster.call(hiding(true), by: "ann", on: 0) == nil)
        #expect(cluster.call(hiding(true), by: "cid", on: 0) != nil)
        let calls = cluster.processes[0].node.statistics.calls
        #expect(calls.hidesWaiting == 1 && calls.hidesBeyondMax == 1)
        cluster.advance(.milliseconds(2_100))
        #expect(cluster.processes[0].node.statistics.calls.hidesWaiting == 0)
        #expect(cluster.record(of: "ann").privacy?.visibility.isInvisible == true)
    }

    @Test("Of a user's calls 64 wait; one more is refused with the time to repeat it, and viewers see the OFFLINE no earlier")
    mutating func callsOfOneUser() {
        begin()
        cluster.setStatus("ann", "busy", on: 0)
        cluster.call(hiding(true), by: "ann", on: 2)
        for number in 1..<WaitingHides.callsMax { #expect(cluster.setStatus("ann", "\(number)", on: 0) == nil) }
        #expect(cluster.setStatus("ann", "one more", on: 0) == .rateLimited(retryAfter: 4))
        #expect(cluster.call(hiding(true), by: "ann", on: 1) == .rateLimited(retryAfter: 4))
        cluster.advance(.milliseconds(1_800))
        #expect(told("ann").last == "ONLINE")
        cluster.advance(.milliseconds(300))
        #expect(told("ann").last == "OFFLINE" && shape("ann")[5] == "-2000")
        #expect(cluster.record(of: "ann").customStatus == "\(WaitingHides.callsMax - 1)")
        #expect(cluster.setStatus("ann", "later", on: 0) != .rateLimited(retryAfter: 4))
    }

    @Test("A user who logs out while the call waits is shown UNLOGINED at once, and nothing more")
    mutating func logsOutMeanwhile() {
        begin()
        cluster.setStatus("ann", "busy", on: 0)
        cluster.call(hiding(true), by: "ann", on: 2)
        cluster.advance(.milliseconds(500))
        cluster.logOut("ann")
        cluster.advance(.milliseconds(50))
        #expect(told("ann").last == "UNLOGINED")
        let events = cluster.clients[bob].events.count
        cluster.advance(.seconds(3))
        #expect(cluster.lastAnswer(on: 2) != nil && cluster.clients[bob].events.count == events)
    }

    @Test("A text and an event of the user while the call waits take effect with it, and hidden viewers see none of it")
    mutating func changesMeanwhile() {
        begin()
        cluster.setStatus("ann", "busy", on: 0)
        cluster.call(hiding(true), by: "ann", on: 2)
        cluster.advance(.milliseconds(300))
        let (events, answered) = (cluster.clients[bob].events.count, answers(on: 0).count)
        #expect(cluster.setStatus("ann", "gone", on: 0) == nil)
        let event = Call.publishEvent(value: 10_001, ext: "e", seconds: 600, isForOnlineOnly: false, isSynced: true)
        #expect(cluster.call(event, by: "ann", on: 1) == nil)
        cluster.advance(.milliseconds(1_600))
        #expect(cluster.clients[bob].events.count == events && told("ann").last == "ONLINE")
        cluster.advance(.milliseconds(200))
        #expect(told("ann").last == "OFFLINE" && shape("ann")[5] == "-2000" && shape("ann")[3] == "true")
        #expect(answers(on: 0).count == answered + 1 && cluster.lastAnswer(on: 1) != nil)
        #expect(cluster.record(of: "ann").customStatus == "gone" && cluster.record(of: "ann").hasEvents)
    }

    @Test("A login while the call waits moves the OFFLINE one grace after it")
    mutating func loginMeanwhile() {
        begin()
        cluster.setStatus("ann", "busy", on: 0)
        cluster.call(hiding(true), by: "ann", on: 2)
        cluster.advance(.milliseconds(300))
        cluster.login("ann", on: 0, platform: "web")
        expectLossAfterGrace()
    }

    @Test("A user whom push reaches and who hides during the grace of the last session is hidden one grace after the last change")
    mutating func hidesWhilePushReaches() {
        var settings = CoreSettings()
        settings.policy.pushReachableStaysOnline = true
        cluster = TestCluster(nodes: 3, settings: settings)
        cluster.waitsForHides = false
        bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        let phone = cluster.login("ann", on: 0, isPushReachable: true)
        cluster.advance(.seconds(5))
        cluster.lose(phone)
        cluster.advance(.milliseconds(600))
        cluster.setStatus("ann", "busy", on: 2)
        cluster.advance(.milliseconds(500))
        cluster.call(hiding(true), by: "ann", on: 2)
        expectLossAfterGrace()
    }

    @Test("A new owner answers a call that its predecessor held, or its caller learns that it may take effect", arguments: [false, true])
    mutating func ownerChanges(isKilled: Bool) {
        bob = cluster.login("bob", on: 1)
        let ann = cluster.user(ownedBy: 2)
        cluster.login(ann, on: 0)
        cluster.subscribe("bob", to: [ann], on: 1)
        cluster.advance(.seconds(5))
        cluster.setStatus(ann, "busy", on: 0)
        #expect(cluster.call(hiding(true), by: ann, on: 0) == nil)
        cluster.advance(.milliseconds(500))
        if isKilled { cluster.kill(2) } else { cluster.leave(2) }
        cluster.advance(.seconds(8))
        switch cluster.lastAnswer(on: 0) {
        case .owner(.visibility(let privacy, _)):
            #expect(privacy.visibility.isInvisible && told(ann).last == "OFFLINE" && shape(ann)[5] == "-2000")
        case .refused(let refusal): #expect(refusal.code == 50001 && refusal.mayTakeEffect)
        case let other: #expect(Bool(false), "the call is answered \(String(describing: other))")
        }
    }
}
