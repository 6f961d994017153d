/// Probes a cluster at rest: every change reaches all followers, and nobody else.
///
/// The probe shows faults that remain in a gateway or an owner and that no other check reads.
extension SimulatedCluster {
    /// The longest time that a change takes if nothing is wrong.
    static let probeMilliseconds = 3_000
    /// The time between two changes. All at once would be too much for a link with a short queue.
    static let probeInterval = 50

    /// Changes the custom status of every user; of many users, only of those with followers.
    mutating func probe() {
        let lists = truth.isConcerned.indices.map { truth.isConcerned[$0] ? followed(by: $0) : [] }
        probed = lists
        var users = Array(0..<options.usersCount)
        if users.count > HistoryOptions.stagedUsersMax {
            users = Array(Set(lists.joined()).sorted().prefix(HistoryOptions.stagedUsersMax))
        }
        for user in users {
            call(.setSelfStatus(customStatus: Self.finalStatus(of: user), seconds: nil), by: user)
            advance(to: time + .milliseconds(Self.probeInterval))
        }
        advance(to: time + .milliseconds(Self.probeMilliseconds))
        let needsSession = policyAtRest.customStatusNeedsSession
        for user in users where truth.newestAcknowledged(user)?.text != Self.finalStatus(of: user) {
            if needsSession, truth.presences[user].openCount == 0 { continue }
            violate(.everyCallIsAnswered, "user-\(user) sets its status when everything is at rest, and is not told that it is set")
        }
        if violation == nil { twice { $0.checkViews() } }
    }

    private static func finalStatus(of user: Int) -> String { "the last word of \(user)" }

    /// Checks that a client at rest receives only users of its user's list.
    mutating func checkListed(_ told: SimulatedClient.ReceivedStatus, of target: Int, _ client: Int) {
        let user = clients[client].user
        guard let probed, !probed[user].contains(target) else { return }
        violate(.onlyFollowedUsersAreSent, "user-\(user) is told \(told) of user-\(target), whom its list does not name")
    }
}
