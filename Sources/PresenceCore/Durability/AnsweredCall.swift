import PresenceWire

/// A recent call that its client may repeat, and the answer.
struct AnsweredCall: Equatable {
    /// See ``PresenceWire/CallKey/digest``.
    let digest: UInt64
    /// The version at the start of the call. All that it writes is newer.
    let begunAt: Version
    /// nil while the call is under way. Its owner may have died since.
    let answer: Answer?
}

extension AnsweredCall: RowFact {
    static var kind: Row.Kind { .answeredCall }

    init(_ fields: RowFields) throws(RowError) {
        guard let digest = UInt64(try fields.text("digest", bytesMax: 16), radix: 16) else { throw fields.error("digest", "is missing") }
        self.init(digest: digest, begunAt: try fields.version("begunAt"), answer: try fields.answer())
    }

    func write(to json: inout JSONWriter) {
        json.member("digest", String(digest, radix: 16))
        json.member("begunAt", begunAt)
        switch answer {
        case .record(let record):
            json.member("version", record.version)
            json.key("record")
            json.object { $0.facts(of: record.withoutPrivacy) }
        case .chained(let outcomes): json.outcomes(outcomes)
        case .friendCalled(let result):
            json.member("code", Int64(result.code.rawValue))
            json.memberIfAny("json", String(decoding: result.json, as: UTF8.self))
            json.outcomes(result.users)
        default: break
        }
    }
}

extension Record {
    /// The record as its user sees it. A visibility has a row of its own.
    fileprivate var withoutPrivacy: Record {
        var record = self
        record.privacy = nil
        return record
    }
}

extension JSONWriter {
    /// Writes the users, and the code of each; one code if all are equal.
    fileprivate mutating func outcomes(_ outcomes: [ChainOutcome]) {
        key("users")
        array { json in for outcome in outcomes { json.string(outcome.user.id) } }
        key("codes")
        let isOne = outcomes.allSatisfy { $0.code == outcomes[0].code }
        array { json in for outcome in outcomes.prefix(isOne ? 1 : outcomes.count) { json.integer(Int64(outcome.code.rawValue)) } }
    }
}

extension RowFields {
    private func member(_ name: String) -> JSONValue? { members.first { $0.name == name }?.value }

    /// The answer of a call; nil for none.
    fileprivate func answer() throws(RowError) -> Answer? {
        if let record = member("record") { return .record(try Record(record, version: try version("version"), of: row)) }
        guard let outcomes = try outcomes() else { return nil }
        guard let code = try number("code", in: 0...Int64(UInt32.max)) else { return .chained(outcomes) }
        let json = Array(try text("json", bytesMax: Limits.rowBytesMax).utf8)
        return .friendCalled(FriendCallResult(code: ChainCode(rawValue: UInt32(code)), users: outcomes, json: json))
    }

    private func outcomes() throws(RowError) -> [ChainOutcome]? {
        guard let listed = member("users") else { return nil }
        guard case .array(let names) = listed, case .array(let numbers)? = member("codes") else { throw error("users", "have no codes") }
        let codes = numbers.compactMap { $0.wholeNumber.flatMap { UInt32(exactly: $0) } }
        let users = names.compactMap { $0.text.flatMap { Limits.isValidName($0) ? UserID($0, besides: row.user) : nil } }
        guard users.count == names.count, codes.count == users.count || codes.count == 1 else {
            throw error("users", "or their codes are not what a node writes")
        }
        return users.enumerated().map { ChainOutcome(user: $1, code: ChainCode(rawValue: codes[codes.count == 1 ? 0 : $0])) }
    }
}
