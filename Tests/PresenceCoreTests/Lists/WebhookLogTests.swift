import PresenceWire
import Testing

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
