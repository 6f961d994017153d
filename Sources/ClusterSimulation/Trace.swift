import PresenceCore
import PresenceWire

/// A hash of a history: of all events, and of every byte that crossed the boundary of a node.
///
/// Only integers, wire bytes and JSON text are hashed, never the name of a type or of a case. Renaming those keeps the hash.
struct Trace {
    /// Bytes on one line: printable ASCII as it is, other bytes in hexadecimal.
    static func readable(_ bytes: [UInt8]) -> String {
        bytes.map { (0x20..<0x7F).contains($0) && $0 != 0x5C ? String(UnicodeScalar($0)) : "\\" + String($0, radix: 16) + ";" }.joined()
    }

    /// A kind of bytes that cross the boundary of a node. The raw values go into the hash.
    enum Boundary: UInt64 {
        /// The first bytes of a connection, in either direction.
        case hello = 60
        /// A batch of messages from one node to another, when it is sent.
        case batch = 61
        /// A row that the disk writes, also while the node starts.
        case row = 62
        case firstRow = 63
        /// A row that the disk deletes.
        case deletedRow = 64
        /// The slots whose rows the disk deletes.
        case deletedSlots = 65
        /// An event that is pushed to a client.
        case event = 66
        /// The answer to a call.
        case answer = 67
    }

    private(set) var hash: UInt64 = 0
    private var writer = WireWriter()

    /// The hash as 16 hexadecimal digits.
    var text: String {
        var digits: [UInt8] = []
        Hex.append(hash, digits: 16, to: &digits)
        return String(decoding: digits, as: UTF8.self)
    }

    /// Adds an event and its time.
    mutating func add(_ kind: UInt64, _ first: Int, _ second: Int, at time: Nanoseconds) {
        let numbers = StableHash.mix(UInt64(bitPattern: Int64(first)), UInt64(bitPattern: Int64(second) ^ time))
        hash = StableHash.mix(hash ^ kind, numbers)
    }

    /// Adds bytes, eight at a time. Each step is a bijection, so two hashes that differ in one word stay different.
    mutating func add(_ bytes: [UInt8]) {
        var hash = StableHash.mix(hash, UInt64(bytes.count))
        bytes.withUnsafeBytes { bytes in
            let wordsEnd = bytes.count & ~7
            for offset in stride(from: 0, to: wordsEnd, by: 8) {
                hash = (hash ^ UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))) &* 0x9E37_79B9_7F4A_7C15
                hash ^= hash >> 32
            }
            hash = StableHash.mix(hash, bytes[wordsEnd...].reduce(0) { $0 << 8 | UInt64($1) })
        }
        self.hash = hash
    }

    /// Adds the output of the cluster's codec, and returns it.
    mutating func add(_ write: (inout WireWriter) -> Void) -> [UInt8] {
        writer.bytes.removeAll(keepingCapacity: true)
        write(&writer)
        add(writer.bytes)
        return writer.bytes
    }
}

extension WireWriter {
    private mutating func tagged(_ kind: UInt8, _ named: [UserID]) {
        tag(kind)
        users(named)
    }

    private mutating func tagged(_ kind: UInt8, _ content: String) {
        tag(kind)
        text(content)
    }

    private mutating func tagged(_ kind: UInt8, _ answer: Answer) {
        tag(kind)
        message(.answer(id: 0, answer))
    }

    /// Writes the answer to a call. An answer stays in its node, so the codec between nodes has no form for it.
    mutating func answer(_ answer: CallAnswer) {
        switch answer {
        case .owner(.record(let record)):
            tag(1)
            self.record(record)
        case .userStatusList(let records, let users, let asOf):
            tag(2)
            self.records(records)
            self.users(users)
            signed(asOf)
        case .subscribed(let evicted, let refused, let followerLimitReached, let nonFriends, let unknown, let records, let users):
            tag(3)
            for list in [evicted, refused, followerLimitReached, nonFriends, unknown, users] { self.users(list) }
            optional(records) { $0.records($1) }
        case .imported(let failed): tagged(4, failed)
        case .subscriptions(let page, let records, let total):
            tag(5)
            message(.answer(id: 0, .subscriptions(page, total: total)))
            self.records(records)
        case .owner(.done): tag(6)
        case .owner(.visibility(let privacy, let remnant)):
            let visibility = privacy.visibility
            tag(8)
            self.remnant(remnant)
            text(visibility.mode.rawValue)
            tag(visibility.isInvisible ? 1 : 0)
            for list in [visibility.listed, visibility.friends ?? [], visibility.blocked] { users(list) }
        case .owner(.chained(let outcomes)):
            tag(11)
            message(.answer(id: 0, .chained(outcomes)))
        case .owner(.friendCalled(let result)):
            tag(16)
            message(.answer(id: 0, .friendCalled(result)))
        case .owner(.listed(let json)): tagged(12, String(decoding: json, as: UTF8.self))
        case .owner(.onlineUsers(let users, let total)): tagged(32, Answer.onlineUsers(users, total: total))
        case .owner(let answer): message(.answer(id: 0, answer))
        case .unsubscribed(let unknown): tagged(19, unknown)
        case .refused(let refusal):
            tag(7)
            self.refusal(refusal)
        case .explained(let explanations):
            tag(9)
            list(explanations) { writer, explanation in
                writer.tag(explanation.part.rawValue)
                writer.text(String(decoding: explanation.json, as: UTF8.self))
            }
        case .sessions(let records, let users, let sessions, let asOf):
            self.answer(.userStatusList(records, users: users, asOf: asOf))
            message(.answer(id: 0, .sessions(users.map { sessions[$0] ?? [] })))
        case .ownSessions(let sessions, let current):
            message(.answer(id: 0, .sessions([sessions])))
            optional(current) { $0.session($1) }
        case .userExported(let page): tagged(33, "\(page)")
        case .userDeleted(let deletion): tagged(34, "\(deletion)")
        case .ticket(let ticket): tagged(30, ticket)
        case .rateLimited(let retryAfter):
            tag(10)
            signed(Int64(retryAfter))
        case .relationsChecked(let relations):
            tag(17)
            list(relations) { writer, relation in
                writer.user(relation.user)
                writer.tag((relation.isListed ? 1 : 0) | (relation.hasCaller == true ? 2 : 0) | (relation.hasCaller == nil ? 4 : 0))
            }
        case .profiles(let profiles, let users):
            tag(18)
            message(.answer(id: 0, .profiles(profiles.compactMap(\.self))))
            self.users(users)
        }
    }

    private mutating func records(_ records: [Record?]) { list(records) { $0.optional($1) { $0.record($1) } } }

    private mutating func refusal(_ refusal: Refusal) {
        signed(Int64(refusal.code))
        text(refusal.detail)
        tag(refusal.mayTakeEffect ? 1 : 0)
        users(refusal.users)
        switch refusal.limit {
        case nil: tag(0)
        case .subscriptions: tag(1)
        case .followers: tag(2)
        }
    }
}
