/// Probes a cluster at rest: every change reaches all followers, and nobody else.
///
/// The probe shows faults that remain in a gateway or an owner and that no other check reads.
enum ProbeChecks {
    /// The longest time that a change takes if nothing is wrong.
    static let probeMilliseconds = 3_000
    /// The time between two changes. All at once would be too much for a link with a short queue.
    static let probeInterval = 50

    /// Changes the custom status of every user; of many users, only of those with followers.
    static func probe(_ cluster: inout SimulatedCluster) {
        let lists = cluster.truth.isConcerned.indices.map { cluster.truth.isConcerned[$0] ? cluster.followed(by: $0) : [] }
        cluster.probed = lists
        var users = Array(0..<cluster.options.usersCount)
        if users.count > HistoryOptions.stagedUsersMax {
            users = Array(Set(lists.joined()).sorted().prefix(HistoryOptions.stagedUsersMax))
        }
        for user in users {
            cluster.call(.setSelfStatus(customStatus: Self.finalStatus(of: user), seconds: nil), by: user)
            cluster.advance(to: cluster.time + .milliseconds(Self.probeInterval))
        }
        cluster.advance(to: cluster.time + .milliseconds(Self.probeMilliseconds))
        let needsSession = cluster.policyAtRest.customStatusNeedsSession
        for user in users where cluster.truth.newestAcknowledged(user)?.text != Self.finalStatus(of: user) {
            if needsSession, cluster.truth.presences[user].openCount == 0 { continue }
            cluster.violate(.everyCallIsAnswered, "user-\(user) sets its status when everything is at rest, and is not told that it is set")
        }
        if cluster.violation == nil { cluster.twice { ViewChecks.checkViews($0) } }
    }

    private static func finalStatus(of user: Int) -> String { "the last word of \(user)" }

    /// Checks that a client at rest receives only users of its user's list.
    static func checkListed(_ told: SimulatedClient.ReceivedStatus, of target: Int, _ client: Int, _ cluster: SimulatedCluster) {
        let user = cluster.clients[client].user
        guard let probed = cluster.probed, !probed[user].contains(target) else { return }
        cluster.violate(.onlyFollowedUsersAreSent, "user-\(user) is told \(told) of user-\(target), whom its list does not name")
    }
}
