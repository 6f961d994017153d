import PresenceCore
import PresenceWire

/// Checks, some seconds after healing, that every view equals the owner's record.
enum ViewChecks {
    static func checkViews(_ cluster: SimulatedCluster) {
        for client in cluster.clients.indices where cluster.clients[client].stream != nil {
            let user = cluster.clients[client].user
            for target in cluster.followed(by: user) where target == user || cluster.policyAtRest.publishesOthers {
                checkView(client, target, cluster)
            }
        }
    }

    private static func checkView(_ client: Int, _ target: Int, _ cluster: SimulatedCluster) {
        guard let owner = cluster.owner(of: target) else { return cluster.violate(.membersAgree, "nobody owns user-\(target)") }
        let kept = cluster.nodes[owner].kept(cluster.userID(target)).record
        let record = kept.shown(to: cluster.userID(cluster.clients[client].user))
        guard record.lastUpdateTime + 1_500 < cluster.nodes[owner].now(cluster.time).wall else { return }  // It changes just now.
        let device = cluster.clients[client]
        let view = device.view[target]
        let hides = cluster.isExcused(by: .hides(target, from: nil))
        if view == nil, record.version == .zero || (hides && record.looksLike(Record(blank: record.user))) { return }
        // A new visibility goes only to viewers who see something else than the nodes know to have been sent.
        let isUntold = kept.privacy?.version == kept.version || record.version < kept.version
        if let view, view.version > record.version.text || isUntold, cluster.isExcused(by: .lastMessage(view.source)) { return }
        // A change that nobody sees moves the version, and no stream sends it. Everything else is the same.
        let hidden = hiddenMembers(of: target, client, cluster)
        if view?.looksLike(record, to: cluster.userID(device.user), cluster.policyAtRest, without: hidden) ?? false { return }
        let words = "\(device) sees \(view.map { "\($0)" } ?? "nothing") of user-\(target)"
        cluster.violate(.viewsEqualRecords, "\(words), its owner \(cluster.nodes[owner].id) has \(record.words)")
    }

    /// The members that a change of the policy shows or hides, unless the client certainly knows them.
    private static func hiddenMembers(of user: Int, _ client: Int, _ cluster: SimulatedCluster) -> [String] {
        guard cluster.isExcused(by: .policiesMayMeet) else { return [] }
        let own = cluster.truth.policy.hasHiddenOwnStatus && cluster.clients[client].user == user ? ["statusType", "lastUpdateTime"] : []
        return cluster.truth.policy.hasHiddenPlatforms ? own + ["onlinePlatforms"] : own
    }

    /// Whether a node ended, or its disk was full, before what it sent had reached another node. If it is cut off and replaced, that is all
    /// that it sends. The next change is newer. A cluster of one is not excused: it gives new versions to all records that it finds.
    static func isLastMessage(of source: SimulatedClient.Source?, _ cluster: SimulatedCluster) -> Bool {
        guard cluster.nodes.count > 1 || cluster.isExcused(by: .boundOfClockLost), let source,
            let death = cluster.nodes[source.node].deaths[source.run]
        else { return false }
        let lasts = SimulatedCluster.lastMessageMilliseconds * (source.hasSlowDisk ? 2 : 1)
        return death - source.at < .milliseconds(lasts) + Twins.cutOffTime(of: source.node, cluster) || source.hasFullDisk
    }
}
