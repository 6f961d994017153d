import PresenceWire

/// The nodes' records of all users, as far as they have answered.
///
/// One query asks for them in several calls. After each query the simulator compares the watchers' views with the records.
struct RecordQuery {
    /// The version that the nodes hold of each user.
    private(set) var versions: [Version?]
    private(set) var contents: [Ledger.Content?]
    private var unanswered = 0
    private var hasFailed = false
    private var notBefore = 0.0

    init(users: Int) {
        versions = Array(repeating: nil, count: users)
        contents = Array(repeating: nil, count: users)
    }

    /// Whether a query waits for answers.
    var isOpen: Bool { unanswered > 0 }

    /// Whether every call of the last query was answered.
    var isComplete: Bool { unanswered == 0 && !hasFailed }

    /// Whether a query may begin.
    func mayBegin(at now: Double) -> Bool { unanswered == 0 && now >= notBefore }

    /// Begins a query of `batches` calls.
    mutating func begin(batches: Int) { (unanswered, hasFailed) = (batches, false) }

    mutating func receive(_ status: ScannedStatus, of user: Int) {
        versions[user] = status.version
        contents[user] = Ledger.Content(status)
    }

    /// Records the end of a call, and the time before which a node accepts no other. Returns whether the query is over.
    mutating func end(isAnswered: Bool, retryAt: Double?) -> Bool {
        unanswered -= 1
        hasFailed = hasFailed || !isAnswered
        if let retryAt { notBefore = retryAt }
        return unanswered == 0
    }
}
