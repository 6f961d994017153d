import PresenceWire

/// The counts of a history, which prove that faults really happen.
public struct HistoryCounts: Equatable, Sendable, CustomStringConvertible {
    /// The counted things, in the order in which they are printed.
    public enum Count: Int, CaseIterable, Sendable {
        case events, batches, pushes, recordsAnswered, acknowledged, refused, kills, drains, resets, logins
        /// Records that relays forwarded, and those requested from their owners because no relay had; of the processes at the end.
        case relayed, relaysFetched
        /// Ranges in which a gateway and an owner differed.
        case viewDifferences
        /// Acknowledged events, and checks of sessions that had to receive one.
        case published, eventsExpected
        /// Acknowledged kicks, the streams that kicks ended, and the tokens that were refused because a kick voided them.
        case kicks, streamsKicked, tokensRefused
        /// Acknowledged changes of the app's policy.
        case policyChanges
        /// Removed users, counted at each node that kept them.
        case removals
        /// Logins of devices that vendor push reaches, and users that only such a device kept ONLINE at the end.
        case reachableLogins, reachedUsers
        /// Decisions about others, by their answers. The result of the uncertain ones is unknown.
        case decisionsDone, decisionsPending, decisionsRefused, decisionsUncertain
        /// Friend lists that were read, and events about changes of lists.
        case listsRead, noticesRead
        /// Acknowledged changes of profiles, events about them, and checks of clients that had to receive one.
        case profilesSet, profilesTold, profilesExpected
        /// Attempts of calls with keys after the first of each call.
        case repetitions
    }

    private var numbers = Array(repeating: 0, count: Count.allCases.count)

    public init() {}

    public subscript(_ count: Count) -> Int {
        get { numbers[count.rawValue] }
        set { numbers[count.rawValue] = newValue }
    }

    mutating func note(_ code: ChainCode) {
        switch code {
        case .done: self[.decisionsDone] += 1
        case .pending: self[.decisionsPending] += 1
        case .unavailable, .conflict: self[.decisionsUncertain] += 1
        default: self[.decisionsRefused] += 1
        }
    }

    public static func += (left: inout HistoryCounts, right: HistoryCounts) {
        for count in Count.allCases { left[count] += right[count] }
    }

    public var description: String { Count.allCases.map { "\($0) \(self[$0])" }.joined(separator: ", ") }
}
