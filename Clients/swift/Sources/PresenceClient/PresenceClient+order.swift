/// Calls that set the same fact are sent one after the other, and only the newest is retried: see ``CallOrder``.
extension PresenceClient {
    /// Runs `body`, which makes the call, when no older call of the same fact is on its way.
    ///
    /// `body` gets the call's number.
    func inTurn<Answer>(
        _ claim: Claim, _ body: (UInt64) async throws(PresenceError) -> Answer
    ) async throws(PresenceError) -> Answer {
        let number = begin(claim)
        defer { end(call: number) }
        while !order.hasTurn(number) {
            await waitForTurn(number)
            if Task.isCancelled { throw .cancelled }
        }
        return try await body(number)
    }

    /// Adds a call to the order, and ends the waits of older calls that have nothing left to do.
    func begin(_ claim: Claim) -> UInt64 {
        let (number, superseded) = order.begin(claim)
        for call in superseded { retryWaits[call]?.cancel() }
        return number
    }

    func end(call number: UInt64) {
        order.end(number)
        checkTurns()
    }

    /// Subscribes or unsubscribes in calls of `countMax` users. Returns the users that failed.
    ///
    /// `body` makes one call. ``held(_:by:)`` tells it which users to name.
    func changeFollowing(
        _ userIDs: [String], of countMax: Int, starts: Bool, _ body: (UInt64, [String]) async throws(PresenceError) -> Void
    ) async throws(PresenceError) -> [UserError] {
        let facts = Set(userIDs.map { Fact.following(UserKey($0)) })
        return try await inTurn(Claim(facts: facts, startsFollowing: starts)) { (number) async throws(PresenceError) in
            var superseded: [String] = []
            let failed = try await self.inBatches(userIDs, of: countMax) { (batch) async throws(PresenceError) in
                do throws(PresenceError) { try await body(number, batch) } catch {
                    guard error.code == .superseded, self.order.isLive(number) else { throw error }
                }
                superseded += batch.filter { !self.order.holds(.following(UserKey($0)), number) }
                self.order.release(batch.map { .following(UserKey($0)) }, number)
                self.checkTurns()
            }
            if !facts.isEmpty, superseded.count == facts.count { throw .superseded }
            let error = PresenceError.superseded
            return superseded.map { UserError(userID: $0, code: error.code, reason: error.detail) } + failed
        }
    }

    /// The users of a batch that no newer call has named. Throws if there are none.
    func held(_ batch: [String], by number: UInt64) throws(PresenceError) -> [String] {
        let held = batch.filter { order.holds(.following(UserKey($0)), number) }
        guard !held.isEmpty || batch.isEmpty else { throw .superseded }
        return held
    }

    /// Waits before a call is retried. Throws at once if newer calls leave it no work.
    func waitToRetry(_ delay: Duration, call number: UInt64?) async throws(PresenceError) {
        let clock = configuration.clock
        guard let number else {
            do { try await clock.sleep(for: delay) } catch { throw .cancelled }
            return
        }
        let isLive = order.pause(number)
        checkTurns()
        guard isLive else { throw .superseded }
        let wait = Task { try await clock.sleep(for: delay) }
        retryWaits[number] = wait
        let result = await withTaskCancellationHandler {
            await wait.result
        } onCancel: {
            wait.cancel()
        }
        retryWaits[number] = nil
        order.resume(number)
        if Task.isCancelled { throw .cancelled }
        guard order.isLive(number) else { throw .superseded }
        if case .failure = result { throw .cancelled }
    }

    private func waitForTurn(_ number: UInt64) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { (wait: CheckedContinuation<Void, Never>) in
                if Task.isCancelled { return wait.resume() }
                turnWaits[number] = wait
            }
        } onCancel: {
            Task { await self.wake(number) }
        }
    }

    private func wake(_ number: UInt64) { turnWaits.removeValue(forKey: number)?.resume() }

    /// Wakes each call whose turn it is.
    private func checkTurns() { for number in turnWaits.keys.sorted() where order.hasTurn(number) { wake(number) } }
}
