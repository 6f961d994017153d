/// Shows the node of a session that its client runs. The kernel or a proxy also answers for a client that is suspended.
enum LifeSigns {
    /// Starts the wait for the next sign of a stream.
    ///
    /// A sign is due after a third of the time in which the node must see one, so the node may miss two. Called again when a call has named
    /// the session, because that is a sign as well.
    static func restart(on stream: Int, of client: isolated PresenceClient) {
        guard let session = client.streams[stream]?.session else { return }
        let span = Duration.seconds(max(session.heartbeatTimeout, 3)) / 3
        client.streams[stream]?.signs?.cancel()
        client.streams[stream]?.signs = Task { await repeatSigns(of: session, on: stream, every: span, by: client) }
    }

    /// Restarts the wait if a call has named the session of an open stream.
    static func noteCall(_ body: some Encodable, by client: isolated PresenceClient) {
        guard let named = (body as? any SessionNaming)?.sessionID else { return }
        for (stream, state) in client.streams where state.session?.sessionID == named { restart(on: stream, of: client) }
    }

    private static func repeatSigns(
        of session: Session, on stream: Int, every span: Duration, by client: isolated PresenceClient
    ) async {
        var wait = span
        while true {
            do { try await client.configuration.clock.sleep(for: wait) } catch { return }
            guard client.streams[stream] != nil, !client.machine.isLeaving else { return }
            do throws(PresenceError) {
                _ = try await client.call("alive", Wire.Alive(sessionID: session.sessionID), as: Wire.Empty.self)
                wait = span
            } catch {
                // A node that was not reached sees the next sign sooner.
                wait = span / 4
            }
        }
    }
}

/// The body of a call that names the calling session.
protocol SessionNaming {
    var sessionID: String? { get }
}
