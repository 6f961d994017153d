/// Finds a session's stream that is dead, although no connection reports that.
enum StreamWatch {
    /// Watches a stream for silence.
    ///
    /// A node gives a sign of life at each heartbeat: over HTTP/1.1 a comment, over HTTP/2 a PING that this code does not see. A stream
    /// that is silent for two heartbeats is lost. Over HTTP/2 a call on the same connection must be unanswered as well.
    static func run(on stream: Int, every interval: Duration, of client: isolated PresenceClient) async {
        while client.streams[stream] != nil {
            client.streams[stream]?.hasHeard = false
            do { try await client.configuration.clock.sleep(for: interval) } catch { return }
            guard let state = client.streams[stream], stream == client.machine.current else { return }
            if state.hasHeard { continue }
            if state.isMultiplexed, await isAnswered(on: state, of: client) { continue }
            guard !Task.isCancelled else { return }
            client.transport.renewConnections()
            client.lost(stream, .broken("silent for \(interval)"))
        }
    }

    /// Opens another stream if the node does not answer a call for half of the time that a call has, and the session's stream is silent
    /// since then. Returns nil where no session has its stream at the address of the call.
    ///
    /// The kernel of a frozen node accepts all that is sent. The other nodes miss it after seconds, and then its users go OFFLINE, unless
    /// they have a session elsewhere.
    static func doubtUnlessAnswered(at address: Int, by client: isolated PresenceClient) -> Task<Void, Never>? {
        guard let stream = client.machine.current, let state = client.streams[stream], state.address == address else { return nil }
        return client.after(client.configuration.callTimeout / 2) { client in
            guard let later = client.streams[stream], later.piecesCount == state.piecesCount, !later.isDoubted else { return }
            client.streams[stream]?.isDoubted = true
            client.transport.renewConnections()
            client.obey(client.machine.doubted(stream))
        }
    }

    /// The time in which a new stream must have its first event: 2 s where the node of the session's stream may be frozen.
    ///
    /// The session is missed after seconds, and a proxy may ask the frozen node again.
    static func openingTime(of client: isolated PresenceClient) -> Duration {
        let isDoubted = client.machine.current.flatMap { client.streams[$0]?.isDoubted } ?? false
        return isDoubted ? min(client.configuration.connectTimeout, .seconds(2)) : client.configuration.connectTimeout
    }

    private static func isAnswered(on stream: SessionStream, of client: isolated PresenceClient) async -> Bool {
        guard let user = client.session?.userID else { return true }
        do {
            let body = try JSON.encode(Wire.Users(userIDs: [user]))
            _ = try await client.sendOnce(
                "getUserStatus", body, address: stream.address, token: client.token ?? "", over: stream.pool)
            return true
        } catch let error as PresenceError {
            return error.status != 0
        } catch {
            return false
        }
    }
}
