import PresenceWire
import Testing

@testable import PresenceClient

/// The state of a client: its view, the events that readers still receive, and the batches of lists.
@Suite struct StateTests {
    private func status(_ user: String, _ version: String, _ custom: String = "") -> UserStatus {
        UserStatus(userID: user, statusType: .online, customStatus: custom, version: version)
    }

    @Test("The view never goes back") func view() {
        var view = StatusView(usersMax: 10)
        #expect(view.deliver([status("a", "02"), status("b", "01")]).count == 2)
        #expect(view.deliver([status("a", "01"), status("a", "02"), status("b", "0a")]) == [status("b", "0a")])
        view.store([status("a", "01")])
        #expect(view["a"]?.version == "02" && view["b"]?.version == "0a")
    }

    @Test("Listeners receive what an answer brought first") func listeners() {
        var view = StatusView(usersMax: 10)
        view.store([status("a", "08")])
        #expect(view.deliver([status("a", "07")]) == [status("a", "08")])
        #expect(view.deliver([status("a", "08")]) == [])
    }

    @Test("Listeners receive a version again that the stream shows in another way, and an answer does not bring the earlier one back")
    func policyOfTheView() {
        var view = StatusView(usersMax: 10)
        var hidden = status("a", "08")
        hidden.onlinePlatforms = []
        var shown = hidden
        shown.onlinePlatforms = ["ios"]
        #expect(view.deliver([shown]) == [shown])
        #expect(view.deliver([hidden]) == [hidden] && view["a"] == hidden)
        #expect(view.deliver([hidden]) == [])
        view.store([shown])
        #expect(view["a"] == hidden)
        view.store([status("a", "09")])
        #expect(view.deliver([shown]) == [] && view["a"]?.version == "09")
    }

    /// é as one character, and as two.
    @Test("IDs that Unicode calls equivalent are two users") func equivalentIDs() {
        let (one, other) = ("\u{E9}", "e\u{301}")
        #expect([one, other, one].batches(of: 10).map { $0.map { Array($0.utf8) } } == [[Array(one.utf8), Array(other.utf8)]])
        var view = StatusView(usersMax: 10)
        #expect(view.deliver([status(one, "09"), status(other, "01")]).count == 2)
        #expect(view[one]?.version == "09" && view[other]?.version == "01")
        var mailbox = Mailbox(usersMax: 10)
        mailbox.add(.userStatusChanged([status(one, "09"), status(other, "01")]))
        guard case .userStatusChanged(let told)? = mailbox.take() else {
            Issue.record("nothing is told")
            return
        }
        #expect(told.map(\.version) == ["09", "01"])
        var change = SubscriptionChange(subscribed: [one])
        change.merge(SubscriptionChange(unsubscribed: [other]))
        #expect(change.subscribed.count == 1)
    }

    @Test("A full view drops the users without a change for longest") func fullView() {
        var view = StatusView(usersMax: 16)
        view.store((0..<16).map { status("u\($0)", "01") })
        view.store([status("u0", "02"), status("new", "01")])
        #expect(view.count == 14 && view["u0"] != nil && view["new"] != nil && view["u1"] == nil)
    }

    @Test("A sleeping reader receives the newest status of each user") func sleepingReader() {
        var mailbox = Mailbox(usersMax: 10)
        mailbox.add(.userStatusChanged([status("a", "01"), status("b", "01")]))
        mailbox.add(.subscriptionSyncCompleted(.onlineStatus))
        mailbox.add(.userStatusChanged([status("a", "02")]))
        #expect(mailbox.take() == .userStatusChanged([status("a", "02"), status("b", "01")]))
        #expect(mailbox.take() == .subscriptionSyncCompleted(.onlineStatus))
        #expect(mailbox.take() == nil && mailbox.isEmpty)
    }

    @Test("A reader receives the newest session before its statuses") func sessionsBeforeStatuses() {
        var mailbox = Mailbox(usersMax: 10)
        mailbox.add(.userStatusChanged([status("a", "01")]))
        let session = Session(sessionID: "s", userID: "u", node: "n", heartbeatInterval: 1, heartbeatTimeout: 2, serverTime: 3)
        mailbox.add(.connected(session))
        mailbox.add(.userStatusChanged([status("a", "02"), status("b", "01")]))
        mailbox.add(.subscriptionSyncCompleted(.onlineStatus))
        #expect(mailbox.take() == .connected(session))
        #expect(mailbox.take() == .userStatusChanged([status("a", "02"), status("b", "01")]))
        #expect(mailbox.take() == .subscriptionSyncCompleted(.onlineStatus) && mailbox.isEmpty)
    }

    @Test("A mailbox is bounded") func mailbox() {
        var mailbox = Mailbox(usersMax: 3, eventsMax: 4)
        for number in 0..<1_000 {
            mailbox.add(.userStatusChanged([status("u\(number)", "01")]))
            mailbox.add(.connectionStateChanged(ConnectionChange(.reconnecting, .connectionLost("\(number)"))))
        }
        mailbox.add(.kickedOffline(reason: "last"))
        var taken: [PresenceEvent] = []
        while let event = mailbox.take() { taken.append(event) }
        #expect(taken.count == 4 && taken.last == .kickedOffline(reason: "last"))
        #expect(taken.first == .userStatusChanged(["u997", "u998", "u999"].map { status($0, "01") }))
    }

    @Test("Changes on other devices are merged") func mergedChanges() {
        var mailbox = Mailbox(usersMax: 3)
        mailbox.add(.subscriptionChangedOnOtherDevices(SubscriptionChange(subscribed: ["a", "b"])))
        mailbox.add(.subscriptionChangedOnOtherDevices(SubscriptionChange(subscribed: ["c"], unsubscribed: ["a"])))
        #expect(mailbox.take() == .subscriptionChangedOnOtherDevices(SubscriptionChange(subscribed: ["b", "c"], unsubscribed: ["a"])))
        #expect(mailbox.isEmpty)
    }

    @Test("Of the own sessions a slow reader receives the newest") func newestSessions() {
        var mailbox = Mailbox(usersMax: 3)
        let sessions = ["a", "b"].map { DeviceSession(sessionID: $0, platform: "ios", since: 7) }
        mailbox.add(.sessionsChanged(sessions))
        mailbox.add(.loggedOut)
        mailbox.add(.sessionsChanged([sessions[0]]))
        #expect(mailbox.take() == .loggedOut && mailbox.take() == .sessionsChanged([sessions[0]]))
        #expect(mailbox.isEmpty)
    }

    @Test("Lists are cut into batches with each user once") func batches() {
        #expect(["a", "b", "a", "c"].batches(of: 2) == [["a", "b"], ["c"]])
        #expect(["a", "b"].batches(of: 2) == [["a", "b"]])
        #expect([String]().batches(of: 2) == [[]])
    }

    @Test("The wait is drawn below a ceiling that doubles up to a maximum") func backoff() {
        let backoff = Backoff(initial: .milliseconds(100), max: .seconds(1))
        #expect((0...5).map { backoff.ceiling(attempt: $0) } == [100, 200, 400, 800, 1_000, 1_000].map { .milliseconds($0) })
        #expect(backoff.ceiling(attempt: .max) == .seconds(1))
        var random = SplitMix64(seed: 1)
        let delays = (0..<1_000).map { _ in backoff.delay(attempt: 2, using: &random) }
        #expect(delays.allSatisfy { $0 >= .zero && $0 <= .milliseconds(400) })
        #expect(delays.contains { $0 < .milliseconds(40) } && delays.contains { $0 > .milliseconds(360) })
    }

    @Test("Queries are percent-encoded") func queries() {
        #expect(percentEncoded("aZ09-_.~ &=ü") == "aZ09-_.~%20%26%3D%C3%BC")
        #expect(Duration.milliseconds(1_500).wholeSeconds == 2)
    }

    @Test("A feed ends for every waiting reader") func feedEnd() async {
        let broadcaster = Broadcaster(usersMax: 10)
        let feed: Feed<PresenceEvent> = broadcaster.feed { $0 }
        async let all = feed.reduce(into: [PresenceEvent]()) { $0.append($1) }
        broadcaster.send(.kickedOffline(reason: "x"))
        broadcaster.finish()
        #expect(await all == [.kickedOffline(reason: "x")])
        var late = (broadcaster.feed { $0 } as Feed<PresenceEvent>).makeAsyncIterator()
        #expect(await late.next() == nil)
    }

    /// Removes itself with the first event, while a second one waits for it.
    private final class Leaver: PresenceListener {
        let broadcaster: Broadcaster
        let calls: AsyncStream<String>.Continuation

        init(_ broadcaster: Broadcaster, _ calls: AsyncStream<String>.Continuation) {
            (self.broadcaster, self.calls) = (broadcaster, calls)
        }

        func onKickedOffline(reason: String) {
            calls.yield(reason)
            broadcaster.send(.kickedOffline(reason: "second"))
            broadcaster.remove(ObjectIdentifier(self))
        }

        deinit { calls.finish() }
    }

    @Test("A removed listener does not receive waiting events") func removedListener() async {
        let broadcaster = Broadcaster(usersMax: 10)
        let (calls, continuation) = AsyncStream<String>.makeStream()
        do {
            let listener = Leaver(broadcaster, continuation)
            broadcaster.add(listener, for: ObjectIdentifier(listener))
        }
        broadcaster.send(.kickedOffline(reason: "first"))
        #expect(await calls.reduce(into: [String]()) { $0.append($1) } == ["first"])
    }

    @Test("A cancelled reader stops waiting") func cancelledReader() async {
        let broadcaster = Broadcaster(usersMax: 10)
        let feed: Feed<PresenceEvent> = broadcaster.feed { $0 }
        let task = Task {
            var iterator = feed.makeAsyncIterator()
            return await iterator.next()
        }
        task.cancel()
        #expect(await task.value == nil)
    }
}
