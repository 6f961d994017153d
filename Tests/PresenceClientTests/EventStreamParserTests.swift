import Testing

@testable import PresenceClient

@Suite struct EventStreamParserTests {
    private func events(_ text: String, cutEvery bytesCount: Int = .max) throws -> [EventStreamParser.Event] {
        var parser = EventStreamParser()
        var events: [EventStreamParser.Event] = []
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            try parser.receive(rest.prefix(bytesCount), into: &events)
            rest = rest.dropFirst(bytesCount)
        }
        return events
    }

    private func event(_ name: String, _ data: String, id: String? = nil) -> EventStreamParser.Event {
        EventStreamParser.Event(name: name, data: Array(data.utf8), id: id)
    }

    @Test("CR, LF and CRLF each end a line", arguments: ["\n", "\r\n", "\r"]) func lineEnds(end: String) throws {
        let text = "event: a\(end)id: 7\(end)data: x\(end)\(end)data: y\(end)\(end)"
        #expect(try events(text) == [event("a", "x", id: "7"), event("message", "y", id: "7")])
    }

    /// Also inside "ü" and inside CRLF.
    @Test("Bytes may be cut anywhere", arguments: 1...9) func cuts(bytesCount: Int) throws {
        let text = "\u{FEFF}event: müde\r\ndata: grün\r\ndata:\u{1F600}\r\n\r\n: heart\r\n\r\ndata: z\n\n"
        #expect(try events(text, cutEvery: bytesCount) == [event("müde", "grün\n\u{1F600}"), event("message", "z")])
    }

    @Test("Comments, unknown fields and events without data are ignored") func ignored() throws {
        #expect(try events(":\n\n: word\n\nfoo: bar\n\nevent: a\n\ndata: x\n\n") == [event("message", "x")])
    }

    @Test("Only one space after the colon is removed") func space() throws {
        #expect(try events("data:x\n\ndata:  x\n\ndata\n\n") == [event("message", "x"), event("message", " x"), event("message", "")])
    }

    @Test("An ID stays until the next one, and an ID with a NUL is ignored") func ids() throws {
        #expect(try events("id: 1\n\ndata: x\n\nid: 2\0\ndata: y\n\n").map(\.id) == ["1", "1"])
    }

    @Test("The retry field is a number") func retry() throws {
        var parser = EventStreamParser()
        var events: [EventStreamParser.Event] = []
        try parser.receive(Array("retry: 1a\n".utf8), into: &events)
        #expect(parser.retryMilliseconds == nil)
        try parser.receive(Array("retry: 1500\n\n".utf8), into: &events)
        #expect(parser.retryMilliseconds == 1_500 && events.isEmpty)
    }

    @Test("A line and an event have bounds") func bounds() throws {
        var parser = EventStreamParser(lineBytesMax: 8, eventBytesMax: 10)
        var events: [EventStreamParser.Event] = []
        #expect(throws: EventStreamParser.Failure.lineTooLong(bytesMax: 8)) {
            try parser.receive(Array("data: 123".utf8), into: &events)
        }
        parser = EventStreamParser(lineBytesMax: 20, eventBytesMax: 10)
        #expect(throws: EventStreamParser.Failure.eventTooLong(bytesMax: 10)) {
            try parser.receive(Array("data: 12345\ndata: 12345\n\n".utf8), into: &events)
        }
        #expect(events.isEmpty)
    }
}

@Suite struct EventDecodingTests {
    private func read(_ name: String, _ json: String) throws -> ServerEvent? {
        try ServerEvent(EventStreamParser.Event(name: name, data: Array(json.utf8), id: nil))
    }

    @Test("Events with unknown fields are read") func unknownFields() throws {
        #expect(
            try read("onReconnectHint", #"{"reason":"draining","afterMilliseconds":20,"x":1}"#) == .reconnectHint(after: .milliseconds(20)))
        #expect(try read("onKickedOffline", #"{"reason":"kicked"}"#) == .kickedOffline(reason: "kicked"))
        #expect(try read("onKickedOffline", #"{"reason":"logout"}"#) == .loggedOut)
        #expect(try read("onLogout", "{}") == .loggedOut)
        #expect(try read("onSubscriptionExpired", #"{"userIDs":["a","b"]}"#) == .subscriptionExpired(["a", "b"]))
        let sessions = #"{"sessions":[{"sessionID":"s","platform":"ios","deviceID":"","since":7,"x":1}]}"#
        #expect(try read("onSessionsChanged", sessions) == .sessionsChanged([DeviceSession(sessionID: "s", platform: "ios", since: 7)]))
        #expect(try read("onSomethingNew", "1") == nil)
        #expect(throws: (any Error).self) { try read("onKickedOffline", "{") }
    }

    @Test("Users of onSubscriptionChangedOnOtherDevices may be texts or objects") func usersOfOtherDevices() throws {
        let change = SubscriptionChange(subscribed: ["a", "b"], unsubscribed: ["c"])
        let texts = try read("onSubscriptionChangedOnOtherDevices", #"{"subscribed":["a","b"],"unsubscribed":["c"]}"#)
        let objects = try read(
            "onSubscriptionChangedOnOtherDevices", #"{"subscribed":[{"userID":"a"},{"userID":"b"}],"unsubscribed":[{"userID":"c"}]}"#)
        #expect(texts == .subscriptionChangedOnOtherDevices(change) && objects == texts)
    }

    @Test("A problem document becomes an error") func problem() {
        let body = #"{"type":"x","title":"called too often","status":429,"detail":"wait","code":7008,"retryAfter":3}"#
        let error = PresenceError(status: 429, retryAfter: nil, body: Array(body.utf8))
        #expect(
            error == PresenceError(code: .calledTooOften, status: 429, title: "called too often", detail: "wait", retryAfter: .seconds(3)))
        // The answer of a proxy.
        #expect(PresenceError(status: 503, retryAfter: 2, body: Array("<html>".utf8)).code == .overloaded)
        for status in [502, 504] {
            let lost = PresenceError(status: status, retryAfter: nil, body: [])
            #expect(lost.code == .unreachable && !lost.isFinal)
        }
    }
}
