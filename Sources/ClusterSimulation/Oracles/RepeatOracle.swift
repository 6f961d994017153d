import PresenceCore
import PresenceWire

/// The calls with keys that clients have made, and their first answers.
///
/// Its inputs are an attempt and its answer. It knows neither nodes nor rows: see ``RepeatChecks``.
struct RepeatOracle {
    /// The calls about the same facts.
    struct Story {
        /// The time of the first attempt.
        let begunAt: Nanoseconds
        /// The calls that were made, in order.
        fileprivate(set) var calls: [RepeatedCall] = []
        /// The number of calls that have been answered, whether or not their client has read the answer.
        fileprivate(set) var answeredCount = 0
        /// The number of calls of which the client has read an answer.
        fileprivate(set) var readCount = 0
        /// The event in the first answer of each call that publishes.
        fileprivate(set) var events: [PublishedEvent?] = []
        /// Whether nodes may have lost an acknowledged call: see ``ChainChecks/isTrusted(isAlone:_:)``.
        fileprivate(set) var isDoubted = false

        /// The last call, if it has been answered, so that the facts are certain.
        var lastCall: RepeatedCall? { answeredCount == calls.count ? calls.last : nil }
        /// The event of the last call that publishes.
        var lastEvent: PublishedEvent? { events.last ?? nil }
    }

    private(set) var stories: [Int: Story] = [:]

    /// The stories in order.
    var sorted: [Story] { stories.sorted { $0.key < $1.key }.map(\.value) }

    /// Records an attempt. Returns false if the client does not make it yet: it has not read the answer to the call before.
    mutating func attempt(_ call: RepeatedCall, at now: Nanoseconds) -> Bool {
        var story = stories[call.story] ?? Story(begunAt: now)
        guard call.position <= story.readCount else { return false }
        if call.position == story.calls.count {
            story.calls.append(call)
            story.events.append(nil)
        }
        stories[call.story] = story
        return true
    }

    /// Whether a call has been made before.
    func isRepetition(_ call: RepeatedCall) -> Bool { call.position < stories[call.story]?.calls.count ?? 0 }

    /// Records that nodes may have lost an acknowledged call of a story.
    mutating func doubt(_ story: Int) { stories[story]?.isDoubted = true }

    /// Records an answer. Returns the difference from the right answer, in words; nil for none.
    ///
    /// - Parameter isRead: whether the client has read the answer.
    mutating func answered(_ answer: CallAnswer, to call: RepeatedCall, allowType: ChainPolicy.AllowType, isRead: Bool) -> String? {
        guard var story = stories[call.story], call.position < story.calls.count else { return "nobody has made the call" }
        // An uncertain result is not kept, and the client goes on to repeat the call.
        if answer.outcomes?.contains(where: \.isUncertain) == true { return nil }
        var problem: String?
        switch (call.operation, answer) {
        case (.publish(let value), .owner(.record(let record))):
            let event = record.events.newest
            if let first = story.events[call.position] {
                if event != first { problem = "the first answer had the event \(first)" }
            } else if event?.value != value {
                problem = "the event \(value) would be right"
            } else {
                story.events[call.position] = event
            }
        case (.publish, _): problem = "a status would be right"
        case (_, .owner(.chained)), (_, .owner(.blocked)), (_, .owner(.friendCalled)):
            let right = call.result(allowType)
            if answer.results?.map(\.code) != [right] { problem = "\(right.rawValue) would be right" }
        default: problem = "a result would be right"
        }
        story.answeredCount = max(story.answeredCount, call.position + 1)
        if isRead { story.readCount = max(story.readCount, call.position + 1) }
        stories[call.story] = story
        return story.isDoubted ? nil : problem
    }
}

extension CallAnswer {
    /// The results of a call about friends; nil for another answer.
    fileprivate var results: [ChainOutcome]? { if case .owner(.friendCalled(let result)) = self { result.users } else { outcomes } }
}

extension ChainOutcome {
    /// Whether a repetition of the call may have another result.
    fileprivate var isUncertain: Bool { code == .unavailable || code == .conflict }
}
