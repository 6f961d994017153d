import Testing

@testable import PresenceClient

/// The end of a session, and changes of subscriptions, on streams whose content the test chooses.
@Suite(.timeLimit(.minutes(1))) struct SessionEndTests {
    /// A stream of a node.
    private final class NodeStream: Sendable {
        let response: TransportResponse
        private let continuation: AsyncThrowingStream<[UInt8], any Error>.Continuation

        init(_ node: String) {
            let (body, continuation) = AsyncThrowingStream<[UInt8], any Error>.makeStream()
            response = TransportResponse(status: 200, isMultiplexed: true, body: body)
            self.continuation = continuation
        }

        func connect(_ session: String) {
            say(
                "onConnected",
                #"{"sessionID":"\#(session)","userID":"ann","node":"\#(session)","heartbeatInterval":30,"heartbeatTimeout":400,"serverTime":1}"#
            )
        }

        func say(_ event: String, _ data: String) { continuation.yield(Array("event: \(event)\ndata: \(data)\n\n".utf8)) }

        func end() { continuation.finish() }
    }

    private let streams = [NodeStream("n0"), NodeStream("n1")]

    private func client() -> (PresenceClient, TransportDouble) {
        var configuration = ClientConfiguration(addresses: ["http://n0", "http://n1"]) { "token" }
        configuration.random = Least()
        let streams = streams
        let transport = TransportDouble { number, _ in number <= 2 ? streams[number - 1].response : nil }
        return (PresenceClient(configuration, transport: transport), transport)
    }

    private func logIn(_ client: PresenceClient) async throws {
        streams[0].connect("s0")
        try await client.login()
    }

    /// Connects the client's next stream and waits until the client has its session.
    private func connectNextStream(_ events: Feed<PresenceEvent>) async {
        streams[1].connect("s1")
        for await event in events {
            if case .connected(let session) = event, session.sessionID == "s1" { return }
        }
    }

    /// All events until the client is disconnected.
    private func told(_ events: Feed<PresenceEvent>) async -> [PresenceEvent] {
        var told: [PresenceEvent] = []
        for await event in events {
            told.append(event)
            if case .connectionStateChanged(let change) = event, change.state == .disconnected { break }
        }
        return told
    }

    @Test(
        "A logout on another device ends the session as logged out",
        arguments: [("onLogout", "{}"), ("onKickedOffline", #"{"reason":"logout"}"#)])
    func logoutElsewhere(event: String, data: String) async throws {
        let (client, transport) = client()
        try await logIn(client)
        let events = client.events
        #expect(client.loginSession?.userID == "ann")
        streams[0].say(event, data)
        streams[0].end()
        #expect(await told(events) == [.loggedOut, .connectionStateChanged(ConnectionChange(.disconnected, .loggedOut))])
        #expect(client.loginSession == nil && transport.requests.count == 1)
        await client.close()
    }

    @Test("A kick and a newer login elsewhere end the session for good", arguments: ["kicked", "policy", "replaced"])
    func kick(reason: String) async throws {
        let (client, transport) = client()
        try await logIn(client)
        let events = client.events
        streams[0].say("onKickedOffline", "{\"reason\":\"\(reason)\"}")
        streams[0].end()
        let told = await told(events)
        #expect(
            told == [.kickedOffline(reason: reason), .connectionStateChanged(ConnectionChange(.disconnected, .kickedOffline(reason)))])
        #expect(client.loginSession == nil && transport.requests.count == 1)
        await client.close()
    }

    @Test("A stream that the client's own next stream replaces does not end the session", arguments: [true, false])
    func replacedByItself(isBeforeOnConnected: Bool) async throws {
        let (client, transport) = client()
        try await logIn(client)
        let (events, statuses, arrivals) = (client.events, client.onUserStatusChanged, client.events)
        streams[0].say("onReconnectHint", #"{"reason":"draining","afterMilliseconds":0}"#)
        try await transport.sent(2)
        if !isBeforeOnConnected { await connectNextStream(arrivals) }
        streams[0].say("onKickedOffline", #"{"reason":"replaced"}"#)
        streams[0].say("onUserStatusChanged", #"{"userStatusList":[{"userID":"bob","statusType":"ONLINE","version":"01"}]}"#)
        #expect(await statuses.first { $0.userID == "bob" } != nil)
        if isBeforeOnConnected { await connectNextStream(arrivals) }
        #expect(await client.session?.sessionID == "s1")
        streams[0].end()
        streams[1].say("onSubscriptionSyncCompleted", #"{"subscribeType":1}"#)
        var told: [PresenceEvent] = []
        for await event in events {
            told.append(event)
            if case .subscriptionSyncCompleted = event { break }
        }
        #expect(
            !told.contains { event in
                switch event {
                case .kickedOffline, .connectionStateChanged: true
                default: false
                }
            }, "\(told)")
        #expect(await client.connectionState == .connected)
        await client.close()
    }

    @Test("The types that are followed are synced one by one") func syncedTypes() async throws {
        let (client, _) = client()
        try await logIn(client)
        let events = client.events
        for type in [1, 3, 9] { streams[0].say("onSubscriptionSyncCompleted", "{\"subscribeType\":\(type)}") }
        streams[0].say("onLogout", "{}")
        let types = await told(events).compactMap { if case .subscriptionSyncCompleted(let type) = $0 { type } else { nil } }
        #expect(types == [.onlineStatus, .friendOnlineStatus])
        await client.close()
    }

    @Test("A change on another device names type and end; without them the names alone are enough") func changesElsewhere() throws {
        func change(_ data: String) throws -> SubscriptionChange? {
            let event = EventStreamParser.Event(name: "onSubscriptionChangedOnOtherDevices", data: Array(data.utf8), id: nil)
            guard case .subscriptionChangedOnOtherDevices(let change)? = try ServerEvent(event) else { return nil }
            return change
        }
        let whole = try change(
            #"""
            {"subscribed":["bob","carl"],"unsubscribed":["dora"],
             "subscriptions":[{"userID":"bob","subscribeType":3,"expiresAt":9},{"userID":"carl","subscribeType":1},
                              {"userID":"x","subscribeType":99}],
             "unsubscriptions":[{"userID":"dora","subscribeType":3}]}
            """#)
        #expect(whole?.subscribed == ["bob", "carl"] && whole?.unsubscribed == ["dora"])
        #expect(whole?.subscriptions.map(\.subscribeType) == [.friendOnlineStatus, .onlineStatus])
        #expect(whole?.subscriptions.map(\.expiresAt) == [9, nil] && whole?.unsubscriptions.first?.subscribeType == .friendOnlineStatus)
        #expect(
            try change(#"{"subscribed":["bob"],"unsubscribed":["dora"]}"#)
                == SubscriptionChange(subscribed: ["bob"], unsubscribed: ["dora"]))
        #expect(try change("{}") == SubscriptionChange())
    }

    @Test("A subscription whose owner did not answer has no status, and the page says why") func unknownStatus() async throws {
        let transport = TransportDouble { number, _ in
            .answer(
                200,
                number == 1
                    ? #"""
                    {"subscriptions":[{"userID":"bob","subscribeType":1,"subscribedAt":5},
                      {"userID":"carl","subscribeType":1,"subscribedAt":5,"userStatus":{"userID":"carl","statusType":"ONLINE","version":"1"}}],
                     "errorUserList":[{"userID":"bob","code":50001,"reason":"unreachable"}],"total":3}
                    """#
                    : #"{"subscriptions":[{"userID":"dora","subscribeType":1,"subscribedAt":5}],"total":3}"#)
        }
        let client = PresenceClient(ClientConfiguration(addresses: ["http://n0"]) { "token" }, transport: transport)
        let page = try await client.getSubscribedUserStatus()
        #expect(page.subscriptions.map(\.userID) == ["bob", "carl", "dora"])
        #expect(page.subscriptions.map { $0.userStatus?.userID } == [nil, "carl", nil])
        #expect(page.errorUserList.map(\.code) == [.ownerUnreachable] && page.total == 3)
        await client.close()
    }
}
