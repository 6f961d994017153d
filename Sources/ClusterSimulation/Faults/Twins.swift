import PresenceCore
import PresenceWire

/// Two processes with one node ID on two machines, and what the shell of a node does about it: it asks its contact points before it starts,
/// and ends when the others refuse it.
public enum Twins {
    /// The start of a second process with the node ID of a member.
    public struct Start: Sendable {
        /// The machine that is cut off from the start on.
        public enum Cut: Sendable {
            case none
            /// The member cannot reach the other nodes. It still reaches the second process.
            case member
            /// The second process cannot reach its contact point.
            case newcomer
        }

        /// The node through which the second process joins.
        let contact: Int
        /// Whether its disk is a copy of the member's, or empty.
        let hasDisk: Bool
        let cut: Cut
        let cutMilliseconds: Int
        /// The time from the beginning of the cut to the start.
        let delayMilliseconds: Int
    }

    enum Event {
        /// The second process starts, and asks its contact point whether it is accepted.
        case ask(Start, since: Nanoseconds)
        /// A process that was refused ends.
        case end(node: Int, run: Int)
        /// One of the two processes serves by now, and the other has ended.
        case check(Start)
    }

    /// The part of a machine in the contest for a node ID.
    struct State {
        /// Whether no process of a member is on this machine, or is to be.
        var isSpare: Bool
        /// The node through which the process joins; nil for all others.
        var contact: Int?
        /// The time since which all nodes refuse the process because an earlier one uses the ID.
        var inUseSince: Nanoseconds?
        /// Why the process has ended, or is about to.
        var reason: HelloRefusal?
    }

    /// The interval of questions before the start (`RollcallNode.askInterval`).
    private static let askInterval: Nanoseconds = .milliseconds(500)
    /// The time that a process waits for an answer of its contact point before it starts alone.
    private static let answerMax: Nanoseconds = .milliseconds(3_000)
    /// The time for which a process takes the refusal that its ID is in use (`LinkRefusal.Kind.inUsePatience`).
    private static let inUsePatience: Nanoseconds = .milliseconds(3_000)
    /// The time that the clients of a process have before it ends (`RollcallNode.supersededTimeout`).
    private static let endTimeout: Nanoseconds = .milliseconds(2_000)
    /// The time within which a process ends that may not serve.
    private static let endMax: Nanoseconds = .milliseconds(5_000)
    /// The time that a link takes to connect again.
    private static let reconnectMax: Nanoseconds = .milliseconds(2_000)

    /// The longest time from the beginning of a cut to the end of the member's process.
    private static let cutToEndMax: Nanoseconds = .milliseconds(14_000) + reconnectMax + endTimeout

    private static func newcomer(_ cluster: SimulatedCluster) -> Int { cluster.options.nodesCount }

    // MARK: Start

    /// Cuts a machine off, and lets the second process start.
    static func start(_ start: Start, _ cluster: inout SimulatedCluster) {
        let newcomer = newcomer(cluster)
        guard let member = cluster.options.twinned, cluster.nodes[member].isUp, !cluster.nodes[newcomer].isUp else { return }
        let links: [(Int, Int)] =
            switch start.cut {
            case .none: []
            case .member: (0..<newcomer).filter { $0 != member }.map { (member, $0) }
            case .newcomer: [(newcomer, start.contact)]
            }
        for (one, other) in links {
            let end = cluster.time + .milliseconds(start.cutMilliseconds)
            cluster.network[cluster.network.link(one, other)].block(until: end)
            cluster.network[cluster.network.link(other, one)].block(until: end)
        }
        let (delay, cut) = (Nanoseconds.milliseconds(start.delayMilliseconds), Nanoseconds.milliseconds(start.cutMilliseconds))
        cluster.stage.plan(.twin(.ask(start, since: cluster.time + delay)), after: delay)
        let endedAfter =
            switch start.cut {
            case .none: delay + endMax
            case .member: max(cut, delay) + reconnectMax + endMax
            case .newcomer: max(cut, delay + answerMax) + reconnectMax + inUsePatience + endMax
            }
        cluster.stage.plan(.twin(.check(start)), after: endedAfter)
    }

    static func handle(_ event: Event, _ cluster: inout SimulatedCluster) {
        switch event {
        case .ask(let start, let since): ask(start, since: since, &cluster)
        case .check(let start):
            if let problem = problem(after: start, cluster) { cluster.violate(.oneProcessServes, problem) }
        case .end(let node, let run):
            guard cluster.isRunning(node, run) else { return }
            cluster.nodes[node].node.leave(at: cluster.nodes[node].now(cluster.time))
            cluster.obey(node)
            cluster.nodes[node].twin?.isSpare = true
            ProcessLife.kill(node, &cluster)
        }
    }

    /// Asks the contact point. A process that it accepts starts, and so does one that it does not answer.
    private static func ask(_ start: Start, since: Nanoseconds, _ cluster: inout SimulatedCluster) {
        let newcomer = newcomer(cluster)
        guard let member = cluster.options.twinned, !cluster.nodes[newcomer].isUp else { return }
        cluster.nodes[newcomer].twin?.contact = start.contact
        let (there, back) = (cluster.network.link(newcomer, start.contact), cluster.network.link(start.contact, newcomer))
        let isAnswered =
            cluster.nodes[start.contact].isUp && !cluster.network[there].isBlocked(at: cluster.time)
            && !cluster.network[back].isBlocked(at: cluster.time)
        guard isAnswered, let refusal = refusal(by: start.contact, cluster) else {
            if start.hasDisk {
                cluster.nodes[newcomer].disk = cluster.nodes[member].disk
                cluster.nodes[newcomer].disk.crash(keepsGroup: false)
            }
            return cluster.stage.plan(.start(node: newcomer), after: isAnswered ? 1_000_000 : answerMax)
        }
        if cluster.time - since < inUsePatience { return cluster.stage.plan(.twin(.ask(start, since: since)), after: askInterval) }
        cluster.nodes[newcomer].twin?.reason = refusal
        cluster.journal.note(40, newcomer, start.contact, "a second \(cluster.nodes[newcomer].id) does not start: \(refusal)")
    }

    /// The answer of a node to the question of the second process.
    private static func refusal(by contact: Int, _ cluster: SimulatedCluster) -> HelloRefusal? {
        let process = cluster.nodes[newcomer(cluster)]
        let now = process.nowAtStart(cluster.time)
        let peer = Peer(id: process.id, generation: UInt64(now.wall), address: process.setup.address ?? "")
        let hello = Hello(cluster: SimulatedNode.cluster, sender: peer, members: [peer], wall: now.wall)
        return cluster.nodes[contact].look { [now = cluster.nodes[contact].now(cluster.time)] in $0.refusal(of: hello, at: now) }
    }

    /// The nodes to which a node links when it starts.
    static func contacts(of node: Int, _ cluster: SimulatedCluster) -> [Int] {
        if let contact = cluster.nodes[node].twin?.contact { return [contact] }
        return (0..<cluster.options.nodesCount).filter { $0 != node }
    }

    // MARK: Links

    /// The evidence of an attempt to connect that was refused: by the machine, or by a process that listens.
    static func loss(_ link: SimulatedLink) -> Membership.LinkLoss {
        link.refusal == nil ? .refused(generation: link.tried?.generation ?? 0) : .silent
    }

    /// The machine of a member, by the newest live link of a node.
    static func host(of id: NodeID, linkedFrom node: Int, _ cluster: SimulatedCluster) -> Int? {
        let first = cluster.nodes.firstIndex { $0.id == id }
        guard let first, cluster.nodes[first].twin != nil else { return first }
        let link = { (host: Int) in cluster.network[cluster.network.link(node, host)] }
        let hosts = cluster.nodes.indices.filter { cluster.nodes[$0].id == id && link($0).state == .live }
        return hosts.max { link($0).expected?.generation ?? 0 < link($1).expected?.generation ?? 0 } ?? first
    }

    /// Gives up the links of a node to other addresses of a member (`OutgoingLinks.connect`).
    static func giveUpLinks(of node: Int, to peer: Peer, _ cluster: inout SimulatedCluster) {
        guard cluster.options.kind == .twoProcessesShareID else { return }
        let target = cluster.nodeIndex(peer.address)
        for host in cluster.nodes.indices where cluster.nodes[host].id == peer.id && host != target && host != node {
            cluster.network[cluster.network.link(node, host)].drop()
        }
    }

    /// Whether the sender of a batch may go on. A sender whose successor is a member is refused, and ends.
    static func isTaken(_ isTaken: Bool, _ link: Int, _ cluster: inout SimulatedCluster) -> Bool {
        guard !isTaken, cluster.options.kind == .twoProcessesShareID else { return true }
        let (from, to) = (cluster.network[link].from, cluster.network[link].to)
        let process = cluster.nodes[from].look { $0.cluster.own }
        guard let refusal = cluster.nodes[to].look({ $0.cluster.supersession(of: process) }) else { return true }
        cluster.network[link].refusal = refusal
        cluster.network.breakLink(link, &cluster.stage)
        end(from, refusal, &cluster)
        cluster.obey(from)
        return false
    }

    // MARK: End

    /// Ends a process that all nodes refuse for good, or for long enough (`NodeState.refused`).
    static func follow(_ node: Int, _ cluster: inout SimulatedCluster) {
        guard let state = cluster.nodes[node].twin, state.reason == nil else { return }
        let links = cluster.nodes.indices.filter { $0 != node }.map { cluster.network[cluster.network.link(node, $0)] }
        let refusals = links.compactMap(\.refusal)
        if let final = refusals.first(where: \.isFinal) { return end(node, final, &cluster) }
        guard !links.contains(where: { $0.state == .live }), let refusal = refusals.first(where: \.isOfUse) else {
            return cluster.nodes[node].twin!.inUseSince = nil
        }
        let since = state.inUseSince ?? cluster.time
        cluster.nodes[node].twin!.inUseSince = since
        if cluster.time - since >= inUsePatience { end(node, refusal, &cluster) }
    }

    /// Ends a process: it asks its clients to leave, and is gone two seconds later.
    static func end(_ node: Int, _ refusal: HelloRefusal, _ cluster: inout SimulatedCluster) {
        let process = cluster.nodes[node]
        guard let state = process.twin else { return cluster.violate(.membersAgree, "\(process.id) is to end: \(refusal)") }
        guard state.reason == nil else { return }
        process.twin?.reason = refusal
        cluster.journal.note(41, node, 0, "\(process.setup.address ?? "") ends: \(refusal)")
        _ = process.node.drain(at: process.now(cluster.time))
        process.isLeaving = true
        for gateway in process.gateways { gateway.value.hintReconnect(reason: "superseded", spread: .milliseconds(1_000)) }
        // The obedient caller of this step carries out the effects.
        cluster.stage.plan(.twin(.end(node: node, run: process.run)), after: endTimeout)
    }

    // MARK: Checks

    /// Why not exactly one of the two processes serves after a start; nil if one does.
    private static func problem(after start: Start, _ cluster: SimulatedCluster) -> String? {
        guard let member = cluster.options.twinned else { return nil }
        let newcomer = newcomer(cluster)
        let isReplaced = start.cut == .member && start.contact != member
        let (right, wrong) = isReplaced ? (newcomer, member) : (member, newcomer)
        let (serving, ended) = (cluster.nodes[right], cluster.nodes[wrong])
        let words = "two processes are \(serving.id), \(start)"
        guard serving.isUp, serving.twin?.reason == nil, serving.look({ $0.statistics.slotsOwned }) > 0 else {
            return "\(words): machine \(right) does not serve: \(serving.twin?.reason.map { "\($0)" } ?? "no reason")"
        }
        guard !ended.isUp else { return "\(words): the process on machine \(wrong) has not ended" }
        let isRight = isReplaced ? ended.twin?.reason?.isFinal : ended.twin?.reason?.isOfUse
        return isRight == true ? nil : "\(words): machine \(wrong) ended: \(ended.twin?.reason.map { "\($0)" } ?? "no reason")"
    }

    /// The time for which a process of a machine may have gone on without the others before its end, because it was cut off and replaced.
    static func cutOffTime(of node: Int, _ cluster: SimulatedCluster) -> Nanoseconds {
        cluster.nodes[node].twin?.reason?.isFinal == true ? cutToEndMax : 0
    }

    /// Why a client may not be told that a user has gone: the user has been online for long, and neither the user nor the client is on a
    /// machine in the contest.
    static func flap(_ told: SimulatedClient.ReceivedStatus, of user: Int, _ client: Int, _ cluster: SimulatedCluster) -> String? {
        guard cluster.options.kind == .twoProcessesShareID, told.statusType != "ONLINE", told.statusType != "UNKNOWN",
            !cluster.isExcused(by: .healing), !cluster.isExcused(by: .hides(user, from: nil)),
            let stream = cluster.clients[client].stream, cluster.nodes[stream.node].twin == nil
        else { return nil }
        let first = user * SimulatedClient.devicesPerUser
        let since = cluster.clients[first..<first + SimulatedClient.devicesPerUser].compactMap(\.stream)
            .filter { cluster.nodes[$0.node].twin == nil }.map(\.openedAt).min()
        let toldOf = Nanoseconds(told.lastUpdateTime - SimulatedCluster.epoch) * 1_000_000
        guard let since, cluster.time - since > .milliseconds(6_000), toldOf > since,
            !cluster.isExcused(by: .askedToGo(user, at: toldOf))
        else { return nil }
        let viewer = cluster.clients[client].user
        return "user-\(viewer) is told that user-\(user) is \(told.statusType), who is on a machine without a fault"
    }
}

extension HelloRefusal {
    /// Whether the refused process is never accepted.
    fileprivate var isFinal: Bool {
        switch self {
        case .superseded, .startedBefore: true
        case .protocolVersion, .clusterName, .inUse, .clockSkew: false
        }
    }

    /// Whether an earlier process uses the node ID.
    fileprivate var isOfUse: Bool { if case .inUse = self { true } else { false } }
}
