import PresenceCore
import PresenceWire

/// A cluster at rest does all that it promises: what changes now is seen by everybody who follows, and by nobody else. Whatever a fault has
/// left behind in a gateway or an owner, and no checker looks at, shows here.
extension SimulatedCluster {
    /// A change takes no longer, when nothing is wrong.
    static let probeMilliseconds = 3_000
    /// Between two changes: all at once would be too much for a link whose queue is short.
    static let probeInterval = 50

    /// Every user changes its custom status; of many, those that somebody follows.
    mutating func probe() {
        let lists = truth.isConcerned.indices.map { truth.isConcerned[$0] ? followed(by: $0) : [] }
        probed = lists
        var users = Array(0..<options.usersCount)
        if users.count > SimulationOptions.stagedUsersMax {
            users = Array(Set(lists.joined()).sorted().prefix(SimulationOptions.stagedUsersMax))
        }
        for user in users {
            call(.setSelfStatus(customStatus: Self.lastWord(of: user), seconds: nil), by: user)
            advance(to: time + .milliseconds(Self.probeInterval))
        }
        advance(to: time + .milliseconds(Self.probeMilliseconds))
        let needsSession = policyAtRest.customStatusNeedsSession
        for user in users where truth.newestAcknowledged(user)?.text != Self.lastWord(of: user) {
            if needsSession, truth.presences[user].openCount == 0 { continue }
            violate(.everyCallIsAnswered, "user-\(user) sets its status when everything is at rest, and is not told that it is set")
        }
        if violation == nil { twice { $0.checkViews() } }
    }

    private static func lastWord(of user: Int) -> String { "the last word of \(user)" }

    /// A client is told of somebody while everything is at rest: only of those whom its user's list named.
    mutating func checkListed(_ told: SimulatedClient.Told, of target: Int, _ client: Int) {
        let user = clients[client].user
        guard let probed, !probed[user].contains(target) else { return }
        violate(.onlyFollowedUsersAreTold, "user-\(user) is told \(told) of user-\(target), whom its list does not name")
    }
}
