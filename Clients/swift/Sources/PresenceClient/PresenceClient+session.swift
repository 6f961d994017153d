/// Carries out the effects of the machine with streams and timers.
extension PresenceClient {
    func obey(_ effects: [SessionMachine.Effect]) {
        for effect in effects {
            switch effect {
            case .open(let stream, let address): open(stream, at: address)
            case .cancel(let stream): drop(stream)
            case .wake(let delay):
                timer?.cancel()
                timer = after(delay) { client in client.obey(client.machine.woke()) }
            case .report(let change): broadcaster.send(.connectionStateChanged(change))
            case .end: end()
            }
        }
        if case .report(let change)? = effects.first(where: { if case .report = $0 { true } else { false } }), change.state == .disconnected
        {
            answerLogins(.failure(change.reason.loginError))
        }
    }

    private func open(_ stream: Int, at address: Int) {
        streams[stream] = SessionStream(address: address, heardAt: watch.stopwatch.elapsed)
        streams[stream]?.task = Task { await read(stream) }
        let limit = StreamWatch.openingTime(of: self)
        streams[stream]?.deadline = after(limit) { client in
            client.transport.renewConnections()
            client.lost(stream, .broken("no word within \(limit)"))
        }
    }

    private func drop(_ stream: Int) { streams.removeValue(forKey: stream)?.cancel() }

    private func end() {
        dropLoginStatus()
        endedLoginsCount += 1
        timer?.cancel()
        watch.task?.cancel()
        lastEventID = nil
        lastSessionID = nil
        token = nil
        friendship.loginEnded()
    }

    /// Forgets the custom status of the login, because it is set or must not be set any more.
    private func dropLoginStatus() {
        if let call = loginStatus?.call { end(call: call) }
        loginStatus = nil
    }

    private func answerLogins(_ result: Result<Session, PresenceError>) {
        let waits = loginWaits.sorted { $0.key < $1.key }
        loginWaits = [:]
        for (_, wait) in waits { wait.resume(returning: result) }
    }

    /// Runs `body` on this actor after a delay, unless it is cancelled before.
    func after(_ delay: Duration, _ body: @escaping (isolated PresenceClient) -> Void) -> Task<Void, Never> {
        let clock = configuration.clock
        return Task {
            do { try await clock.sleep(for: delay) } catch { return }
            if !Task.isCancelled { body(self) }
        }
    }

    // MARK: A stream

    private func read(_ stream: Int) async {
        do {
            let response = try await openResponse(stream)
            streams[stream]?.isMultiplexed = response.isMultiplexed
            var parser = EventStreamParser()
            var events: [EventStreamParser.Event] = []
            for try await chunk in response.body {
                guard streams[stream] != nil else { return }
                streams[stream]?.heard(at: watch.stopwatch.elapsed)
                try parser.receive(chunk, into: &events)
                for event in events { take(event, from: stream) }
                events.removeAll(keepingCapacity: true)
            }
            lost(stream, .broken("the node ended the stream"))
        } catch let error as PresenceError {
            lost(stream, error.status == 0 && error.code == .unreachable ? .broken(error.detail) : .refused(error))
        } catch {
            if error is Silence, streams[stream] != nil { transport.renewConnections() }
            lost(stream, .broken("\(error)"))
        }
    }

    private func openResponse(_ stream: Int) async throws -> TransportResponse {
        guard let address = streams[stream]?.address else { throw PresenceError.cancelled }
        // This code does not see the PINGs of HTTP/2: comments show that the node runs.
        var query =
            "alive=client&comments=true&heartbeat=\(StreamWatch.heartbeatSeconds)&platform=\(percentEncoded(configuration.platform))"
        if configuration.hearsUnseen { query += "&presence=none" }
        if !configuration.deviceID.isEmpty { query += "&deviceID=\(percentEncoded(configuration.deviceID))" }
        if configuration.isPushReachable { query += "&pushReachable=true" }
        if let loginStatus, order.holds(.customStatus, loginStatus.call) {
            query += "&customStatus=\(percentEncoded(loginStatus.text))"
        }
        let url = "\(configuration.addresses[address])/v1/events?\(query)"
        var request = TransportRequest(url: url, token: try await currentToken(after: nil), lastEventID: lastEventID)
        var response = try await transport.send(request, timeout: configuration.connectTimeout, over: nil)
        if response.status == 401 {
            request.token = try await currentToken(after: request.token)
            response = try await transport.send(request, timeout: configuration.connectTimeout, over: response.pool)
        }
        guard response.status == 200 else { throw try await refusal(response) }
        streams[stream]?.token = request.token
        return response
    }

    private func take(_ text: EventStreamParser.Event, from stream: Int) {
        let event: ServerEvent
        do {
            guard let known = try ServerEvent(text) else { return }
            event = known
        } catch {
            eventsNotUnderstood += 1
            return
        }
        if case .connected(let opened) = event { connected(stream, opened) }
        if case .userStatusChanged(let statuses) = event, stream == machine.current || stream == machine.retiring {
            let undelivered = view.deliver(statuses)
            if !undelivered.isEmpty { broadcaster.send(.userStatusChanged(undelivered)) }
        }
        guard stream == machine.current else { return }
        if let id = text.id { lastEventID = id }
        switch event {
        case .connected, .userStatusChanged: break
        case .subscriptionSyncCompleted(let type):
            obey(machine.synced(stream))
            broadcaster.send(.subscriptionSyncCompleted(type))
        case .subscriptionChangedOnOtherDevices(let change): broadcaster.send(.subscriptionChangedOnOtherDevices(change))
        case .subscriptionExpired(let users): broadcaster.send(.subscriptionExpired(users))
        case .sessionsChanged(let sessions): broadcaster.send(.sessionsChanged(sessions))
        case .relationship(let news): friendship.receive(news)
        case .kickedOffline(let reason):
            // The answer to the own logout ends the session.
            if machine.isLeaving { return }
            if reason == TokenRenewal.reason { return TokenRenewal.expired(on: stream, of: self) }
            let effects = reason == "replaced" ? machine.replaced(stream) : machine.end(.kickedOffline(reason))
            if effects.isEmpty { return }
            broadcaster.send(.kickedOffline(reason: reason))
            obey(effects)
        case .loggedOut:
            if machine.isLeaving { return }
            broadcaster.send(.loggedOut)
            obey(machine.end(.loggedOut))
        case .tokenExpiring: TokenRenewal.noticed(on: stream, of: self)
        case .reconnectHint(let delay): obey(machine.hinted(stream, after: delay, using: &random))
        }
    }

    private func connected(_ stream: Int, _ opened: Session) {
        guard stream == machine.pending else { return }
        dropLoginStatus()
        streams[stream]?.deadline?.cancel()
        streams[stream]?.session = opened
        lastSessionID = opened.sessionID
        callAddress = streams[stream]?.address ?? callAddress
        timer?.cancel()
        obey(machine.connected(stream, node: opened.node))
        broadcaster.send(.connected(opened))
        watch.task?.cancel()
        watch.task = Task { await StreamWatch.run(on: stream, heartbeat: .seconds(max(opened.heartbeatInterval, 1)), of: self) }
        LifeSigns.restart(on: stream, of: self)
        answerLogins(.success(opened))
    }

    func lost(_ stream: Int, _ failure: SessionMachine.Failure) {
        guard streams[stream] != nil else { return }
        drop(stream)
        obey(machine.lost(stream, failure, using: &random))
    }
}

extension ConnectionReason {
    /// The error that a login with this result throws.
    fileprivate var loginError: PresenceError {
        switch self {
        case .refused(let error): error
        case .connectionLost(let detail): .unreachable(detail)
        case .kickedOffline(let reason): .closed("kicked offline: \(reason)")
        case .loggedOut: .closed("logged out")
        case .login, .sessionOpened, .closed: .closed("the client is closed")
        }
    }
}
