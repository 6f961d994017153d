import Testing

@testable import PresenceClient

/// The rule of <doc:HTTPAPI#Raising-published-events>: which events of a status are raised.
@Suite struct RaisedEventsTests {
    var raised = RaisedEvents()
    private static let login = Session(
        sessionID: "s1", userID: "ann", node: "n", heartbeatInterval: 30, heartbeatTimeout: 400, serverTime: 1_000)

    init() { raised.connected(Self.login) }

    private func event(
        _ id: String, at publishedAt: Int64 = 2_000, onlineOnly: Bool = true, sync: Bool = true, by session: String? = nil
    ) -> UserStatus.Event {
        UserStatus.Event(
            eventID: id, value: 10_001, publishedAt: publishedAt, expiresAt: publishedAt + 60_000, sendToOnlineUsersOnly: onlineOnly,
            syncEnabled: sync, sessionID: session)
    }

    private func status(_ user: String, _ event: UserStatus.Event?, login: UserStatus.Event? = nil) -> UserStatus {
        var status = UserStatus(userID: user, statusType: .online, version: "01")
        (status.event, status.loginEvent) = (event, login)
        return status
    }

    @Test("An event is raised once, however often its status arrives") mutating func once() {
        let bob = status("bob", event("e1"))
        #expect(raised.events(of: bob).map(\.eventID) == ["e1"])
        #expect(raised.events(of: bob) == [])
        #expect(raised.events(of: status("bob", event("e2"))).map(\.eventID) == ["e2"])
        #expect(raised.events(of: bob) == [], "the status of an earlier event is told again")
        #expect(raised.events(of: status("carl", event("e1"))).map(\.eventID) == ["e1"], "another user's event")
        #expect(raised.events(of: status("bob", nil)) == [])
    }

    @Test("An online-only event from before the login is not raised; any other event is") mutating func beforeTheLogin() {
        #expect(raised.events(of: status("bob", event("e1", at: 999))) == [])
        #expect(raised.events(of: status("carl", event("e2", at: 999, onlineOnly: false))).map(\.eventID) == ["e2"])
        #expect(raised.events(of: status("dora", event("e3", at: 1_000))).map(\.eventID) == ["e3"])
    }

    @Test("The first session of the login counts, not the one that a reconnect opens") mutating func reconnect() {
        raised.connected(
            Session(sessionID: "s2", userID: "ann", node: "m", heartbeatInterval: 30, heartbeatTimeout: 400, serverTime: 9_000))
        #expect(raised.events(of: status("bob", event("e1", at: 5_000))).map(\.eventID) == ["e1"])
        #expect(raised.events(of: status("ann", event("e2", sync: false, by: "s1"))).map(\.eventID) == ["e2"], "the own earlier session")
    }

    @Test("An event of another session of the same user is raised only with syncEnabled") mutating func ownSessions() {
        #expect(raised.events(of: status("ann", event("e1", sync: false, by: "s9"))) == [])
        #expect(raised.events(of: status("ann", event("e2", sync: false))) == [], "of a back end")
        #expect(raised.events(of: status("ann", event("e3", by: "s9"))).map(\.eventID) == ["e3"])
        #expect(raised.events(of: status("ann", event("e4", sync: false, by: "s1"))).map(\.eventID) == ["e4"])
        #expect(raised.events(of: status("bob", event("e5", sync: false))).map(\.eventID) == ["e5"], "a follower's view")
    }

    @Test("The event that was kept for a login is raised before the newest event") mutating func loginEvent() {
        let bob = status("bob", event("e2"), login: event("e1", at: 500, onlineOnly: false))
        #expect(raised.events(of: bob).map(\.eventID) == ["e1", "e2"])
        #expect(raised.events(of: status("bob", event("e3", at: 3_000), login: bob.loginEvent)).map(\.eventID) == ["e3"])
    }

    @Test("Each login raises what is in force then") mutating func nextLogin() {
        let bob = status("bob", event("e2"), login: event("e1", at: 500, onlineOnly: false))
        #expect(raised.events(of: bob).count == 2)
        raised.disconnected()
        #expect(raised.events(of: status("bob", event("e2"))) == [], "nobody is logged in")
        raised.connected(
            Session(sessionID: "s3", userID: "ann", node: "n", heartbeatInterval: 30, heartbeatTimeout: 400, serverTime: 3_000))
        #expect(raised.events(of: bob).map(\.eventID) == ["e1"])
    }

    @Test("A requested event is raised again, and only then") mutating func askedFor() {
        let bob = status("bob", event("e1", at: 10))
        #expect(raised.events(of: bob) == [])
        #expect(raised.eventsInForce(of: bob).map(\.eventID) == ["e1"])
        #expect(raised.eventsInForce(of: bob).map(\.eventID) == ["e1"])
        #expect(raised.events(of: bob) == [])
    }

    @Test("The memory is bounded, and the newest events stay in it") mutating func memory() {
        raised = RaisedEvents(eventsMax: 4)
        raised.connected(Self.login)
        for number in 0..<1_000 { #expect(raised.events(of: status("bob", event("e\(number)"))).count == 1) }
        for number in 996..<1_000 { #expect(raised.events(of: status("bob", event("e\(number)"))) == []) }
        #expect(raised.events(of: status("bob", event("e0"))).count == 1)
    }

    @Test("Missing fields have the defaults of publishEvent; without an ID the value identifies an event")
    mutating func tolerance() throws {
        let old = #"{"userID":"bob","statusType":"ONLINE","version":"01","event":{"value":10001,"expiresAt":90000}}"#
        let bob = try JSON.decode(UserStatus.self, from: Array(old.utf8))
        #expect(bob.event == UserStatus.Event(value: 10_001, expiresAt: 90_000) && bob.event?.syncEnabled == true)
        #expect(raised.events(of: bob).count == 1 && raised.events(of: bob) == [])
        let whole = #"""
            {"userID":"ann","statusType":"ONLINE","version":"01",
             "event":{"eventID":"e2","value":10002,"ext":"x","publishedAt":7,"expiresAt":60007,"sendToOnlineUsersOnly":true,
                      "syncEnabled":false,"sessionID":"s9"},
             "loginEvent":{"eventID":"e1","value":10001,"ext":"","publishedAt":5,"expiresAt":60005,"sendToOnlineUsersOnly":false,
                           "syncEnabled":true}}
            """#
        let ann = try JSON.decode(UserStatus.self, from: Array(whole.utf8))
        #expect(
            ann.event
                == UserStatus.Event(
                    eventID: "e2", value: 10_002, ext: "x", publishedAt: 7, expiresAt: 60_007, syncEnabled: false, sessionID: "s9"))
        #expect(ann.loginEvent?.eventID == "e1" && ann.loginEvent?.sendToOnlineUsersOnly == false)
    }
}
