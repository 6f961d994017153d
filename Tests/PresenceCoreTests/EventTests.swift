import PresenceWire
import Testing

@testable import PresenceCore

/// Published events are state: the record carries the one in force to everyone who may see the user (N10–N14).
@Suite struct EventTests {
    var cluster = TestCluster(nodes: 3)

    private static func id(_ user: String) -> UserID { UserID(app: "default", id: user) }

    @discardableResult
    private mutating func publish(
        _ value: Int64, by user: String, on node: Int, seconds: Int64 = 3_600, onlineOnly: Bool = true, synced: Bool = true,
        session: SessionID? = nil
    ) -> CallAnswer? {
        cluster.call(
            .publishEvent(value: value, ext: "", seconds: seconds, isForOnlineOnly: onlineOnly, isSynced: synced), by: user, on: node,
            originSession: OriginSession(session))
    }

    @Test("T9 T34 N14 Of 1,000 pairs of setSelfStatus and an unsynced publishEvent in one write, each own session receives every text")
    mutating func aCustomStatusIsNotLostInTheDeltaOfAnUnsyncedEvent() {
        cluster.call(.setAppPolicy(Array(#"{"settings":{"rate.changes":false}}"#.utf8)), by: "admin", on: 0)
        cluster.advance(.milliseconds(100))
        let ann = cluster.user(ownedBy: 1)
        let own = (0..<3).map { cluster.login(ann, on: $0, platform: "p\($0)") }
        var lost = 0
        for number in 0..<1_000 {
            let calls: [Call] = [
                .setSelfStatus(customStatus: "\(number)", seconds: nil),
                .publishEvent(value: 10_000 + Int64(number), ext: "", seconds: 60, isForOnlineOnly: true, isSynced: false),
            ]
            // Both are on their way before the owner receives either, so that their deltas coalesce.
            for (index, call) in calls.enumerated() {
                cluster.processes[number % 3].node.perform(
                    call, caller: Self.id(ann), gateway: 0, token: UInt64(1_000_000 + 2 * number + index), at: cluster.now)
            }
            cluster.settle()
            for client in own where cluster.clients[client].view[ann]?["customStatus"]?.textValue != "\(number)" { lost += 1 }
        }
        #expect(lost == 0)
        #expect(own.allSatisfy { cluster.clients[$0].view[ann] == cluster.clients[own[0]].view[ann] })
    }

    @Test("N11 N13 The publisher, each receiver and each later login are shown the same identity and times of an event")
    mutating func anEventKeepsItsIdentityAndItsTimes() throws {
        cluster.login("ann", on: 0)
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        guard case .owner(.record(let record)) = publish(10_001, by: "ann", on: 0, seconds: 600, onlineOnly: false) else {
            Issue.record("not published")
            return
        }
        let event = try #require(record.events.newest)
        #expect(event.publishedAt == cluster.now.wall && event.expiresAt == event.publishedAt + 600_000)
        cluster.advance(.seconds(5))
        cluster.setStatus("ann", "busy", on: 0)
        let late = cluster.login("bob", on: 2, platform: "web")
        for client in [bob, late] {
            let told = cluster.clients[client].view["ann"]?["event"]
            #expect(told?["eventID"]?.textValue == event.id.text && told?["publishedAt"] == .integer(event.publishedAt))
            #expect(told?["expiresAt"] == .integer(event.expiresAt) && told?["sendToOnlineUsersOnly"] == .bool(false))
        }
    }

    @Test("N13 A later event for online users leaves the one for later logins in force until that one ends")
    mutating func aLaterEventForOnlineUsersDoesNotReplaceTheOneForLogins() {
        cluster.login("ann", on: 0)
        cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        publish(10_001, by: "ann", on: 0, seconds: 600, onlineOnly: false)
        publish(10_002, by: "ann", on: 0, seconds: 60)
        publish(10_003, by: "ann", on: 0, seconds: 60)
        func seen() -> [JSONValue?] {
            let later = cluster.login("bob", on: 2, platform: "web")
            return ["event", "loginEvent"].map { cluster.clients[later].view["ann"]?[$0]?["value"] }
        }
        #expect(seen() == [.integer(10_003), .integer(10_001)])
        cluster.advance(.seconds(61), step: .seconds(1))
        #expect(seen() == [nil, .integer(10_001)])
        cluster.advance(.seconds(540), step: .seconds(1))
        #expect(seen() == [nil, nil])
        #expect(!cluster.record(of: "ann").hasEvents)
    }

    @Test("Only its publisher's own sessions see the session of an event")
    mutating func onlyOwnSessionsAreShownTheSessionOfAnEvent() throws {
        let phone = cluster.login("ann", on: 0)
        let desk = cluster.login("ann", on: 1, platform: "web")
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        publish(10_001, by: "ann", on: 0, session: cluster.clients[phone].session)
        for (client, session) in [
            (phone, Optional(cluster.clients[phone].session.description)), (desk, cluster.clients[phone].session.description), (bob, nil),
        ] {
            let event = try #require(cluster.clients[client].view["ann"]?["event"])
            #expect(event["sessionID"]?.textValue == session)
        }
    }

    @Test("Events outlive a restart of the whole cluster") mutating func eventsAreOnDisk() throws {
        cluster.login("ann", on: 0)
        publish(10_001, by: "ann", on: 0, onlineOnly: false)
        publish(10_002, by: "ann", on: 0)
        let events = cluster.record(of: "ann").events
        #expect(events.newest?.value == 10_002 && events.forLogins?.value == 10_001)
        for index in 0..<3 { cluster.kill(index) }
        for index in 0..<3 { try cluster.restart(index) }
        cluster.advance(.seconds(5))
        #expect(cluster.record(of: "ann").events == events)
    }

    @Test("Z14 T8 A second device moves no time of the status, and an invisible change is not pushed")
    mutating func aSecondDeviceMovesNoTimeOfTheStatus() {
        for (preset, isShown) in [("rollcall", true), ("tencent", false)] {
            cluster = TestCluster(nodes: 3)
            cluster.call(.setAppPolicy(Array("{\"preset\":\"\(preset)\"}".utf8)), by: "admin", on: 0)
            cluster.login("ann", on: 0)
            let bob = cluster.login("bob", on: 1)
            cluster.subscribe("bob", to: ["ann"], on: 1)
            let (before, told) = (cluster.record(of: "ann"), cluster.clients[bob].events.count)
            cluster.advance(.seconds(5))
            let desk = cluster.login("ann", on: 2, platform: "web")
            cluster.advance(.seconds(5))
            cluster.lose(desk)
            cluster.advance(.seconds(5))
            let after = cluster.record(of: "ann")
            #expect(after.version > before.version && after.lastOnlineStatusUpdateTime == before.lastOnlineStatusUpdateTime)
            #expect(cluster.clients[bob].events.count == told + (isShown ? 2 : 0))
            if !isShown { #expect(after.looksLike(before, showsPlatforms: false)) }
        }
    }

    @Test("T11 Preset tencent takes no custom status without a session, and a logout clears it")
    mutating func aCustomStatusNeedsASession() {
        var settings = CoreSettings()
        settings.policy = Policy(.tencent)
        cluster = TestCluster(nodes: 3, settings: settings)
        #expect(cluster.setStatus("ann", "busy", on: 0) == .refused(.noSession))
        let phone = cluster.login("ann", on: 0)
        let desk = cluster.login("ann", on: 1, platform: "web")
        let bob = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: ["ann"], on: 2)
        guard case .owner(.record) = cluster.setStatus("ann", "busy", on: 0) else {
            Issue.record("not set")
            return
        }
        cluster.close(phone, .loggedOut)
        #expect(cluster.record(of: "ann").customStatus == "busy", "another session is open")
        cluster.close(desk, .loggedOut)
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string(""))
        #expect(cluster.clients[bob].view["ann"]?["statusType"] == .string("UNLOGINED"))
        #expect(cluster.setStatus("ann", "later", on: 2) == .refused(.noSession))
    }

    @Test("R12 R14 The other devices hear the type and the expiry of each subscription that a call makes or ends")
    mutating func otherDevicesHearTypeAndExpiry() throws {
        let phone = cluster.login("ann", on: 0)
        let desk = cluster.login("ann", on: 1, platform: "web")
        cluster.call(
            .subscribeUserStatus([Self.id("bob")], seconds: 600, sync: false, subscribeType: 1), by: "ann", on: 0,
            originSession: .session(cluster.clients[phone].session))
        let made = try #require(cluster.clients[desk].events.last { $0.name == "onSubscriptionChangedOnOtherDevices" }?.data)
        let entry = try #require(made["subscriptions"]?.elements.first)
        #expect(entry["userID"]?.textValue == "bob" && entry["subscribeType"] == .integer(1))
        #expect(entry["expiresAt"] == .integer(cluster.now.wall + 600_000))
        cluster.call(.unsubscribeUserStatus(nil), by: "ann", on: 0, originSession: .session(cluster.clients[phone].session))
        let ended = try #require(cluster.clients[desk].events.last { $0.name == "onSubscriptionChangedOnOtherDevices" }?.data)
        #expect(ended["unsubscribed"]?.elements.map(\.textValue) == ["bob"] && ended["subscriptions"]?.elements == [])
        #expect(ended["unsubscriptions"]?.elements.first?["subscribeType"] == .integer(1))
    }

    /// Row 22 of the examination: `lastSeenTime` differed from node to node under one version.
    @Test("A version has the same content on every node") mutating func oneContent() {
        cluster.login("ann", on: 0)
        let watchers = (0..<3).map { cluster.login("bob\($0)", on: $0) }
        for node in 0..<3 { cluster.subscribe("bob\(node)", to: ["ann"], on: node) }
        cluster.advance(.seconds(30))
        let lost = cluster.login("ann", on: 1)
        cluster.advance(.seconds(1))
        cluster.lose(lost)
        cluster.advance(.seconds(60), step: .seconds(1))
        let owner = cluster.record(of: "ann")
        for (node, client) in watchers.enumerated() {
            guard case .userStatusList(let records, _, _) = cluster.call(.getUserStatus([Self.id("ann")]), by: "bob\(node)", on: node)
            else {
                Issue.record("no answer")
                return
            }
            #expect(records == [owner])
            #expect(cluster.clients[client].view["ann"]?["lastSeenTime"] == .integer(owner.lastSeenTime))
        }
    }
}
