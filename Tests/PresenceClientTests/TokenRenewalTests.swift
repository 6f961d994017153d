import Testing

@testable import PresenceClient

/// Sessions whose tokens end, on streams and a clock that the test controls.
@Suite(.timeLimit(.minutes(1))) struct TokenRenewalTests {
    private let clock = ManualClock()
    private let streams = (0..<2).map { _ in AsyncThrowingStream<[UInt8], any Error>.makeStream() }
    private let asked = Counter()

    /// A client whose provider returns these tokens, one after the other, and then the last one.
    private func client(tokens: [String], renewals: TransportResponse = .answer(200, "{}")) -> (PresenceClient, TransportDouble) {
        let (streams, asked, opened) = (streams, asked, Counter())
        var configuration = ClientConfiguration(addresses: ["http://n0"]) { tokens[min(asked.next(), tokens.count) - 1] }
        configuration.clock = clock
        configuration.random = Least()
        let transport = TransportDouble { _, request in
            guard request.url.contains("/v1/events") else { return renewals }
            let number = opened.next()
            return number <= streams.count
                ? TransportResponse(status: 200, isMultiplexed: true, body: streams[number - 1].stream) : .problem(401, 6014)
        }
        return (PresenceClient(configuration, transport: transport), transport)
    }

    private func say(_ event: String, _ data: String, on stream: Int = 0) {
        streams[stream].continuation.yield(Array("event: \(event)\ndata: \(data)\n\n".utf8))
    }

    private func connect(_ stream: Int = 0) {
        let session =
            #"{"sessionID":"s\#(stream)","userID":"ann","node":"n0","heartbeatInterval":30,"heartbeatTimeout":400,"serverTime":1}"#
        say("onConnected", session, on: stream)
    }

    /// Lets the wait before a renewal pass.
    private func passWait() async {
        let wait = await clock.sleeper { $0 < .seconds(9) }
        #expect(wait >= .milliseconds(500) && wait < .milliseconds(501))
        clock.advance(by: wait)
    }

    @Test("A session is renewed with a new token before its token ends, and keeps its stream") func renewal() async throws {
        let (client, transport) = client(tokens: ["t1", "t2"])
        connect()
        try await client.login()
        say("onTokenExpiring", #"{"expiresAt":9}"#)
        await passWait()
        try await transport.sent(2)
        let renewal = transport.requests[1]
        #expect(renewal.url == "http://n0/v1/renew" && renewal.token == "t2")
        #expect(String(decoding: renewal.body ?? [], as: UTF8.self) == #"{"sessionID":"s0"}"#)
        #expect(await client.session?.sessionID == "s0" && asked.count == 2)
        await client.close()
    }

    @Test("A provider that returns the same token is asked again after a wait") func sameToken() async throws {
        let (client, transport) = client(tokens: ["t1", "t1", "t2"])
        connect()
        try await client.login()
        say("onTokenExpiring", #"{"expiresAt":9}"#)
        await passWait()
        await passWait()
        try await transport.sent(2)
        #expect(transport.requests[1].token == "t2" && asked.count == 3)
        await client.close()
    }

    @Test("A session that ended with its token is opened again with a new token") func expired() async throws {
        let (client, transport) = client(tokens: ["t1", "t2"])
        connect()
        try await client.login()
        let events = client.events
        say("onKickedOffline", #"{"reason":"tokenExpired"}"#)
        streams[0].continuation.finish()
        try await transport.sent(2)
        #expect(transport.requests[1].token == "t2" && transport.requests[1].url.contains("/v1/events"))
        connect(1)
        var changes: [ConnectionState] = []
        for await event in events {
            if case .kickedOffline = event { Issue.record("the client is told that it was kicked") }
            if case .connectionStateChanged(let change) = event { changes.append(change.state) }
            if case .connected(let session) = event, session.sessionID == "s1" { break }
        }
        #expect(changes == [.reconnecting, .connected])
        await client.close()
    }
}
