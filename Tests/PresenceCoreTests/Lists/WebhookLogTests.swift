import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// The row of a user's webhook events.
@Suite struct WebhookLogTests {
    private let user = UserID(app: "default", id: "ann")

    private func version(_ milliseconds: Milliseconds, _ node: UInt32 = 1) -> Version {
        Version(milliseconds: milliseconds, counter: 0, node: node)
    }

    private func log(_ milliseconds: [Milliseconds]) -> WebhookLog {
        var log = WebhookLog()
        for time in milliseconds { log.append(Array(#"{"time":\#(time)}"#.utf8), version: version(time)) }
        return log
    }

    private func row(_ text: String) -> Row {
        Row(user: user, kind: .webhookLog, key: "", version: version(1), value: Array(text.utf8))
    }

    @Test("A log reads what it has written") func text() throws {
        var log = log([1, 2, 3])
        log.markDelivered([version(1), version(2)])
        log.sessions = ["", "a b=ü"].map {
            WebhookLog.Session(id: SessionID(stamp: 7, node: 9), platform: "web", deviceID: $0)
        }
        #expect(try WebhookLog(row(String(decoding: log.text, as: UTF8.self))) == log)
    }

    @Test(
        "A row of another form is an error",
        arguments: [
            "", "x", "1", "00000000000000000001000g", "000000000000000000010000 web", "0 000000000000000000010000",
            "0 000000000000000000010000=", "0 000000000000000000010000=web=x",
            "0 000000000000000000010000:web", "0 +00000000000000000010000=web", "0\n",
            "0\n+000000000000000000020000 ", "0\n+000000000000000000020000{}x",
            "0\n+000000000000000000020000 {}\n+000000000000000000020000 {}", "000000000000000000010000\n+",
            "000000000000000000010000\n?000000000000000000020000 {}",
        ])
    func damaged(text: String) { #expect(throws: RowError.self) { try WebhookLog(row(text)) } }

    @Test("A copy without an event that is not removed lacks it, and one that has removed it does not") func joined() {
        let older = log([1, 2])
        var newer = log([1, 3])
        #expect(newer.joined(with: older).events.map(\.version) == [version(1), version(2), version(3)])
        #expect(newer.joined(with: log([1])) == newer)
        _ = newer.trim(at: 1 + WebhookLog.keptFor)
        #expect(newer.joined(with: log([1])) == newer)
    }

    /// A log with an event about a session at each time: "+" begins it, "-" ends it.
    private func log(of events: [(time: Milliseconds, node: UInt32, change: String)], open: [UInt64]) -> WebhookLog {
        var log = WebhookLog()
        for (time, node, change) in events {
            let action = change.hasPrefix("+") ? "Login" : "Disconnect"
            let session = SessionID(stamp: UInt64(change.dropFirst())!, node: 9)
            let json = #"{"action":"\#(action)","sessionID":"\#(session)","platform":"web","deviceID":"d"}"#
            log.append(Array(json.utf8), version: version(time, node))
        }
        log.sessions = open.map { WebhookLog.Session(id: SessionID(stamp: $0, node: 9), platform: "web", deviceID: "d") }
        return log
    }

    @Test("A login that only the copy of a dead owner has is announced in the joined log, so that it gets an end") func joinedLogin() {
        let newer = log(of: [(4, 2, "+7")], open: [7])
        let joined = newer.joined(with: log(of: [(3, 1, "+5")], open: [5]))
        #expect(joined.sessions.map(\.id.stamp) == [7, 5] && joined.events.count == 2)
        #expect(joined.sessions.last == WebhookLog.Session(id: SessionID(stamp: 5, node: 9), platform: "web", deviceID: "d"))
        // One that has begun and ended there needs no other end.
        let both = newer.joined(with: log(of: [(2, 1, "+5"), (3, 1, "-5")], open: []))
        #expect(both.sessions.map(\.id.stamp) == [7] && both.events.count == 3)
    }

    @Test("An end that both owners have written is told once, and one that only the dead owner has written ends the session")
    func joinedEnd() {
        let older = log(of: [(3, 1, "-5")], open: [])
        let ended = log(of: [(4, 2, "-5")], open: [])
        #expect(ended.joined(with: older).events.map(\.version) == [version(4, 2)])
        // The base has told the end, which was delivered and removed.
        var told = log(of: [(4, 2, "-5"), (5, 2, "+7")], open: [7])
        let forgotten = told.forget(upTo: version(4, 2))
        #expect(forgotten)
        #expect(told.joined(with: older).events.map(\.version) == [version(5, 2)])
        // It cannot have told the end of a session that it never knew.
        let stranger = log(of: [(4, 2, "+7")], open: [7]).joined(with: older)
        #expect(stranger.sessions.map(\.id.stamp) == [7] && stranger.events.map(\.version) == [version(3, 1), version(4, 2)])
        let open = log(of: [(4, 2, "+7")], open: [5, 7]).joined(with: older)
        #expect(open.sessions.map(\.id.stamp) == [7] && open.events.map(\.version) == [version(3, 1), version(4, 2)])
        let again = log(of: [(4, 2, "+5")], open: [5]).joined(with: log(of: [(3, 1, "+5")], open: [5]))
        #expect(again.events.map(\.version) == [version(4, 2)], "a login that both owners have written")
        let over = log(of: [(4, 2, "+5"), (6, 2, "-5")], open: []).joined(with: log(of: [(3, 1, "+5")], open: [5]))
        #expect(over.sessions == [] && over.events.map(\.version) == [version(4, 2), version(6, 2)], "and one that has its end")
    }

    @Test("What either copy has removed does not come back, whichever of them has the newer row", arguments: [1, 2, 3])
    func removedInOneCopy(upTo last: Milliseconds) {
        let full = log([1, 2, 3])
        var less = full
        let forgotten = less.forget(upTo: version(last))
        #expect(forgotten)
        #expect(full.joined(with: less) == less && less.joined(with: full) == less)
        // The other copy knows of another node's event.
        var more = full
        more.append(Array("{}".utf8), version: version(9, 2))
        for joined in [more.joined(with: less), less.joined(with: more)] {
            #expect(joined.events.map(\.version) == less.events.map(\.version) + [version(9, 2)] && joined.removed == less.removed)
        }
    }

    @Test("A stale copy with a fresh row does not open a session again that has ended") func staleCopy() {
        var owner = log(of: [(1, 1, "+5"), (3, 2, "-5"), (4, 2, "+7"), (5, 2, "-7"), (6, 2, "+8")], open: [8])
        owner.markDelivered(owner.events.map(\.version))
        _ = owner.trim(at: 7)
        var stale = log(of: [(1, 1, "+5")], open: [5])
        stale.markDelivered([version(1, 1)])
        #expect(stale.joined(with: owner).sessions == owner.sessions && owner.joined(with: stale).sessions == owner.sessions)
    }

    @Test("An end does not close a later login of its session") func laterLogin() {
        let newer = log(of: [(4, 2, "+5")], open: [5])
        var older = log(of: [(1, 1, "+5"), (3, 1, "-5")], open: [])
        older.markDelivered([version(1, 1)])
        let joined = newer.joined(with: older)
        #expect(joined.sessions.map(\.id.stamp) == [5])
        #expect(joined.events.map(\.version) == [version(1, 1), version(3, 1), version(4, 2)])
    }

    /// A log that grows from a common one, and all that it had delivered.
    private struct Copy {
        var log = WebhookLog()
        var delivered: [Version: [UInt8]] = [:]
        private var sessionsCount: UInt64 = 0

        /// Adds up to four logins and ends of sessions, of which each begins once. Some are delivered, and some are removed.
        mutating func grow(by node: UInt32, _ random: inout SplitMix64) {
            for _ in 0..<random.number(in: 0...4) {
                let time = log.newest.milliseconds + Milliseconds(random.number(in: 1...3))
                let ends = !log.sessions.isEmpty && random.number(in: 0...1) == 0
                if !ends { sessionsCount += 1 }
                let session =
                    ends
                    ? log.sessions.remove(at: random.number(in: 0...log.sessions.count - 1))
                    : WebhookLog.Session(id: SessionID(stamp: UInt64(node) << 8 + sessionsCount, node: 9), platform: "web", deviceID: "")
                let json = #"{"action":"\#(ends ? "Logout" : "Login")","sessionID":"\#(session.id)","platform":"web","deviceID":""}"#
                log.append(Array(json.utf8), version: Version(milliseconds: time, counter: 0, node: node))
                if !ends { log.sessions.append(session) }
                if random.number(in: 0...1) == 0 {
                    for event in log.events { delivered[event.version] = event.json }
                    log.markDelivered(log.events.map(\.version))
                }
                _ = log.trim(at: time)
            }
        }
    }

    @Test(
        "Two copies join to one log, in either order, and to join it with one of them again changes nothing; each login has its end",
        arguments: 0..<400)
    func joinsOnce(seed: Int) {
        var random = SplitMix64(seed: UInt64(seed))
        var first = Copy()
        first.grow(by: 1, &random)
        var second = first
        let common = first.log
        first.grow(by: 2, &random)
        second.grow(by: 3, &random)
        // The events of a deleted user leave one copy.
        let forgotten = random.number(in: 0...3) == 0 ? first.log.events.first : nil
        if let forgotten { _ = first.log.forget(upTo: forgotten.version) }
        let joined = first.log.joined(with: second.log)
        if first.log.newest != second.log.newest { #expect(second.log.joined(with: first.log) == joined) }
        #expect(joined.joined(with: first.log) == joined && joined.joined(with: second.log) == joined)
        for again in [first.log.joined(with: joined), second.log.joined(with: joined)] {
            #expect(again.events == joined.events && again.sessions == joined.sessions && again.removed == joined.removed)
        }
        if let forgotten { return #expect(!joined.events.contains { $0.version == forgotten.version }) }
        var told = first.delivered.merging(second.delivered) { old, _ in old }
        for event in joined.events { told[event.version] = event.json }
        var ends: [String: (logins: Int, ends: Int)] = [:]
        for event in told.values.compactMap({ try? JSONReader.read($0) }) {
            let (session, isLogin) = (event["sessionID"]?.textValue ?? "", event["action"]?.textValue == "Login")
            ends[session, default: (0, 0)].logins += isLogin ? 1 : 0
            ends[session, default: (0, 0)].ends += isLogin ? 0 : 1
        }
        // A log that has removed events may have told the end of a session that the other has begun and forgotten. Nobody can know.
        let begun = (first.log.events + second.log.events).compactMap { try? JSONReader.read($0.json) }
            .filter { $0["action"]?.textValue == "Login" }.map { $0["sessionID"]?.textValue ?? "" }
        let known = Set(common.sessions.map(\.id.description) + begun)
        for (session, count) in ends where known.contains(session) {
            let isOpen = joined.sessions.contains { $0.id.description == session }
            #expect(count.logins == 1 && (isOpen || count.ends >= 1), "\(session): \(count), open: \(isOpen)")
        }
    }

    @Test("The joined log knows what either copy has delivered") func delivered() {
        var older = log([1, 2])
        older.markDelivered([version(1), version(2)])
        let joined = log([1, 3]).joined(with: older)
        #expect(joined.events.map(\.isDelivered) == [true, true, false])
    }

    @Test("Old events leave, and the newest delivered ones stay for a replay") func trim() {
        var log = log((1...20).map { Milliseconds($0) })
        log.markDelivered((1...20).map { version($0) })
        let full = log.trim(at: 21)
        #expect(full == (0, 0) && log.events.map(\.version) == [version(19), version(20)] && log.removed == [version(18)])
        let expired = log.trim(at: 20 + WebhookLog.keptFor)
        #expect(expired == (0, 0) && log.events.isEmpty && log.removed == [version(20)])
    }

    @Test("The bytes of waiting events are counted without reading them") func waitingBytes() {
        var log = log([1, 2, 3])
        #expect(WebhookLog.waitingBytes(in: nil) == 0 && WebhookLog.waitingBytes(in: WebhookLog().text) == 0)
        let all = WebhookLog.waitingBytes(in: log.text)
        log.markDelivered([version(1), version(3)])
        #expect(all > 0 && WebhookLog.waitingBytes(in: log.text) == all / 3)
    }

    @Test("A log that may keep one waiting event keeps the newest") func newest() {
        var log = log([1, 2, 3])
        #expect(log.trim(at: 4, waitingMax: 1) == (0, 2) && log.waiting.map(\.version) == [version(3)])
    }

    @Test("A late event of another writer is neither marked nor taken for a removed one") func late() {
        var newer = log((10...30).map { Milliseconds($0) })
        newer.markDelivered((10...30).map { version($0) })
        _ = newer.trim(at: 31)
        var older = WebhookLog()
        older.append(Array("{}".utf8), version: version(5, 2))
        var joined = newer.joined(with: older)
        #expect(joined.waiting.map(\.version) == [version(5, 2)])
        #expect(joined.trim(at: 32) == (0, 0) && joined.hasWaiting)
        joined.markDelivered([version(30)])
        #expect(joined.hasWaiting)
    }

    @Test("The bytes of a log are bounded") func bytes() {
        var log = WebhookLog()
        for time in 1...30 { log.append(Array(repeating: UInt8(ascii: "x"), count: 4_000), version: version(Milliseconds(time))) }
        #expect(log.trim(at: 31).full == 19)
        #expect(log.text.count < WebhookLog.eventsBytesMax + 2_000)
    }

    @Test("The row has room for the most sessions with the longest names, and for all events") func room() {
        var log = WebhookLog()
        for time in 1...WebhookLog.waitingMax + WebhookLog.deliveredMax {
            log.append(Array(repeating: UInt8(ascii: "x"), count: 441), version: version(Milliseconds(time)))
        }
        let (platform, device) = (
            String(repeating: "p", count: Limits.platformBytesMax), String(repeating: "d", count: Limits.deviceBytesMax)
        )
        log.sessions = (0..<UInt64(Limits.sessionsPerUserMax)).map {
            WebhookLog.Session(id: SessionID(stamp: $0, node: 9), platform: platform, deviceID: device)
        }
        #expect(log.text.count < Limits.rowBytesMax)
    }
}
