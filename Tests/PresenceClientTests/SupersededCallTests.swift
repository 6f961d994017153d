import struct PresenceWire.SplitMix64
import Testing

@testable import PresenceClient

/// Several calls that set the same fact, against a node that answers as the test says, in a time that passes as the test says.
@Suite(.timeLimit(.minutes(1))) struct SupersededCallTests {
    private let clock = ManualClock()
    private static let superseded = PresenceError.Code(rawValue: -6)
    private static let done = #"{"userStatus":{"userID":"ann","statusType":"ONLINE","version":"01"},"eventID":"e","errorUserList":[]}"#
    private static let visibility = #"{"visibility":"everyone","userIDs":[],"invisible":false}"#

    private func client(_ script: @escaping TransportDouble.Script) -> (PresenceClient, TransportDouble) {
        var configuration = ClientConfiguration(addresses: ["http://n0", "http://n1"]) { "token" }
        configuration.clock = clock
        // No wait is zero.
        configuration.random = SplitMix64(seed: 7)
        configuration.callTimeout = .seconds(100)
        configuration.limits = CallLimits(queryUsersMax: 2, subscribeUsersMax: 2, unsubscribeUsersMax: 2)
        let transport = TransportDouble(script)
        return (PresenceClient(configuration, transport: transport), transport)
    }

    /// Waits until a call waits to be made again.
    private func pause() async -> Duration { await clock.sleeper { $0 < .seconds(100) } }

    /// The bodies that were sent.
    private func bodies(_ transport: TransportDouble) -> [String] {
        transport.requests.map { String(decoding: $0.body ?? [], as: UTF8.self) }
    }

    private func code<Answer>(of call: Task<Answer, any Error>) async -> PresenceError.Code? {
        do {
            _ = try await call.value
            return nil
        } catch { return (error as? PresenceError)?.code }
    }

    @Test("An older text that was refused is not set again after a newer one") func refusedText() async throws {
        let (client, transport) = client { number, _ in
            number == 2 ? .problem(429, 7008, retryAfter: 4) : .answer(200, Self.done)
        }
        try await client.setSelfStatus("1")
        let second = Task { try await client.setSelfStatus("2") as UserStatus }
        _ = await pause()
        try await client.setSelfStatus("3")
        #expect(await code(of: second) == Self.superseded)
        #expect(bodies(transport).map { $0.contains("1") ? 1 : $0.contains("2") ? 2 : 3 } == [1, 2, 3])
    }

    @Test("A text whose connection broke is not sent again after a newer one was sent") func brokenConnection() async throws {
        let (client, transport) = client { number, _ in number == 1 ? nil : .answer(200, Self.done) }
        let first = Task { try await client.setSelfStatus("1") as UserStatus }
        _ = await pause()
        try await client.setSelfStatus("2")
        #expect(await code(of: first) == Self.superseded)
        #expect(transport.requests.count == 2)
    }

    @Test("A newer text waits until the older one on the wire is answered") func orderOnTheWire() async throws {
        let (answer, node) = AsyncThrowingStream<[UInt8], any Error>.makeStream()
        let (client, transport) = client { number, request in
            if number == 1 { return TransportResponse(status: 200, isMultiplexed: true, body: answer) }
            return .answer(200, request.url.hasSuffix("setVisibility") ? Self.visibility : Self.done)
        }
        let first = Task { try await client.setSelfStatus("1") as UserStatus }
        try await transport.sent(1)
        let second = Task { try await client.setSelfStatus("2") as UserStatus }
        // A call of another fact passes both.
        try await client.setVisibility(.friends)
        #expect(transport.requests.map { $0.url.hasSuffix("setVisibility") } == [false, true])
        node.yield(Array(Self.done.utf8))
        node.finish()
        _ = try await first.value
        _ = try await second.value
        #expect(transport.requests.count == 3)
    }

    @Test("A call on the wire that fails is not made again when a newer one waits behind it") func failedOnTheWire() async throws {
        let (answer, node) = AsyncThrowingStream<[UInt8], any Error>.makeStream()
        let (client, transport) = client { number, _ in
            number == 1 ? TransportResponse(status: 200, isMultiplexed: true, body: answer) : .answer(200, Self.done)
        }
        let first = Task { try await client.setSelfStatus("1") as UserStatus }
        try await transport.sent(1)
        let second = Task { try await client.setSelfStatus("2") as UserStatus }
        try await until("both calls are in the order") { await client.order.count == 2 }
        node.finish(throwing: TransportDouble.Broken())
        #expect(await code(of: first) == Self.superseded)
        _ = try await second.value
        #expect(transport.requests.count == 2)
    }

    @Test("A newer call that was cancelled before it was sent supersedes nothing") func cancelledNewer() async throws {
        let (answer, node) = AsyncThrowingStream<[UInt8], any Error>.makeStream()
        let (client, transport) = client { number, _ in
            number == 1 ? TransportResponse(status: 200, isMultiplexed: true, body: answer) : .answer(200, Self.done)
        }
        let first = Task { try await client.setSelfStatus("1") as UserStatus }
        try await transport.sent(1)
        let second = Task { try await client.setSelfStatus("2") as UserStatus }
        try await until("both calls are in the order") { await client.order.count == 2 }
        second.cancel()
        #expect(await code(of: second) == .cancelled)
        node.finish(throwing: TransportDouble.Broken())
        clock.advance(by: await pause())
        _ = try await first.value
        #expect(bodies(transport).allSatisfy { $0.contains("1") } && transport.requests.count == 2)
    }

    @Test("An older event that was refused is not published after a newer one") func refusedEvent() async throws {
        let (client, transport) = client { number, _ in number == 1 ? .problem(503, 50001) : .answer(200, Self.done) }
        let first = Task { try await client.publishEvent(10_001) as PublishAnswer }
        _ = await pause()
        try await client.publishEvent(10_002)
        #expect(await code(of: first) == Self.superseded && transport.requests.count == 2)
    }

    @Test("Only the part of the visibility that a newer call sets is superseded") func visibilityParts() async throws {
        let (client, transport) = client { number, _ in
            number == 1 ? .problem(503, 50001) : number == 3 ? .problem(503, 50002, retryAfter: 9) : .answer(200, Self.visibility)
        }
        let mode = Task { try await client.setVisibility(.friends) as Visibility }
        let wait = await pause()
        try await client.setVisibility(isInvisible: true)
        clock.advance(by: wait)
        try await transport.sent(3)
        _ = await pause()
        try await client.setVisibility(.nobody)
        #expect(await code(of: mode) == Self.superseded)
        #expect(bodies(transport).map { $0.contains("visibility") } == [true, false, true, true])
    }

    @Test("The retry of a list leaves out the users that a newer call names, and reports them as superseded") func lists() async throws {
        let (client, transport) = client { number, _ in
            number == 1 ? .problem(429, 7008, retryAfter: 4) : .answer(200, #"{"errorUserList":[]}"#)
        }
        let older = Task { try await client.subscribeUserStatus(["bob", "carl"]) as SubscribeAnswer }
        let wait = await pause()
        #expect(try await client.unsubscribeUserStatus(["carl"]) == [])
        clock.advance(by: wait)
        let answer = try await older.value
        #expect(answer.errorUserList.map(\.userID) == ["carl"] && answer.errorUserList.map(\.code) == [Self.superseded])
        #expect(bodies(transport)[2].contains("bob") && !bodies(transport)[2].contains("carl"))
    }

    @Test("A list of which nothing is left throws at once") func wholeList() async throws {
        let (client, transport) = client { number, _ in
            number == 1 ? .problem(429, 7008, retryAfter: 4) : .answer(200, #"{"errorUserList":[]}"#)
        }
        let older = Task { try await client.unsubscribeUserStatus(["bob", "carl"]) as [UserError] }
        _ = await pause()
        try await client.subscribeUserStatus(["carl", "bob"])
        #expect(await code(of: older) == Self.superseded && transport.requests.count == 2)
    }

    @Test("A later part of a long list does not undo a newer call that was made meanwhile") func laterBatch() async throws {
        let (client, transport) = client { number, _ in
            number == 1 ? .problem(429, 7008, retryAfter: 4) : .answer(200, #"{"errorUserList":[]}"#)
        }
        let older = Task { try await client.subscribeUserStatus(["a", "b", "c", "d", "e"]) as SubscribeAnswer }
        let wait = await pause()
        #expect(try await client.unsubscribeUserStatus(["c", "d"]) == [])
        clock.advance(by: wait)
        let answer = try await older.value
        #expect(answer.errorUserList.map(\.userID) == ["c", "d"] && Set(answer.errorUserList.map(\.code)) == [Self.superseded])
        #expect(transport.requests.filter { $0.url.hasSuffix("/subscribeUserStatus") }.count == 3)
        #expect(bodies(transport).last?.contains(#"["e"]"#) == true)
    }

    @Test("Unsubscribing from all is superseded by a newer subscribe call, not by a newer unsubscribe call") func all() async throws {
        let (client, transport) = client { number, _ in
            number == 1 ? .problem(429, 7008, retryAfter: 4) : .answer(200, #"{"errorUserList":[]}"#)
        }
        let all = Task { try await client.unsubscribeAllUserStatus() }
        _ = await pause()
        try await client.unsubscribeUserStatus(["bob"])
        try await client.subscribeUserStatus(["bob"])
        #expect(await code(of: all) == Self.superseded && transport.requests.count == 3)
    }

    @Test("A newer call to unsubscribe from all supersedes every older subscribe call") func allIsNewer() async throws {
        let (client, transport) = client { number, _ in
            number == 1 ? .problem(429, 7008, retryAfter: 4) : .answer(200, #"{"errorUserList":[]}"#)
        }
        let older = Task { try await client.subscribeUserStatus(["bob", "carl"]) as SubscribeAnswer }
        _ = await pause()
        try await client.unsubscribeAllUserStatus()
        #expect(await code(of: older) == Self.superseded && transport.requests.count == 2)
    }

    @Test("A text set while the login is retried is not replaced by the text of the login") func textOfTheLogin() async throws {
        let (client, transport) = client { number, request in
            if request.body != nil { return .answer(200, Self.done) }
            return number == 1 ? nil : .connected(node: "n1")
        }
        let login = Task { try await client.login(customStatus: "old") as Session }
        let wait = await clock.sleeper { $0 < .seconds(1) }
        try await client.setSelfStatus("new")
        clock.advance(by: wait)
        _ = try await login.value
        #expect(transport.requests.filter { $0.body == nil }.map { $0.url.contains("customStatus") } == [true, false])
        await client.close()
    }

    @Test("A call that was refused before a logout is not retried after it, because the next token may name another user")
    func logout() async throws {
        let (client, transport) = client { number, request in
            if request.body == nil { return .connected(node: "n0") }
            return number == 2 ? .problem(429, 7008, retryAfter: 4) : .answer(200, Self.done)
        }
        try await client.login()
        let call = Task { try await client.setSelfStatus("1") as UserStatus }
        let wait = await clock.sleeper { $0 >= .seconds(4) && $0 < .seconds(5) }
        try await client.logout()
        clock.advance(by: wait)
        #expect(await code(of: call) == .calledTooOften)
        #expect(transport.requests.filter { $0.url.hasSuffix("setSelfStatus") }.count == 1)
        await client.close()
    }
}
