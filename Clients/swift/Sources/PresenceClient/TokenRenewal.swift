/// Renews the session of a client before its token ends.
enum TokenRenewal {
    /// The reason in `onKickedOffline` of a session whose token has ended.
    static let reason = "tokenExpired"
    /// The waits before a renewal. Tokens that were made together end together, so the first wait is random, too.
    private static let waits = Backoff(initial: .seconds(4), max: .seconds(8))
    /// The shortest wait before a renewal. Tokens of some seconds must not be renewed without a pause.
    private static let waitMin = Duration.milliseconds(500)

    /// A node says that the token of a stream ends soon.
    static func noticed(on stream: Int, of client: isolated PresenceClient) {
        client.streams[stream]?.noticesCount += 1
        guard let state = client.streams[stream], state.renewal == nil else { return }
        client.streams[stream]?.renewal = Task { await renew(stream, of: client) }
    }

    /// A node has ended the session of a stream, because its token has ended. The client opens another one with a new token.
    static func expired(on stream: Int, of client: isolated PresenceClient) {
        if client.token == client.streams[stream]?.token { client.token = nil }
        client.lost(stream, .broken("the token has expired"))
    }

    /// Repeats the renewal until a node has accepted a newer token, or the stream has ended.
    private static func renew(_ stream: Int, of client: isolated PresenceClient) async {
        var attempt = 0
        while let state = client.streams[stream], let session = state.session, state.noticesCount > 0 {
            let wait = waitMin + waits.delay(attempt: attempt, using: &client.random)
            do { try await client.configuration.clock.sleep(for: wait) } catch { return }
            guard client.streams[stream] != nil else { return }
            attempt += 1
            do throws(PresenceError) {
                let token = try await client.currentToken(after: state.token)
                // The provider may return the same token for a while.
                if token == state.token { continue }
                _ = try await client.call("renew", Wire.Renew(sessionID: session.sessionID), as: Wire.Empty.self)
                client.streams[stream]?.token = token
                client.streams[stream]?.noticesCount -= state.noticesCount
                attempt = 0
            } catch {
                // The session is unknown to the node, so its stream is ending.
                if error.isFinal, error.status != 401 { break }
            }
        }
        client.streams[stream]?.renewal = nil
    }
}
