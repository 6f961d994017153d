import Testing

@testable import PresenceWire

@Suite struct RuleTablesTests {
    private let version = Version(milliseconds: 1_790_000_000_000, counter: 3, node: 7)

    /// A record of a user whom only friends may see.
    private func record(of id: String = "ann", friends: Int = 3, changes: Int = 1) -> Record {
        var record = Record(blank: UserID(app: "default", id: id))
        record.version = Version(milliseconds: version.milliseconds, counter: UInt16(changes), node: 7)
        record.statusType = .online
        var rule = Visibility().changed(by: .init(mode: .friends))
        rule.friends = (0..<friends).map { UserID(app: "default", id: "friend-\($0)") }.sorted()
        record.privacy = Privacy().changed(to: rule, writtenAt: version, hiddenView: Record(blank: record.user), at: version)
        return record
    }

    private func encode(_ record: Record, _ rules: inout SentRules?) -> [UInt8] {
        var writer = WireWriter()
        writer.rules = rules
        writer.message(.delta(record))
        rules = writer.rules
        return writer.bytes
    }

    private func decode(_ bytes: [UInt8], _ rules: inout ReceivedRules?) throws(DecodeError) -> Message {
        let result: Result<Message, DecodeError> = bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            reader.rules = rules
            let result = Result { () throws(DecodeError) in try reader.message() }
            rules = reader.rules
            return result
        }
        return try result.get()
    }

    @Test("A connection carries an unchanged visibility of 3,000 names once, and then three bytes") func once() throws {
        var (sent, received): (SentRules?, ReceivedRules?) = (SentRules(), ReceivedRules())
        var plain = record()
        plain.privacy = nil
        let plainCount = encode(plain, &sent).count
        let first = encode(record(friends: 3_000), &sent)
        let second = encode(record(friends: 3_000, changes: 2), &sent)
        #expect(first.count > 3_000 * 10)
        #expect(second.count <= plainCount + 3)
        #expect(sent?.wholeCount == 1)
        #expect(try decode(first, &received) == .delta(record(friends: 3_000)))
        #expect(try decode(second, &received) == .delta(record(friends: 3_000, changes: 2)))
    }

    @Test("A changed visibility travels as a whole, under its own number") func changed() throws {
        var (sent, received): (SentRules?, ReceivedRules?) = (SentRules(), ReceivedRules())
        for (changes, friends) in [3, 3, 4, 4, 3].enumerated() {
            let record = record(friends: friends, changes: changes)
            #expect(try decode(encode(record, &sent), &received) == .delta(record))
        }
        #expect(sent?.wholeCount == 3)
    }

    @Test("Both ends drop the oldest visibilities at the same bounds", arguments: [(2, 1 << 20), (100, 300)])
    func bounds(countMax: Int, bytesMax: Int) throws {
        var sent: SentRules? = SentRules(countMax: countMax, bytesMax: bytesMax)
        var received: ReceivedRules? = ReceivedRules(countMax: countMax, bytesMax: bytesMax)
        for changes in 0..<4 {
            for user in 0..<5 {
                let record = record(of: "user-\(user)", changes: changes)
                #expect(try decode(encode(record, &sent), &received) == .delta(record))
            }
        }
        // By the time of each user's next change, four others have been carried.
        #expect(sent?.wholeCount == 20)
        for _ in 0..<3 { _ = try decode(encode(record(of: "user-4"), &sent), &received) }
        #expect(sent?.wholeCount == 20)
    }

    @Test("A visibility larger than the bound is named until the next one") func largeRule() throws {
        var sent: SentRules? = SentRules(countMax: 10, bytesMax: 10)
        var received: ReceivedRules? = ReceivedRules(countMax: 10, bytesMax: 10)
        for changes in 0..<3 { _ = try decode(encode(record(changes: changes), &sent), &received) }
        #expect(sent?.wholeCount == 1)
        _ = encode(record(of: "ben"), &sent)
        _ = encode(record(), &sent)
        #expect(sent?.wholeCount == 3)
    }

    @Test("A record that names a visibility of another connection, or of another user, is refused") func unknown() throws {
        var sent: SentRules? = SentRules()
        _ = encode(record(), &sent)
        let named = encode(record(), &sent)
        var (fresh, none): (ReceivedRules?, ReceivedRules?) = (ReceivedRules(), nil)
        #expect(throws: DecodeError.unknownRule(0)) { try decode(named, &fresh) }
        #expect(throws: DecodeError.unknownRule(0)) { try decode(named, &none) }
        var (other, received): (SentRules?, ReceivedRules?) = (SentRules(), ReceivedRules())
        _ = try decode(encode(record(of: "ben"), &other), &received)
        #expect(throws: DecodeError.unknownRule(0)) { try decode(named, &received) }
    }

    @Test("A record without a table has its whole visibility") func noTable() throws {
        var (sent, received): (SentRules?, ReceivedRules?) = (nil, nil)
        for _ in 0..<2 { #expect(try decode(encode(record(), &sent), &received) == .delta(record())) }
    }

    @Test("A list of 10,000 friends can be read, and one of 10,001 cannot") func limit() throws {
        var sent: SentRules? = SentRules()
        var received: ReceivedRules? = ReceivedRules()
        let most = record(friends: Limits.chainUsersMax)
        #expect(try decode(encode(most, &sent), &received) == .delta(most))
        let more = encode(record(friends: Limits.chainUsersMax + 1), &sent)
        #expect(throws: DecodeError.tooLong(count: Limits.chainUsersMax + 1, limit: Limits.chainUsersMax)) { try decode(more, &received) }
    }
}
