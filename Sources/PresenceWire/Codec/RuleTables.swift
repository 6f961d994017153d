/// The visibilities that a connection between two nodes has carried, as its sender knows them.
///
/// A visibility may have thousands of names, and most changes of its user's record leave it as it is. So a connection carries it once, and
/// then names it by its number, as HPACK names header fields (RFC 7541 §2.3). Both ends drop the oldest visibilities at the same bounds
/// (``RuleQueue``), without a message about it.
public struct SentRules: Sendable {
    /// How a record names its user's visibility.
    enum Reference {
        /// The visibility itself follows. The receiver stores it under the next number.
        case whole
        /// The connection has carried it.
        case named(UInt64)
    }

    private var queue: RuleQueue
    private var numbers: [UserID: UInt64] = [:]
    /// The number of visibilities that were sent as a whole.
    public private(set) var wholeCount: UInt64 = 0

    public init() { self.init(countMax: RuleQueue.countMax, bytesMax: RuleQueue.bytesMax) }

    /// Makes a table with other bounds; both ends need the same ones. For tests.
    init(countMax: Int, bytesMax: Int) { queue = RuleQueue(countMax: countMax, bytesMax: bytesMax) }

    /// How to send the visibility of a user.
    func reference(to rule: Privacy, of user: UserID) -> Reference {
        guard let number = numbers[user], queue.rule(number, of: user) == rule else { return .whole }
        return .named(number)
    }

    /// Records that a visibility of `bytesCount` bytes was sent.
    mutating func store(_ rule: Privacy, of user: UserID, bytesCount: Int) {
        wholeCount += 1
        numbers[user] = queue.nextNumber
        for (number, user) in queue.append(rule, of: user, bytesCount: bytesCount) where numbers[user] == number { numbers[user] = nil }
    }
}

/// The visibilities that a connection between two nodes has carried, as its receiver keeps them.
public struct ReceivedRules: Sendable {
    private var queue: RuleQueue
    private var substitute: Privacy?

    public init() { self.init(countMax: RuleQueue.countMax, bytesMax: RuleQueue.bytesMax) }

    /// Makes a table for a single batch whose connection is not known: every named visibility reads as `rule`. For logs.
    public init(withoutConnection rule: Privacy) {
        self.init()
        substitute = rule
    }

    /// Makes a table with other bounds. For tests.
    init(countMax: Int, bytesMax: Int) { queue = RuleQueue(countMax: countMax, bytesMax: bytesMax) }

    /// The visibility with a number; nil if the connection has not carried it for this user, or has dropped it.
    func rule(_ number: UInt64, of user: UserID) -> Privacy? {
        substitute ?? queue.rule(number, of: user)
    }

    /// Records that a visibility of `bytesCount` bytes was received.
    mutating func store(_ rule: Privacy, of user: UserID, bytesCount: Int) {
        _ = queue.append(rule, of: user, bytesCount: bytesCount)
    }
}

/// Numbered visibilities, of which the oldest are dropped at a bound. Two queues that receive the same ones drop the same ones.
struct RuleQueue: Sendable {
    /// Most visibilities.
    static let countMax = 1 << 16
    /// Most bytes of all visibilities, in their form on the wire. The newest one stays, whatever its size.
    ///
    /// A thousand lists of 3,000 names of 20 bytes fit. The lists are shared with the records that have them.
    static let bytesMax = 64 << 20

    private struct Element {
        let user: UserID
        let rule: Privacy
        let bytesCount: Int
    }

    private let countMax: Int
    private let bytesMax: Int
    /// The kept elements, behind dropped ones, which are nil.
    private var elements: [Element?] = []
    private var droppedCount = 0
    /// The number of the first of ``elements``.
    private var firstNumber: UInt64 = 0
    private var bytesCount = 0

    init(countMax: Int, bytesMax: Int) { (self.countMax, self.bytesMax) = (countMax, bytesMax) }

    /// The number of the next visibility.
    var nextNumber: UInt64 { firstNumber + UInt64(elements.count) }

    /// The visibility with a number; nil if it has been dropped, never existed, or is another user's.
    func rule(_ number: UInt64, of user: UserID) -> Privacy? {
        guard number >= firstNumber, number < nextNumber, let element = elements[Int(number - firstNumber)] else { return nil }
        return element.user == user ? element.rule : nil
    }

    /// Adds a visibility, and drops the oldest ones beyond the bounds. Returns the dropped ones.
    mutating func append(_ rule: Privacy, of user: UserID, bytesCount: Int) -> [(number: UInt64, user: UserID)] {
        elements.append(Element(user: user, rule: rule, bytesCount: bytesCount))
        self.bytesCount += bytesCount
        var dropped: [(number: UInt64, user: UserID)] = []
        while elements.count - droppedCount > 1, elements.count - droppedCount > countMax || self.bytesCount > bytesMax {
            guard let oldest = elements[droppedCount] else { preconditionFailure("visibility \(firstNumber) was dropped out of order") }
            elements[droppedCount] = nil
            self.bytesCount -= oldest.bytesCount
            dropped.append((firstNumber + UInt64(droppedCount), oldest.user))
            droppedCount += 1
        }
        // Half of the elements move at a time, so that a drop costs a constant time on average.
        if droppedCount > elements.count / 2 {
            elements.removeFirst(droppedCount)
            firstNumber += UInt64(droppedCount)
            droppedCount = 0
        }
        return dropped
    }
}
