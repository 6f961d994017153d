/// Finds a session's stream that is dead, although no connection reports that.
enum StreamWatch {
    /// The interval of comments that the client asks for, in seconds. The session's node may have a shorter one.
    ///
    /// The cluster shows the users of a frozen node OFFLINE after 12.4 s at the earliest. Two silent intervals leave the time to open
    /// another stream before that.
    static let heartbeatSeconds = 4

    /// The watch of a client.
    struct Running {
        /// Dates what arrives on streams.
        let stopwatch: Stopwatch
        /// Watches the session's stream.
        var task: Task<Void, Never>?
    }

    /// Watches a stream for silence.
    ///
    /// A node sends a comment at each heartbeat, over HTTP/2 as well, because the client asks for comments. After two heartbeats of silence
    /// the client opens another stream, and keeps this one until then. After four it gives this one up.
    static func run(on stream: Int, heartbeat: Duration, of client: isolated PresenceClient) async {
        while let state = client.streams[stream] {
            let silence = client.watch.stopwatch.elapsed - state.heardAt
            let limit = heartbeat * (state.isDoubted ? 4 : 2)
            if silence < limit {
                do { try await client.configuration.clock.sleep(for: limit - silence) } catch { return }
                continue
            }
            guard stream == client.machine.current else { return }
            if state.isDoubted {
                client.transport.renewConnections()
                return client.lost(stream, .broken("silent for \(silence)"))
            }
            doubt(stream, of: client)
        }
    }

    /// Opens another stream if the node does not answer a call for half of the time that a call has, and the session's stream is silent
    /// since then. Returns nil where no session has its stream at the address of the call.
    static func doubtUnlessAnswered(at address: Int, by client: isolated PresenceClient) -> Task<Void, Never>? {
        guard let stream = client.machine.current, let state = client.streams[stream], state.address == address else { return nil }
        return client.after(client.configuration.callTimeout / 2) { client in
            guard let later = client.streams[stream], later.piecesCount == state.piecesCount, !later.isDoubted else { return }
            doubt(stream, of: client)
        }
    }

    /// Opens another stream, because the node of this one may be frozen.
    ///
    /// The kernel of a frozen node accepts all that is sent. The other nodes miss it after seconds, and then its users go OFFLINE, unless
    /// they have a session elsewhere.
    private static func doubt(_ stream: Int, of client: isolated PresenceClient) {
        client.streams[stream]?.isDoubted = true
        client.transport.renewConnections()
        client.obey(client.machine.doubted(stream))
    }

    /// The time in which a new stream must have its first event: 2 s where the node of the session's stream may be frozen.
    ///
    /// The session is missed after seconds, and a proxy may ask the frozen node again.
    static func openingTime(of client: isolated PresenceClient) -> Duration {
        let isDoubted = client.machine.current.flatMap { client.streams[$0]?.isDoubted } ?? false
        return isDoubted ? min(client.configuration.connectTimeout, .seconds(2)) : client.configuration.connectTimeout
    }
}

/// The time since its making, on a clock.
struct Stopwatch: Sendable {
    private let read: @Sendable () -> Duration

    init(_ clock: some Clock<Duration>) {
        let start = clock.now
        read = { start.duration(to: clock.now) }
    }

    var elapsed: Duration { read() }
}
