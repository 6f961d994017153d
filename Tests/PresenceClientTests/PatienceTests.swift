import Testing

@testable import PresenceClient

/// The retries of a client, against a node and a clock that the test controls.
@Suite(.timeLimit(.minutes(1))) struct PatienceTests {
    private let clock = ManualClock()

    private func client(addresses: Int = 2, _ script: @escaping TransportDouble.Script) -> (PresenceClient, TransportDouble) {
        var configuration = ClientConfiguration(addresses: (0..<addresses).map { "http://n\($0)" }) { "token" }
        configuration.clock = clock
        configuration.random = Least()
        configuration.callTimeout = .seconds(100)
        configuration.connectTimeout = .seconds(200)
        let transport = TransportDouble(script)
        return (PresenceClient(configuration, transport: transport), transport)
    }

    private static let users = #"{"userStatusList":[],"errorUserList":[],"asOf":7}"#

    @Test("A call waits for the time that the node gives") func retryAfter() async throws {
        let (client, transport) = client { number, _ in
            number == 1 ? .problem(429, 7008, retryAfter: 4) : number == 2 ? .problem(503, 50001) : .answer(200, Self.users)
        }
        async let answer = client.getUserStatus(["bob"])
        let wait = await clock.sleeper { $0 < .seconds(100) }
        #expect(wait == .seconds(4))
        #expect(transport.requests.count == 1)
        clock.advance(by: wait)
        #expect(try await answer.asOf == 7)
        // The one that was called too often is asked again, the one that does not reach the owner is not.
        #expect(transport.requests.map(\.url) == ["n0", "n0", "n1"].map { "http://\($0)/v1/getUserStatus" })
    }

    @Test("Cancelling ends the wait") func cancelledWait() async throws {
        let (client, transport) = client { _, _ in .problem(503, 50002, retryAfter: 9) }
        let call = Task { try await client.getUserStatus(["bob"]) }
        _ = await clock.sleeper { $0 < .seconds(100) }
        call.cancel()
        let error = await #expect(throws: PresenceError.self) { try await call.value }
        #expect(error?.code == .cancelled && transport.requests.count == 1)
    }

    @Test("A call whose answer is lost is sent again with its key and its bytes, and another call has another key") func lostAnswers()
        async throws
    {
        let (client, transport) = client { _, _ in nil }
        for _ in 0..<2 {
            let error = await #expect(throws: PresenceError.self) { try await client.publishEvent(10_001, ext: "x") }
            #expect(error?.code == .unreachable && error?.mayTakeEffect == true)
        }
        let requests = transport.requests
        #expect(requests.count == 8)
        for call in [requests.prefix(4), requests.suffix(4)] {
            #expect(Set(call.map(\.idempotencyKey)).count == 1 && Set(call.map(\.body)).count == 1)
            #expect((1...64).contains(call.first?.idempotencyKey?.utf8.count ?? 0))
        }
        #expect(requests[0].idempotencyKey != requests[4].idempotencyKey)
        // A call that has the same effect when repeated needs no key, and a read has no effect.
        let change = await #expect(throws: PresenceError.self) { try await client.setSelfStatus("busy") }
        let read = await #expect(throws: PresenceError.self) { try await client.getUserStatus(["bob"]) }
        #expect(change?.mayTakeEffect == true && read?.mayTakeEffect == false)
        #expect(transport.requests.count == 16 && transport.requests[8...].allSatisfy { $0.idempotencyKey == nil })
    }

    @Test("A call that a proxy ends with 502 or 504 is repeated with its key, and may have taken effect", arguments: [502, 504])
    func lostBehindProxy(status: Int) async throws {
        let done = #"{"eventID":"e","userStatus":{"userID":"ann","statusType":"ONLINE","version":"01"}}"#
        let (client, transport) = client { number, _ in number == 1 ? .answer(status, "<html>") : .answer(200, done) }
        #expect(try await client.publishEvent(10_001).eventID == "e")
        let keys = transport.requests.map(\.idempotencyKey)
        #expect(keys.count == 2 && keys[0] != nil && keys[0] == keys[1])
        let (other, _) = self.client { _, _ in .answer(status, "<html>") }
        let change = await #expect(throws: PresenceError.self) { try await other.setSelfStatus("busy") }
        let read = await #expect(throws: PresenceError.self) { try await other.getUserStatus(["bob"]) }
        #expect(change?.code == .unreachable && change?.mayTakeEffect == true)
        #expect(read?.code == .unreachable && read?.mayTakeEffect == false)
    }

    @Test("After 50001 that may take effect an event is repeated with its key") func mayTakeEffect() async throws {
        let status = #"{"userID":"ann","statusType":"ONLINE","version":"01"}"#
        let refused = #"{"title":"t","detail":"d","status":503,"code":50001,"mayTakeEffect":true}"#
        let (client, transport) = client { number, _ in
            number == 1 ? .answer(503, refused) : .answer(200, #"{"eventID":"e","userStatus":\#(status)}"#)
        }
        #expect(try await client.publishEvent(10_001).eventID == "e")
        let keys = transport.requests.map(\.idempotencyKey)
        #expect(keys.count == 2 && keys[0] != nil && keys[0] == keys[1])
        let (other, _) = self.client { _, _ in .answer(503, refused) }
        let error = await #expect(throws: PresenceError.self) { try await other.publishEvent(10_001) }
        #expect(error?.code == .ownerUnreachable && error?.mayTakeEffect == true)
    }

    @Test("An event is sent, and repeated, with the key that the app has named") func ownKey() async throws {
        let status = #"{"userID":"ann","statusType":"ONLINE","version":"01"}"#
        let refused = #"{"title":"t","detail":"d","status":503,"code":50001,"mayTakeEffect":true}"#
        let (client, transport) = client { number, _ in
            number < 5 ? .answer(503, refused) : .answer(200, #"{"eventID":"e","userStatus":\#(status)}"#)
        }
        let error = await #expect(throws: PresenceError.self) { try await client.publishEvent(10_001, idempotencyKey: "own") }
        #expect(error?.mayTakeEffect == true)
        #expect(try await client.publishEvent(10_001, idempotencyKey: "own").eventID == "e")
        #expect(transport.requests.map(\.idempotencyKey) == Array(repeating: "own", count: 5))
    }

    @Test("publishEvent sends the fields of the API") func publish() async throws {
        let status = #"{"userID":"ann","statusType":"ONLINE","version":"01","event":{"value":10001,"ext":"x","expiresAt":9}}"#
        let (client, transport) = client { _, _ in .answer(200, #"{"eventID":12,"userStatus":\#(status)}"#) }
        let answer = try await client.publishEvent(10_001, ext: "x", expiry: .seconds(60), sendToOnlineUsersOnly: false, syncEnabled: true)
        #expect(answer.eventID == "12" && answer.userStatus.event == UserStatus.Event(value: 10_001, ext: "x", expiresAt: 9))
        let body = String(decoding: transport.requests[0].body ?? [], as: UTF8.self)
        for part in [#""value":10001"#, #""ext":"x""#, #""expiry":60"#, #""sendToOnlineUsersOnly":false"#, #""syncEnabled":true"#] {
            #expect(body.contains(part), "\(body)")
        }
    }

    @Test("The failure of a later batch is reported for each user") func failedBatch() async throws {
        let users = (0..<450).map { "u\($0)" }
        let (client, _) = client { number, _ in
            number == 1 ? .answer(200, #"{"errorUserList":[],"evicted":["old"]}"#) : .problem(400, 6017)
        }
        let answer = try await client.subscribeUserStatus(users)
        #expect(answer.evicted == ["old"] && answer.errorUserList.map(\.userID) == Array(users[200...]))
        #expect(Set(answer.errorUserList.map(\.code)) == [.badParameter])
    }

    @Test("A stream that is silent for two heartbeats makes the client open another one, and the app sees no moment without")
    func silentStream() async throws {
        let (client, transport) = client { number, _ in .connected(node: "n\(number)") }
        try await client.login()
        let changes = client.events
        _ = await clock.sleeper { $0 == .seconds(60) }
        clock.advance(by: .seconds(60))
        var told: [PresenceEvent] = []
        for await event in changes {
            told.append(event)
            if case .connected = event { break }
        }
        #expect(told.count == 1 && transport.renewalsCount == 1)
        #expect(transport.requests.map(\.lastEventID) == [nil, "5"] && transport.requests[1].url.hasPrefix("http://n1/"))
        #expect(transport.requests.allSatisfy { $0.url.contains("alive=client&comments=true&heartbeat=4&") })
        await client.close()
    }

    @Test("A stream that is silent for four heartbeats is given up, though no other one opens") func lostStream() async throws {
        let healings = Counter()
        let (client, _) = client { number, _ in number == 1 || healings.count > 0 ? .connected(node: "n\(number)") : nil }
        try await client.login()
        let changes = client.connectionChanges
        for _ in 0..<2 {
            _ = await clock.sleeper { $0 == .seconds(60) }
            clock.advance(by: .seconds(60))
        }
        var states: [ConnectionState] = []
        for await change in changes {
            states.append(change.state)
            if change.state == .connected { break }
            _ = healings.next()
            _ = await clock.sleeper { $0 < .seconds(1) }
            clock.advance(by: .seconds(1))
        }
        #expect(states == [.reconnecting, .connected])
        await client.close()
    }

    @Test("The client does not wait forever for a silent node") func silentNode() async throws {
        let (client, transport) = client { number, _ in number == 1 ? .stream(":\n\n") : .connected(node: "n1") }
        async let session = client.login()
        _ = await clock.sleeper { $0 == .seconds(200) }
        clock.advance(by: .seconds(200))
        #expect(try await session.node == "n1" && transport.requests.count == 2)
        // The connection may be half-open. No later call uses it.
        #expect(transport.renewalsCount == 1)
        await client.close()
    }

    @Test("A call without an answer makes the client open a stream elsewhere, before the call is given up") func frozenNode() async throws {
        let (client, transport) = client { number, request in
            if request.body == nil { return .connected(node: request.url.hasPrefix("http://n0/") ? "n0" : "n1") }
            return request.url.hasPrefix("http://n0/") ? .stream("") : .answer(200, Self.users)
        }
        try await client.login()
        let changes = client.events
        async let answer = client.getUserStatus(["bob"])
        _ = await clock.sleeper { $0 == .seconds(50) }
        _ = await clock.sleeper { $0 == .seconds(100) }
        clock.advance(by: .seconds(50))
        var told: [PresenceEvent] = []
        for await event in changes {
            told.append(event)
            if case .connected(let session) = event, session.node == "n1" { break }
        }
        // The app sees another session, and no moment without one.
        #expect(told.count == 1 && transport.renewalsCount == 1)
        _ = await clock.sleeper { $0 == .seconds(50) }
        clock.advance(by: .seconds(50))
        #expect(try await answer.asOf == 7)
        await client.close()
    }

    @Test("An unanswered call is repeated on another connection") func unansweredCall() async throws {
        let (client, transport) = client { number, _ in number == 1 ? .stream("") : .answer(200, Self.users) }
        async let answer = client.getUserStatus(["bob"])
        let limit = await clock.sleeper { $0 == .seconds(100) }
        clock.advance(by: limit)
        #expect(try await answer.asOf == 7)
        #expect(transport.renewalsCount == 1)
        #expect(transport.requests.map(\.url) == ["n0", "n1"].map { "http://\($0)/v1/getUserStatus" })
    }

    @Test("The client shows the node that it runs, unless another call has named its session meanwhile") func signsOfLife() async throws {
        let status = #"{"userID":"ann","statusType":"ONLINE","version":"01"}"#
        let (client, transport) = client { number, request in
            if request.body == nil { return .connected(node: "n0", interval: 300) }
            return .answer(200, request.url.hasSuffix("publishEvent") ? #"{"eventID":"e","userStatus":\#(status)}"# : "{}")
        }
        try await client.login()
        #expect(transport.requests[0].url.contains("alive=client"))
        let third = Duration.seconds(400) / 3
        _ = await clock.sleeper { $0 == third }
        clock.advance(by: third)
        try await transport.sent(2)
        #expect(transport.requests[1].url.hasSuffix("/v1/alive"))
        #expect(String(decoding: transport.requests[1].body ?? [], as: UTF8.self) == #"{"sessionID":"s"}"#)
        _ = await clock.sleeper { $0 == third }
        clock.advance(by: .seconds(60))
        // The event names the session, so the next sign is due a third later.
        _ = try await client.publishEvent(10_001)
        _ = await clock.sleeper { $0 == third }
        clock.advance(by: third - .seconds(1))
        _ = await clock.sleeper { $0 == .seconds(1) }
        #expect(transport.requests.count == 3)
        clock.advance(by: .seconds(1))
        try await transport.sent(4)
        #expect(transport.requests[3].url.hasSuffix("/v1/alive"))
        await client.close()
    }

    @Test("A logout names the session even while it is lost") func logoutWhileLost() async throws {
        let (client, transport) = client { number, request in
            number == 1 ? .connected(node: "n0") : request.body == nil ? nil : .answer(200, "{}")
        }
        try await client.login()
        let changes = client.connectionChanges
        for _ in 0..<2 {
            _ = await clock.sleeper { $0 == .seconds(60) }
            clock.advance(by: .seconds(60))
        }
        for await change in changes where change.state == .reconnecting { break }
        try await client.logout()
        let last = try #require(transport.requests.last)
        #expect(last.url.hasSuffix("/v1/logout") && String(decoding: last.body ?? [], as: UTF8.self) == #"{"sessionID":"s"}"#)
        #expect(await client.connectionState == .disconnected)
        await client.close()
    }

    @Test("A cancelled login ends") func cancelledLogin() async throws {
        let (client, _) = client { _, _ in .stream(":\n\n") }
        let login = Task { try await client.login() }
        _ = await clock.sleeper { $0 == .seconds(200) }
        let changes = client.connectionChanges
        login.cancel()
        let error = await #expect(throws: PresenceError.self) { try await login.value }
        #expect(error?.code == .cancelled)
        for await change in changes where change.state == .disconnected { break }
        #expect(await client.connectionState == .disconnected)
    }
}
