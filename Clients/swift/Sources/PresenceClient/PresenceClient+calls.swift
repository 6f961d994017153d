/// The operations of a session (<doc:HTTPAPI#Operations>).
///
/// - A list longer than ``ClientConfiguration/limits`` becomes several calls, one after the other. If the first call fails, the operation
///   throws. If a later call fails, `errorUserList` names its users and those after them.
/// - Calls that set the same fact (the custom status, the event, a part of the visibility, whether a user is followed) reach the node in
///   the order in which they were made. A call that failed is retried only while no newer call sets the same fact. Otherwise the older
///   call fails with ``PresenceError/Code/superseded``; in a list only the users that the newer call names fail.
extension PresenceClient {
    /// Sets the own custom status; nil or an empty one clears it. An expiry counts in whole seconds.
    @discardableResult public func setSelfStatus(_ customStatus: String?, expiry: Duration? = nil) async throws(PresenceError) -> UserStatus
    {
        let body = Wire.SetStatus(customStatus: customStatus ?? "", expiry: expiry?.wholeSeconds)
        let status = try await inTurn(Claim(facts: [.customStatus])) { (number) async throws(PresenceError) in
            try await self.call("setSelfStatus", as: Wire.Status.self, number: number) { body }.userStatus
        }
        view.store([status])
        return status
    }

    /// Returns the status of users, which may include the own user.
    public func getUserStatus(_ userIDs: [String]) async throws(PresenceError) -> UserStatusAnswer {
        var answer = UserStatusAnswer()
        let failed = try await inBatches(userIDs, of: configuration.limits.queryUsersMax) { (batch) async throws(PresenceError) in
            let part = try await self.call("getUserStatus", Wire.Users(userIDs: batch), as: Wire.Statuses.self)
            answer.userStatusList += part.userStatusList
            answer.errorUserList += part.errorUserList ?? []
            if let asOf = part.asOf { answer.asOf = answer.asOf == 0 ? asOf : min(answer.asOf, asOf) }
        }
        answer.errorUserList += failed
        view.store(answer.userStatusList)
        return answer
    }

    /// Subscribes to users. Their changes arrive through ``onUserStatusChanged``.
    ///
    /// - Parameters:
    ///   - expiry: the validity; nil for unlimited. A new subscription replaces it. The node sends no notice at the end.
    ///   - sync: whether the answer includes the users' current statuses. Listeners receive them too, each once.
    @discardableResult public func subscribeUserStatus(
        _ userIDs: [String], expiry: Duration? = nil, sync: Bool = false, subscribeType: SubscribeType = .onlineStatus
    ) async throws(PresenceError) -> SubscribeAnswer {
        var answer = SubscribeAnswer()
        let originSession = session?.sessionID
        let failed = try await changeFollowing(userIDs, of: configuration.limits.subscribeUsersMax, starts: true) {
            (number, batch) async throws(PresenceError) in
            let part = try await self.call("subscribeUserStatus", as: Wire.Subscribed.self, number: number) { () throws(PresenceError) in
                Wire.Users(
                    userIDs: try self.held(batch, by: number), expiry: expiry?.wholeSeconds, sync: sync ? true : nil,
                    subscribeType: subscribeType.rawValue, sessionID: originSession)
            }
            answer.errorUserList += part.errorUserList ?? []
            answer.evicted += part.evicted ?? []
            if let statuses = part.userStatusList { answer.userStatusList = (answer.userStatusList ?? []) + statuses }
        }
        answer.errorUserList += failed
        // The stream leaves out the content of this answer. Listeners receive it all the same, from whichever arrives first.
        let undelivered = view.deliver(answer.userStatusList ?? [])
        if !undelivered.isEmpty { broadcaster.send(.userStatusChanged(undelivered)) }
        return answer
    }

    /// Unsubscribes from users. Returns those that failed.
    ///
    /// - Parameter subscribeType: only subscriptions of this type; nil for any.
    @discardableResult public func unsubscribeUserStatus(
        _ userIDs: [String], subscribeType: SubscribeType? = nil
    ) async throws(PresenceError) -> [UserError] {
        var errors: [UserError] = []
        let originSession = session?.sessionID
        let failed = try await changeFollowing(userIDs, of: configuration.limits.unsubscribeUsersMax, starts: false) {
            (number, batch) async throws(PresenceError) in
            let part = try await self.call("unsubscribeUserStatus", as: Wire.Errors.self, number: number) { () throws(PresenceError) in
                Wire.Users(userIDs: try self.held(batch, by: number), subscribeType: subscribeType?.rawValue, sessionID: originSession)
            }
            errors += part.errorUserList ?? []
        }
        return errors + failed
    }

    /// Unsubscribes from all users.
    public func unsubscribeAllUserStatus() async throws(PresenceError) {
        let body = Wire.Users(all: true, sessionID: session?.sessionID)
        _ = try await inTurn(Claim(facts: [.followingAnybody])) { (number) async throws(PresenceError) in
            try await self.call("unsubscribeUserStatus", as: Wire.Errors.self, number: number) { body }
        }
    }

    /// Returns the own subscriptions to `userIDs`, without the users that are not followed; all subscriptions if the list is empty.
    ///
    /// - Parameter subscribeType: only subscriptions of this type; nil for any.
    public func getSubscribedUserStatus(
        _ userIDs: [String] = [], subscribeType: SubscribeType? = nil
    ) async throws(PresenceError) -> SubscriptionPage {
        guard userIDs.isEmpty else { return try await getSubscriptions(to: userIDs, of: subscribeType) }
        var all = SubscriptionPage()
        var seen: Set<UserKey> = []
        var offset = 0
        repeat {
            let page = try await getSubscribedUserStatus(
                offset: offset, limit: configuration.limits.pageRowsMax, subscribeType: subscribeType)
            all.subscriptions += page.subscriptions.filter { seen.insert(UserKey($0.userID)).inserted }
            all.errorUserList += page.errorUserList
            all.total = page.total
            offset += page.subscriptions.count
            if page.subscriptions.isEmpty { break }
        } while offset < all.total
        return all
    }

    /// Returns one page of the own subscriptions.
    ///
    /// - Parameters:
    ///   - offset: 0 first, then the number of rows already returned.
    ///   - limit: the rows of the page.
    ///   - subscribeType: only subscriptions of this type; nil for any.
    public func getSubscribedUserStatus(
        offset: Int, limit: Int, subscribeType: SubscribeType? = nil
    ) async throws(PresenceError) -> SubscriptionPage {
        let body = Wire.Users(subscribeType: subscribeType?.rawValue, offset: offset, limit: limit)
        let page = try await call("getSubscribedUserStatus", body, as: SubscriptionPage.self)
        view.store(page.subscriptions.lazy.compactMap(\.userStatus))
        return page
    }

    private func getSubscriptions(to userIDs: [String], of type: SubscribeType?) async throws(PresenceError) -> SubscriptionPage {
        var all = SubscriptionPage()
        for batch in userIDs.batches(of: configuration.limits.queryUsersMax) {
            let body = Wire.Users(userIDs: batch, subscribeType: type?.rawValue)
            let page = try await call("getSubscribedUserStatus", body, as: SubscriptionPage.self)
            all.subscriptions += page.subscriptions
            all.errorUserList += page.errorUserList
            all.total += page.total
        }
        view.store(all.subscriptions.lazy.compactMap(\.userStatus))
        return all
    }

    /// Publishes a numeric status.
    ///
    /// - Parameters:
    ///   - value: 10000 and above.
    ///   - expiry: 60 s to 7 days; the node's default is 7 days.
    ///   - sendToOnlineUsersOnly: false to include users who come online later.
    ///   - syncEnabled: whether the user's own other devices receive it, too.
    ///   - idempotencyKey: a name for the call, 1 to 64 characters of visible ASCII. An app may repeat the call with it, also after a
    ///     start. A node answers it as it answered the first, for an hour. By default the client makes one, and repeats the call with it.
    @discardableResult public func publishEvent(
        _ value: Int64, ext: String? = nil, expiry: Duration? = nil, sendToOnlineUsersOnly: Bool? = nil, syncEnabled: Bool? = nil,
        idempotencyKey: String? = nil
    ) async throws(PresenceError) -> PublishAnswer {
        let body = Wire.Publish(
            value: value, ext: ext, expiry: expiry?.wholeSeconds, sendToOnlineUsersOnly: sendToOnlineUsersOnly, syncEnabled: syncEnabled,
            sessionID: session?.sessionID)
        let answer = try await inTurn(Claim(facts: [.event])) { (number) async throws(PresenceError) in
            try await self.call("publishEvent", as: Wire.Published.self, number: number, key: idempotencyKey) { body }
        }
        view.store([answer.userStatus])
        return PublishAnswer(eventID: answer.eventID.text, userStatus: answer.userStatus)
    }

    func inBatches(
        _ userIDs: [String], of countMax: Int, _ body: ([String]) async throws(PresenceError) -> Void
    ) async throws(PresenceError) -> [UserError] {
        let batches = userIDs.batches(of: countMax)
        for (index, batch) in batches.enumerated() {
            do { try await body(batch) } catch {
                guard index > 0, error.code != .cancelled else { throw error }
                return batches[index...].joined().map { UserError(userID: $0, code: error.code, reason: error.detail) }
            }
        }
        return []
    }

    // MARK: One call

    /// Makes a call that sets no fact.
    func call<Answer: Decodable>(_ operation: String, _ body: some Encodable, as: Answer.Type) async throws(PresenceError) -> Answer {
        try await call(operation, as: Answer.self) { body }
    }

    /// Makes a call, first at the session's address, and retries it as ``CallRetry`` says. A rejected token is renewed once.
    ///
    /// - Parameters:
    ///   - number: the call's number in ``order``; nil for a call that sets no fact.
    ///   - key: the app's name for the call; nil for one that the client makes.
    ///   - body: makes the body of each attempt. A retry leaves out what newer calls have set.
    func call<Answer: Decodable, Body: Encodable>(
        _ operation: String, as: Answer.Type, number: UInt64? = nil, key: String? = nil,
        _ body: () throws(PresenceError) -> Body
    ) async throws(PresenceError) -> Answer {
        var rejected: String?
        var attempt = 0
        var mayTakeEffect = false
        let key = key ?? RepeatedCalls.key(of: operation)
        let logins = endedLoginsCount
        while true {
            if isClosed { throw .closed("the client is closed") }
            let content = try body()
            let bytes = try JSON.body(content, of: operation)
            let token = try await currentToken(after: rejected)
            let address = callAddress
            do throws(PresenceError) {
                let answer = try await sendOnce(operation, bytes, address: address, token: token, key: key)
                LifeSigns.noteCall(content, by: self)
                do { return try JSON.decode(Answer.self, from: answer) } catch { throw .badAnswer("\(operation): \(error)") }
            } catch {
                if Task.isCancelled { throw .cancelled }
                if error.status == 401, rejected == nil {
                    rejected = token
                    continue
                }
                mayTakeEffect = mayTakeEffect || error.mayTakeEffect
                let failure = error.after(anAttemptThatMayTakeEffect: mayTakeEffect)
                guard let delay = retry.delay(after: error, attempt: attempt, using: &random) else { throw failure }
                attempt += 1
                if error.code != .calledTooOften, callAddress == address { callAddress = (address + 1) % configuration.addresses.count }
                try await waitToRetry(delay, call: number)
                // The next token may name another user.
                guard logins == endedLoginsCount else { throw failure }
            }
        }
    }

    /// Makes one attempt. Returns the body of a 200, or throws the error.
    ///
    /// - Parameter key: the name of the call; nil for none.
    func sendOnce(
        _ operation: String, _ body: [UInt8], address: Int, token: String, key: String? = nil
    ) async throws(PresenceError) -> [UInt8] {
        let url = "\(configuration.addresses[address])/v1/\(operation)"
        let request = TransportRequest(url: url, body: body, token: token, idempotencyKey: key)
        let limit = configuration.callTimeout
        let transport = transport
        let doubt = StreamWatch.doubtUnlessAnswered(at: address, by: self)
        defer { doubt?.cancel() }
        let answered: (response: TransportResponse, body: [UInt8])
        do {
            answered = try await within(limit, on: configuration.clock) {
                let response = try await transport.send(request, timeout: limit, over: nil)
                return (response, try await response.wholeBody(bytesMax: 16 << 20))
            }
        } catch is CancellationError {
            throw .cancelled
        } catch let error as PresenceError {
            throw error
        } catch {
            if error is Silence { transport.renewConnections() }
            throw .unreachable("\(operation): \(error)", mayTakeEffect: !RepeatedCalls.isRead(operation))
        }
        guard answered.response.status == 200 else {
            let response = answered.response
            let error = PresenceError(
                status: response.status, retryAfter: response.retryAfter, requestID: response.requestID, body: answered.body)
            throw error.after(anAttemptThatMayTakeEffect: error.code == .unreachable && !RepeatedCalls.isRead(operation))
        }
        return answered.body
    }

    /// The error in a node's answer to a request for a stream.
    func refusal(_ response: TransportResponse) async throws -> PresenceError {
        let body = try await within(configuration.callTimeout, on: configuration.clock) { try await response.wholeBody(bytesMax: 64 << 10) }
        return PresenceError(status: response.status, retryAfter: response.retryAfter, requestID: response.requestID, body: body)
    }

    // MARK: The token

    /// The app's token; a new one if nodes reject `rejected`. All callers that wait share one request for it.
    func currentToken(after rejected: String?) async throws(PresenceError) -> String {
        if let token, token != rejected { return token }
        let running: Task<Result<String, PresenceError>, Never>
        if let renewal {
            running = renewal
        } else {
            let provider = configuration.token
            running = Task {
                do { return .success(try await provider()) } catch {
                    return .failure(PresenceError(code: .tokenUnavailable, title: "no token", detail: "\(error)"))
                }
            }
            renewal = running
        }
        let result = await running.value
        if renewal == running { renewal = nil }
        if case .success(let fresh) = result { token = fresh }
        return try result.get()
    }
}

extension TransportResponse {
    /// Reads the whole body. Throws if it is longer than `bytesMax`.
    fileprivate func wholeBody(bytesMax: Int) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        for try await chunk in body {
            bytes += chunk
            guard bytes.count <= bytesMax else { throw PresenceError.badAnswer("longer than \(bytesMax) bytes", status: status) }
        }
        return bytes
    }
}

/// Runs `body` with a timeout.
private func within<Value: Sendable>(
    _ limit: Duration, on clock: any Clock<Duration>, _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await clock.sleep(for: limit)
            return nil
        }
        defer { group.cancelAll() }
        guard let first = try await group.next(), let value = first else { throw Silence(limit: limit) }
        return value
    }
}
