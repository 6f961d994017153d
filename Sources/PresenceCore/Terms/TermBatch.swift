import PresenceWire

/// The term messages of many slots from one disk to another. Slots with equal messages are one part, as ranges.
///
/// A change of the ring concerns thousands of slots at once. A node claims them under one number, so that few parts differ.
struct TermBatch: Hashable {
    /// A message, and the slots that it is about.
    struct Part: Hashable {
        /// The message without its hash.
        let message: TermMessage
        fileprivate(set) var slots: [ClosedRange<Slot>] = []
        /// A hash for each slot, if the message has one.
        fileprivate(set) var hashes: [UInt64] = []
    }

    /// Most slots of one batch: about 40 KiB of hashes.
    static let slotsMax = 4_096

    private(set) var parts: [Part] = []

    /// Makes batches of at most ``slotsMax`` slots.
    ///
    /// - Parameter messages: in the order of the slots. Messages of one slot stay in their order.
    static func batches(of messages: [(slot: Slot, message: TermMessage)]) -> [TermBatch] {
        stride(from: 0, to: messages.count, by: slotsMax).map { start in
            TermBatch(messages[start..<min(start + slotsMax, messages.count)])
        }
    }

    private init(_ messages: ArraySlice<(slot: Slot, message: TermMessage)>) {
        var indices: [TermMessage: Int] = [:]
        for (slot, message) in messages {
            let common = message.withHash(0)
            let index = indices[common] ?? parts.count
            if index == parts.count {
                indices[common] = index
                parts.append(Part(message: common))
            }
            parts[index].add(slot, hash: message.hash)
        }
    }

    /// Calls `body` with each message.
    func forEach(_ body: (Slot, TermMessage) -> Void) {
        for part in parts {
            var hashes = part.hashes.makeIterator()
            for slot in part.slots.lazy.joined() { body(slot, hashes.next().map { part.message.withHash($0) } ?? part.message) }
        }
    }
}

extension TermBatch.Part {
    fileprivate mutating func add(_ slot: Slot, hash: UInt64?) {
        if let hash { hashes.append(hash) }
        if let last = slots.last, last.upperBound < .max, slot == last.upperBound + 1 {
            slots[slots.count - 1] = last.lowerBound...slot
        } else {
            slots.append(slot...slot)
        }
    }
}

extension TermMessage {
    /// The hash of a content; nil for a message without one.
    fileprivate var hash: UInt64? {
        switch self {
        case .promise(let promise): promise.hash
        case .install(let installation): installation.hash
        case .claim, .refusal, .outdated, .stored, .installed, .heard: nil
        }
    }

    fileprivate func withHash(_ hash: UInt64) -> TermMessage {
        switch self {
        case .promise(let promise):
            .promise(
                Promise(term: promise.term, base: promise.base, accepted: promise.accepted, content: promise.content, hash: hash))
        case .install(let installation): .install(Installation(set: installation.set, base: installation.base, hash: hash))
        case .claim, .refusal, .outdated, .stored, .installed, .heard: self
        }
    }
}
