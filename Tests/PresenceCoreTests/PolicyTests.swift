import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct PolicyTests {
    var cluster = TestCluster(nodes: 3)

    mutating func setPolicy(_ json: String, on node: Int = 0) -> CallAnswer? {
        cluster.call(.setAppPolicy(Array(json.utf8)), by: "admin", on: node)
        cluster.advance(.milliseconds(100))
        return cluster.lastAnswer(on: node)
    }

    func policies() -> [Policy] { cluster.processes.map { $0.node.owner.policies.policy(of: UserID(app: "default", id: "x")) } }

    @Test("An answered policy applies on all nodes and is on their disks", arguments: 0..<3) mutating func everywhere(node: Int) {
        #expect(setPolicy(#"{"preset":"tencent"}"#, on: node) == .done)
        #expect(policies() == [Policy](repeating: Policy(.tencent), count: 3))
        #expect(cluster.processes.map { $0.disk.rows.values.count { $0.kind == .policy } } == [1, 1, 1])
    }

    @Test("A policy that shows records in another way is told to open streams, and tells nobody of a hidden user")
    mutating func shownAnew() {
        let clients = (0..<3).map { cluster.login("bob", on: $0) }
        cluster.subscribe("bob", to: ["ann", "carl", "eve"], on: 0)
        for user in ["ann", "carl"] { cluster.login(user, on: 2, platform: "web") }
        cluster.call(.setVisibility(Visibility.Change(mode: .nobody)), by: "carl", on: 1)
        cluster.advance(.seconds(1))
        let told = { (cluster: TestCluster, client: Int) -> [String] in
            let list = cluster.clients[client].events.last?.data["userStatusList"]?.elements ?? []
            return list.map {
                "\($0["userID"]!.textValue) \($0["statusType"]!.textValue) \($0["onlinePlatforms"]!.elements.map(\.textValue))"
            }
        }
        for (policy, expected) in [
            (#"{"settings":{"device.exposePlatforms":false}}"#, ["ann ONLINE []", "bob ONLINE []"]),
            (#"{"settings":{"self.reportStatus":"unknown"}}"#, ["bob UNKNOWN []"]),
            (#"{"preset":"rollcall"}"#, [#"ann ONLINE ["web"]"#, #"bob ONLINE ["ios"]"#]),
            (#"{"preset":"tencent"}"#, ["ann ONLINE []", "bob ONLINE []"]),
        ] {
            let before = clients.map { cluster.clients[$0].events.count }
            #expect(setPolicy(policy) == .done)
            for (client, count) in zip(clients, before) {
                #expect(cluster.clients[client].events.count == count + 1 && told(cluster, client).sorted() == expected, "\(policy)")
            }
        }
        let counts = clients.map { cluster.clients[$0].events.count }
        #expect(setPolicy(#"{"settings":{"query.batchMax":7,"subscription.replayOnLogin":"online"}}"#) == .done)
        #expect(clients.map { cluster.clients[$0].events.count } == counts)
    }

    /// The liveness timeout and the offline grace of each node, in seconds.
    private func times(of app: String) -> [[Int64]] {
        cluster.processes.map { process in
            let policy = process.node.owner.policy(of: UserID(app: app, id: "x"))
            return [policy.livenessTimeout.components.seconds, policy.offlineGrace.components.seconds]
        }
    }

    private func onAll(_ timeout: Int64, _ grace: Int64) -> [[Int64]] { [[Int64]](repeating: [timeout, grace], count: 3) }

    @Test("A stream that resumes from before a change of the policy is sent each record as it is shown now, and no other stream is")
    mutating func shownAnewOnResume() {
        cluster.login("ann", on: 2, platform: "web")
        var bob = cluster.login("bob", on: 0)
        cluster.subscribe("bob", to: ["ann"], on: 0)
        for (round, policy) in [#""device.exposePlatforms":false"#, nil, #""self.reportStatus":"unknown""#].enumerated() {
            cluster.advance(.seconds(1))
            cluster.setStatus("bob", "\(round)", on: 1)
            let position = cluster.clients[bob].lastEventID
            #expect(position > cluster.record(of: "ann").version.milliseconds)
            cluster.lose(bob)
            if let policy { #expect(setPolicy("{\"settings\":{\(policy)}}", on: round) == .done) }
            bob = cluster.login("bob", on: round, resumeFrom: position)
            #expect(cluster.statuses(told: bob, of: "ann") == (policy == nil ? [] : ["ONLINE"]), "round \(round)")
            if policy != nil { #expect(cluster.clients[bob].view["ann"]?["onlinePlatforms"]?.elements.count == 0) }
        }
        #expect(cluster.statuses(told: bob, of: "bob").last == "UNKNOWN")
    }

    @Test("The times of the node apply to apps that set only other settings") mutating func nodeTimes() throws {
        var settings = CoreSettings()
        settings.policy.livenessTimeout = .seconds(60)
        settings.policy.offlineGrace = .seconds(5)
        settings.policies = [
            "shop": try AppPolicy(["preset": "zim"]), "slow": try AppPolicy(["settings": ["liveness.timeout": 400]]),
            "talk": try AppPolicy(["preset": "tencent"]),
        ]
        cluster = TestCluster(nodes: 3, settings: settings)
        #expect(times(of: "default") == onAll(60, 5))
        #expect(times(of: "shop") == onAll(60, 5))
        #expect(times(of: "slow") == onAll(400, 5))
        #expect(times(of: "talk") == onAll(400, 0))  // T5, T6

        #expect(setPolicy(#"{"settings":{"query.batchMax":5}}"#) == .done)
        #expect(times(of: "default") == onAll(60, 5))
        let user = UserID(app: "default", id: "x")
        #expect(cluster.processes.map { $0.gateways[0].value.policy(of: user).livenessTimeout.components.seconds } == [60, 60, 60])
        let rows = cluster.processes.flatMap { $0.disk.rows.values.filter { $0.kind == .policy } }
        let said = Array(#"{"preset":"rollcall","settings":{"query.batchMax":5}}"#.utf8)
        #expect(rows.map(\.value) == [said, said, said])

        #expect(setPolicy(#"{"settings":{"offlineGrace":7}}"#) == .done)
        #expect(times(of: "default") == onAll(60, 7))
        #expect(setPolicy(#"{"preset":"tencent"}"#) == .done)
        #expect(times(of: "default") == onAll(400, 0))
        #expect(setPolicy(#"{"preset":"rongcloud"}"#) == .done)
        #expect(times(of: "default") == onAll(60, 5))
    }

    @Test("A node with another configuration applies its own times to an app") mutating func ownTimes() throws {
        _ = setPolicy(#"{"preset":"zim"}"#)
        cluster.kill(2)
        cluster.advance(.seconds(4))
        var settings = CoreSettings()
        settings.policy.livenessTimeout = .seconds(90)
        try cluster.restart(2, settings: settings)
        cluster.advance(.seconds(4))
        #expect(times(of: "default") == [[400, 2], [400, 2], [90, 2]])
        let user = UserID(app: "default", id: "x")
        #expect(cluster.processes[2].gateways[0].value.policy(of: user).livenessTimeout == .seconds(90))
    }

    @Test("Concurrent changes of two administrators are both kept") mutating func twoAdministrators() {
        cluster.call(.setAppPolicy(Array(#"{"settings":{"query.batchMax":5}}"#.utf8)), by: "admin", on: 0)
        cluster.call(.setAppPolicy(Array(#"{"settings":{"offlineGrace":7}}"#.utf8)), by: "admin", on: 1)
        cluster.advance(.milliseconds(100))
        #expect(policies().map(\.queryUsersMax) == [5, 5, 5])
        #expect(policies().map(\.offlineGrace) == [Duration](repeating: .seconds(7), count: 3))
    }

    @Test("An unknown setting changes nothing") mutating func unknownSetting() {
        guard case .refused(let refusal) = setPolicy(#"{"preset":"zim","settings":{"quota":1}}"#) else {
            Issue.record("not refused")
            return
        }
        #expect(refusal.code == 6017)
        #expect(refusal.detail.hasPrefix("quota: "))
        #expect(policies() == [Policy](repeating: Policy(), count: 3))
    }

    @Test("A node that comes back learns of a policy that was set meanwhile") mutating func absentNode() throws {
        _ = setPolicy(#"{"preset":"zim"}"#)
        cluster.kill(2)
        cluster.advance(.seconds(4))
        #expect(setPolicy(#"{"preset":"tencent"}"#) == .done)
        try cluster.restart(2)
        cluster.advance(.seconds(4))
        #expect(policies() == [Policy](repeating: Policy(.tencent), count: 3))
    }

    @Test("One of three nodes alone cannot set a policy") mutating func minority() {
        cluster.kill(1)
        cluster.kill(2)
        cluster.advance(.seconds(4))
        cluster.call(.setAppPolicy(Array(#"{"preset":"zim"}"#.utf8)), by: "admin", on: 0)
        cluster.advance(.seconds(6))
        guard case .refused(let refusal) = cluster.lastAnswer(on: 0) else {
            Issue.record("not refused")
            return
        }
        #expect(refusal.code == 50001)
        #expect(cluster.processes[0].node.owner.policies.policy(of: UserID(app: "default", id: "x")) == Policy())
    }

    @Test(
        "When pushes are allowed again, sessions receive what they missed",
        arguments: [(#""userStatus.enabled":false"#, #""userStatus.enabled":true"#), (#""plan":"basic""#, #""plan":"premium""#)])
    mutating func switchedOff(off: String, on: String) {
        cluster.login("ann", on: 0)
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        _ = setPolicy(#"{"settings":{\#(off)}}"#)
        let told = cluster.clients[bob].events.count
        cluster.setStatus("ann", "busy", on: 0)
        #expect(cluster.clients[bob].events.count == told)
        cluster.setStatus("bob", "here", on: 1)
        #expect(cluster.clients[bob].view["bob"]?["customStatus"] == .string("here"))  // One's own changes come all the same (T9, T13).
        _ = setPolicy(#"{"settings":{\#(on)}}"#)
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string("busy"))
    }

    @Test("Under a smaller quota the earliest subscriptions are inactive, and become active when there is room")
    mutating func smallerQuota() {
        let bob = cluster.login("bob", on: 1)
        for target in ["ann", "carl", "dora"] { cluster.subscribe("bob", to: [target], on: 1) }
        _ = setPolicy(#"{"settings":{"subscription.maxPerSubscriber":2}}"#)
        #expect(followed() == ["carl", "dora"])
        #expect(changes(bob) == ["- ann"])
        cluster.setStatus("ann", "unseen", on: 0)
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] != .string("unseen"))
        _ = setPolicy(#"{"settings":{"subscription.maxPerSubscriber":3}}"#)
        #expect(followed() == ["ann", "carl", "dora"])
        #expect(changes(bob) == ["- ann", "+ ann"])
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string("unseen"))
        _ = setPolicy(#"{"settings":{"subscription.maxPerSubscriber":1}}"#)
        #expect(followed() == ["dora"])
        cluster.call(.unsubscribeUserStatus([user("dora")], subscribeType: nil), by: "bob", on: 1)
        cluster.advance(.seconds(1))
        #expect(followed() == ["carl"])
        #expect(changes(bob).suffix(2) == ["- ann carl", "+ carl"])
        cluster.setStatus("carl", "seen", on: 2)
        #expect(cluster.clients[bob].view["carl"]?["customStatus"] == .string("seen"))
    }

    @Test("A call under a smaller quota evicts an active subscription, and the inactive ones stay")
    mutating func evictionUnderSmallerQuota() {
        cluster.login("bob", on: 1)
        for target in ["ann", "carl", "dora"] { cluster.subscribe("bob", to: [target], on: 1) }
        _ = setPolicy(#"{"settings":{"subscription.maxPerSubscriber":1}}"#)
        guard case .subscribed(let evicted, _, _, _, _, _, _) = cluster.subscribe("bob", to: ["eve"], on: 1) else {
            Issue.record("not subscribed")
            return
        }
        #expect(evicted == [user("dora")])
        #expect(followed() == ["eve"])
        _ = setPolicy(#"{"settings":{"subscription.maxPerSubscriber":9}}"#)
        #expect(followed() == ["ann", "carl", "eve"])
    }

    /// The targets of bob's active subscriptions.
    private func followed() -> [String] {
        cluster.processes[cluster.ownerIndex(of: "bob")].node.owner.kept(user("bob")).subscriptions.map { String($0.target.id) }
    }

    /// The changes of subscriptions of which a client was told.
    private func changes(_ client: Int) -> [String] {
        cluster.clients[client].events.filter { $0.name == "onSubscriptionChangedOnOtherDevices" }.map { event in
            let (begun, ended) = (names(event.data["subscribed"]), names(event.data["unsubscribed"]))
            return (begun.isEmpty ? [] : ["+"] + begun).joined(separator: " ") + (ended.isEmpty ? [] : ["-"] + ended).joined(separator: " ")
        }
    }

    private func names(_ list: JSONValue?) -> [String] { list?.elements.map(\.textValue) ?? [] }

    @Test("If none is evicted, targets beyond the quota are refused by name") mutating func reject() {
        _ = setPolicy(#"{"preset":"rongcloud","settings":{"subscription.maxPerSubscriber":2}}"#)
        cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        guard case .subscribed([], let refused, _, _, _, _, _) = cluster.subscribe("bob", to: ["ann", "carl", "dora"], on: 1) else {
            Issue.record("not subscribed")
            return
        }
        #expect(refused.map { String($0.id) } == ["dora"])
    }

    @Test("The list of a user who stays away for a day ends") mutating func awayForADay() {
        _ = setPolicy(#"{"preset":"tencent"}"#)  // T35
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        cluster.lose(bob)
        func countOfSubscriptions() -> Int {
            let users = cluster.processes[cluster.ownerIndex(of: "bob")].node.owner.users
            return users[users.index(of: UserID(app: "default", id: "bob"))!].subscriptions.liveCount
        }
        cluster.advance(.seconds(86_300), step: .seconds(100))
        #expect(countOfSubscriptions() == 1)
        cluster.advance(.seconds(300), step: .seconds(100))
        #expect(countOfSubscriptions() == 0)
    }

    @Test("The 21st call in 5 s is refused with the time to wait") mutating func rate() {
        for _ in 0..<20 { #expect(query() != .rateLimited(retryAfter: 5)) }
        #expect(query() == .rateLimited(retryAfter: 5))
        cluster.advance(.milliseconds(4_900))
        #expect(query() == .rateLimited(retryAfter: 1))
        cluster.advance(.milliseconds(100))
        guard case .userStatusList = query() else {
            Issue.record("five seconds after the first call one more is right")
            return
        }
    }

    private mutating func query() -> CallAnswer? {
        cluster.call(.getUserStatus([UserID(app: "default", id: "carl")]), by: "ann", on: 0)
    }

    @Test("A user may query its own status without a limit") mutating func ownStatus() {
        for _ in 0..<100 {
            let answer = cluster.call(.getUserStatus([UserID(app: "default", id: "ann")]), by: "ann", on: 0)
            guard case .userStatusList = answer ?? cluster.lastAnswer(on: 0) else {
                Issue.record("\(String(describing: answer))")
                return
            }
        }
    }
}
