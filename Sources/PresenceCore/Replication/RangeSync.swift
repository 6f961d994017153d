import PresenceWire

/// A collection that two nodes compare: entries in the order of their keys, each with a hash.
protocol RangeCollection {
    associatedtype Key: Hashable & Comparable

    /// Calls `body` with the key and the hash of each entry of a range, in ascending order, until it returns false.
    ///
    /// The hash covers the key and the value. Each kind of collection has one definition of it.
    func forEach(in range: KeyRange<Key>, _ body: (Key, UInt64) -> Bool)
}

/// The keys from a lower bound up to an upper one, which is not in the range. A missing bound is open.
struct KeyRange<Key: Hashable & Comparable>: Hashable {
    var lower: Key?
    var upper: Key?

    func contains(_ key: Key) -> Bool { (lower.map { $0 <= key } ?? true) && (upper.map { key < $0 } ?? true) }
}

/// A range, and what a node holds of it.
struct RangeHash<Key: Hashable & Comparable>: Hashable {
    var range: KeyRange<Key>
    /// The number of entries.
    var count = 0
    /// The sum of their salted hashes.
    var sum: UInt64 = 0
}

/// An entry without its value.
struct EntryHash<Key: Hashable & Comparable>: Hashable {
    let key: Key
    let hash: UInt64
}

/// The comparison of a copy with its source, and the repair of the copy (<doc:Terms>).
///
/// The copy sends hashes of ranges. The source answers with hashes of the parts of a range that differs, down to its entries. The copy asks
/// for the parts that differ, requests the values that it lacks, and deletes what the source does not hold. This is range-based set
/// reconciliation (Meyer, 2022) in one direction: the source is right.
///
/// No node keeps a state: each message has its ranges and its salt. A message holds a bounded number of ranges and keys, and leads to one
/// message each of questions and of wishes. The next comparison finds what a lost message, or one without room, has left. The copy is
/// complete when the source answers ``RangeAnswer/same(_:)`` for the whole range.
enum RangeSync {
    /// The parts of a range that differs.
    static let partsCount = 16
    /// Most entries of a range that are listed and not divided.
    static let entriesMax = 32
    /// Most ranges of one question.
    static let rangesMax = 64
    /// Most keys of one request, and most entries of one list for a copy without any.
    static let keysMax = 512

    /// A part of the answer of the source.
    enum RangeAnswer<Key: Hashable & Comparable>: Hashable {
        /// Both hold the same.
        case same(KeyRange<Key>)
        /// The source holds this of the parts of a range.
        case parts([RangeHash<Key>])
        /// The source holds these entries in a range, and no others.
        case entries(KeyRange<Key>, [EntryHash<Key>])
    }

    /// The next step of a copy.
    struct Step<Key: Hashable & Comparable>: Equatable {
        /// The ranges to ask about.
        var questions: [RangeHash<Key>] = []
        /// The keys whose values to request.
        var wanted: [Key] = []
        /// The keys to delete.
        var surplus: [Key] = []
        /// The ranges that are the same.
        var same: [KeyRange<Key>] = []
    }

    // MARK: Both

    /// The hash of what a node holds of a range.
    ///
    /// - Parameter salt: another number in each comparison. Two equal sums of different entries differ in the next one.
    static func hash<Collection: RangeCollection>(
        of range: KeyRange<Collection.Key>, in collection: borrowing Collection, salt: UInt64
    ) -> RangeHash<Collection.Key> {
        var result = RangeHash(range: range)
        collection.forEach(in: range) { _, hash in
            result.count += 1
            result.sum &+= StableHash.mix(salt, hash)
            return true
        }
        return result
    }

    // MARK: Source

    /// Answers the questions of a copy: at most ``rangesMax`` of them.
    static func answer<Collection: RangeCollection>(
        _ questions: [RangeHash<Collection.Key>], from collection: borrowing Collection, salt: UInt64
    ) -> [RangeAnswer<Collection.Key>] {
        var answers: [RangeAnswer<Collection.Key>] = []
        for question in questions.prefix(rangesMax) {
            let own = hash(of: question.range, in: collection, salt: salt)
            if own == question {
                answers.append(.same(question.range))
            } else if own.count <= entriesMax {
                answers.append(.entries(question.range, list(question.range, in: collection, max: entriesMax)))
            } else if question.count == 0 {
                answers += page(question.range, from: collection, salt: salt)
            } else {
                answers.append(.parts(parts(of: own, in: collection, salt: salt)))
            }
        }
        return answers
    }

    /// The first entries of a range of which the copy has none, and the rest as one part.
    private static func page<Collection: RangeCollection>(
        _ range: KeyRange<Collection.Key>, from collection: borrowing Collection, salt: UInt64
    ) -> [RangeAnswer<Collection.Key>] {
        var entries = list(range, in: collection, max: keysMax + 1)
        guard entries.count > keysMax, let next = entries.popLast() else { return [.entries(range, entries)] }
        let rest = hash(of: KeyRange(lower: next.key, upper: range.upper), in: collection, salt: salt)
        return [.entries(KeyRange(lower: range.lower, upper: next.key), entries), .parts([rest])]
    }

    /// Divides a range into parts with about the same number of entries.
    private static func parts<Collection: RangeCollection>(
        of whole: RangeHash<Collection.Key>, in collection: borrowing Collection, salt: UInt64
    ) -> [RangeHash<Collection.Key>] {
        let size = (whole.count + partsCount - 1) / partsCount
        var parts = [RangeHash(range: whole.range)]
        collection.forEach(in: whole.range) { key, hash in
            if parts[parts.count - 1].count == size {
                parts[parts.count - 1].range.upper = key
                parts.append(RangeHash(range: KeyRange(lower: key, upper: whole.range.upper)))
            }
            parts[parts.count - 1].count += 1
            parts[parts.count - 1].sum &+= StableHash.mix(salt, hash)
            return true
        }
        return parts
    }

    private static func list<Collection: RangeCollection>(
        _ range: KeyRange<Collection.Key>, in collection: borrowing Collection, max: Int
    ) -> [EntryHash<Collection.Key>] {
        var entries: [EntryHash<Collection.Key>] = []
        collection.forEach(in: range) { key, hash in
            entries.append(EntryHash(key: key, hash: hash))
            return entries.count < max
        }
        return entries
    }

    // MARK: Copy

    /// Compares an answer with what the copy holds.
    static func step<Collection: RangeCollection>(
        _ answers: [RangeAnswer<Collection.Key>], at collection: borrowing Collection, salt: UInt64
    ) -> Step<Collection.Key> {
        var step = Step<Collection.Key>()
        for answer in answers {
            switch answer {
            case .same(let range): step.same.append(range)
            case .parts(let parts):
                for part in parts where step.questions.count < rangesMax {
                    let own = hash(of: part.range, in: collection, salt: salt)
                    if own != part { step.questions.append(own) }
                }
            case .entries(let range, let entries): compare(entries, in: range, with: collection, &step)
            }
        }
        return step
    }

    private static func compare<Collection: RangeCollection>(
        _ entries: [EntryHash<Collection.Key>], in range: KeyRange<Collection.Key>, with collection: borrowing Collection,
        _ step: inout Step<Collection.Key>
    ) {
        var own: [Collection.Key: UInt64] = [:]
        let held = Set(entries.map(\.key))
        var surplus: [Collection.Key] = []
        collection.forEach(in: range) { key, hash in
            if held.contains(key) { own[key] = hash } else if surplus.count < keysMax { surplus.append(key) }
            return true
        }
        step.surplus += surplus
        let differing = entries.filter { range.contains($0.key) && own[$0.key] != $0.hash }.map(\.key)
        step.wanted += differing.prefix(max(keysMax - step.wanted.count, 0))
    }
}
