import PresenceWire
import Testing

@testable import PresenceCore

/// The texts and the events of hidden views: how many of them a user can have.
@Suite struct HiddenContentsTests {
    private static let ann = user("ann")

    private func viewer(_ number: Int) -> UserID { user("viewer\(number)") }

    /// The user, who is not ONLINE, blocks one viewer after another, each behind another content.
    private func blocking(
        _ numbers: Range<Int>, after privacy: Privacy = Privacy(), behind write: (Int, inout Record) -> Void
    ) -> Privacy {
        var privacy = privacy
        for number in numbers {
            var record = Record(blank: Self.ann)
            record.version = Version(milliseconds: 1_000 + Int64(number), counter: 0, node: 1)
            record.lastUpdateTime = record.version.milliseconds
            write(number, &record)
            var visibility = privacy.visibility
            visibility.blocked = (visibility.blocked + [viewer(number)]).sorted()
            let time = Version(milliseconds: 100_000 + Int64(number), counter: 0, node: 1)
            privacy = privacy.changed(to: visibility, writtenAt: time, hiddenView: record, at: time)
        }
        return privacy
    }

    /// The row of a visibility as another node receives it.
    private func received(_ row: Row) throws -> Row {
        var writer = WireWriter()
        writer.row(row)
        return try writer.bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            return try reader.row()
        }
    }

    /// A node receives the same visibility with a record and as a row.
    private func expectUnchanged(_ privacy: Privacy) throws {
        #expect(try received(privacy) == privacy)
        let row = Row(privacy, of: Self.ann)
        #expect(try received(row) == row)
        #expect(try Privacy(row) == privacy)
    }

    /// A record with a visibility as another node receives it.
    private func received(_ privacy: Privacy) throws -> Privacy? {
        var record = Record(blank: Self.ann)
        record.privacy = privacy
        var writer = WireWriter()
        writer.record(record)
        return try writer.bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            return try reader.record().privacy
        }
    }

    @Test(
        "Each viewer keeps the text or the event behind which the user has hidden, and moves no view of a viewer before",
        arguments: [false, true])
    func manyContents(isEvent: Bool) throws {
        var (privacy, views): (Privacy, [Record?]) = (Privacy(), [])
        for number in 0..<100 {
            privacy = blocking(number..<number + 1, after: privacy) { number, record in
                if isEvent {
                    record.events.publish(PublishedEvent(value: 10_000 + Int64(number), ext: "e", expiresAt: 1 << 40, id: record.version))
                } else {
                    record.customStatus = "text \(number)"
                }
            }
            views.append(privacy.hiddenView(for: viewer(number)))
            for (earlier, view) in views.enumerated() { #expect(privacy.hiddenView(for: viewer(earlier)) == view) }
        }
        for (number, view) in views.enumerated() {
            let view = try #require(view)
            #expect(isEvent ? view.events.newest?.value == 10_000 + Int64(number) : view.customStatus == "text \(number)")
            #expect(view.version.milliseconds == 1_000 + Int64(number) && view.lastUpdateTime == 1_000 + Int64(number))
        }
        #expect(privacy.contents.count == 100)
        try expectUnchanged(privacy)
    }

    @Test("Texts that have ended are one content, and leave their room to later ones") func endedTexts() throws {
        var privacy = Privacy()
        for round in 1...3 {
            let end = Milliseconds(round) * 1_000_000
            privacy = blocking(round * 300..<round * 300 + 300, after: privacy) { number, record in
                (record.customStatus, record.customStatusExpiresAt) = ("text \(number)", end)
            }
            #expect(privacy.hiddenView(for: viewer(round * 300 + 299))?.customStatus == "text \(round * 300 + 299)")
            privacy.expire(at: end, version: Version(milliseconds: end, counter: 0, node: 1))
            #expect(privacy.contents.count == 1 && privacy.named.count == 300 * round)
            #expect(privacy.hiddenViews.allSatisfy { $0.customStatus.isEmpty && $0.lastCustomStatusUpdateTime == $0.lastUpdateTime })
        }
        try expectUnchanged(privacy)
    }

    /// The characters of the last two take two and six bytes in JSON.
    @Test("A text and an event without room end with the hiding, and move no view of a viewer before", arguments: ["x", "\"", "\u{1}"])
    func fullContents(character: String) throws {
        let text = String(repeating: character, count: Limits.customStatusBytesMax)
        let ext = String(repeating: character, count: Limits.eventBytesMax)
        let privacy = blocking(0..<100) { _, record in
            record.customStatus = text
            record.events.publish(PublishedEvent(value: 10_000, ext: ext, expiresAt: 1 << 50, id: record.version))
        }
        let kept = (0..<100).map { privacy.hiddenView(for: viewer($0))?.customStatus == text }
        let count = kept.count { $0 }
        #expect((10..<100).contains(count) && kept.prefix(count).allSatisfy { $0 }, "\(count)")
        for number in 0..<100 {
            let view = try #require(privacy.hiddenView(for: viewer(number)))
            let isKept = number < count
            #expect(view.customStatus == (isKept ? text : "") && view.hasEvents == isKept)
            #expect(view.version.milliseconds == (isKept ? 1_000 : 100_000) + Int64(number))
        }
        try expectUnchanged(privacy)
        let namesBytes = 100 * 400
        #expect(Row(privacy, of: Self.ann).value!.count <= Privacy.contentsBytesMax + namesBytes)
    }

    @Test("Another node reads a visibility with as many names, contents and waiting news as there can be, each as long as possible")
    func longestRow() throws {
        let names = (0..<Privacy.namedMax).map { user("\($0 + 1_000)" + String(repeating: "\"", count: Limits.nameBytesMax - 4)) }
        let time = Limits.times.upperBound
        let full = blocking(0..<100) { _, record in
            record.customStatus = String(repeating: "\u{1}", count: Limits.customStatusBytesMax)
            record.events.publish(PublishedEvent(value: 10_000, ext: "", expiresAt: time, id: record.version))
        }
        let view = Privacy.View(
            content: full.contents.count - 1, version: .max,
            times: RecordTimes(
                lastUpdateTime: time, lastOnlineStatusUpdateTime: time, lastCustomStatusUpdateTime: time, lastSeenTime: time),
            admittedAt: time)
        var visibility = Visibility().changed(by: .init(mode: .nobody, listed: Array(names.prefix(Limits.visibilityUsersMax))))
        visibility.blocked = Array(names.prefix(1_000))
        let news = ProfileNews(named: names.prefix(2_000).map { .init(user: $0, entry: .init(known: .max, stamp: .max)) }, others: .init())
        let longest = try #require(
            Privacy(
                visibility: visibility, writtenAt: .max, version: .max, heldVersion: .zero, contents: full.contents,
                named: names.map { .init(user: $0, view: view) }, others: view, news: news))
        let bytesCount = Row(longest, of: Self.ann).value!.count
        #expect(bytesCount > 1 << 20 && bytesCount <= Limits.visibilityRowBytesMax, "\(bytesCount)")
        try expectUnchanged(longest)
    }
}
