import PresenceCore
import PresenceWire

/// One process of a cluster: the core and the gateways that ship, and the disk that survives its death.
///
/// It carries out the effects that stay inside the process. Its host receives the others from ``turn(at:_:)``, and decides when messages
/// arrive, writes end and rings are computed. It is a class, because an array cannot hold a noncopyable value.
package class ClusterProcess {
    /// The settings of all runs of a process.
    struct Setup {
        /// The cluster's name.
        var cluster: String
        /// The address of the cluster port; nil for that of the node ID.
        var address: String?
        var gatewaysCount = 1
        /// Whether the node has contact points: see ``PresenceCore/Node``.
        var joins: Bool
        var settings = CoreSettings()
        var gatewaySettings = GatewaySettings()
    }

    /// An output that leaves the process in a turn.
    enum Output {
        /// The pushes and the ends of sessions of a gateway.
        case gateway(Int, Gateway.Output)
        /// Messages of a gateway that runs on another event loop than the node.
        case toCore(from: Int, [GatewayMessage])
        case toGateway(Int, [NodeMessage])
        /// An effect of the core, and all effects of its turn. The process then writes the rows to its disk, and deletes rows there.
        case effect(Node.Effect, of: [Node.Effect])
        /// The core has no more effects in this turn.
        case turnEnded
    }

    final let id: NodeID
    final let setup: Setup
    package final var node: Node
    /// The names of the core's peers that were read. A peer keeps its index as long as the core lives.
    final private var peerIDs: [NodeID] = []
    package private(set) final var gateways: [GatewayBox] = []
    /// The client of each session of each gateway.
    final private var clients: [[Int?]] = []
    package final var isUp = false
    final private(set) var generation: UInt64 = 0
    final private var sessionsCount: UInt64 = 0
    package final var disk = SimulatedDisk()
    /// Empty memory for the effects of the node.
    final private var spareEffects: [Node.Effect] = []

    init(_ id: NodeID, _ setup: Setup) {
        self.id = id
        self.setup = setup
        node = Self.node(id, generation: 1, setup)
    }

    private static func node(_ id: NodeID, generation: UInt64, _ setup: Setup) -> Node {
        let peer = Peer(id: id, generation: generation, address: setup.address ?? "\(id):7601")
        return Node(
            selfPeer: peer, cluster: setup.cluster, gatewaysCount: setup.gatewaysCount, joins: setup.joins, settings: setup.settings)
    }

    /// Starts the process with its disk. `noteWrite` receives the rows that it writes at once.
    final func start(generation: UInt64, at now: Now, noteWrite: (Row) -> Void) throws(RowError) {
        isUp = true
        self.generation = generation
        sessionsCount = 0
        node = Self.node(id, generation: generation, setup)
        peerIDs = []
        gateways = (0..<setup.gatewaysCount).map { _ in GatewayBox(node: id, setup.gatewaySettings) }
        clients = Array(repeating: [], count: setup.gatewaysCount)
        for row in disk.sortedRows() { try node.load(row, at: now) }
        node.loaded(at: now) { row in
            noteWrite(row)
            return disk.writesAtOnce(row)
        }
    }

    /// Ends the process; only its disk remains.
    ///
    /// - Parameter keepsGroup: whether the writes under way reach the disk.
    final func end(keepsGroup: Bool) {
        isUp = false
        disk.crash(keepsGroup: keepsGroup)
    }

    /// Calls `body` with the core in place.
    final func look<Result>(_ body: (inout Node) -> Result) -> Result { body(&node) }

    /// The name of one of the core's peers.
    final func peerID(_ peer: PeerIndex) -> NodeID {
        while peerIDs.count <= peer { peerIDs.append(node.cluster.peerID(peerIDs.count)) }
        return peerIDs[peer]
    }

    final func peerIndex(_ id: NodeID) -> PeerIndex? { peerIDs.firstIndex(of: id) ?? node.cluster.peerIndex(id) }

    // MARK: Sessions

    /// The ID of the next session. The gateways of a process share the numbers.
    final func nextSession() -> SessionID {
        sessionsCount += 1
        let peer = node.cluster.own
        return SessionID(stamp: peer.generation << 20 + sessionsCount, node: peer.versionNode)
    }

    /// Opens a session of a client.
    final func open(
        _ attach: Attach, of client: Int, at gateway: Int, until expiresAt: Milliseconds = .max, resumeFrom: Milliseconds?, at now: Now
    ) -> Gateway.SessionIndex {
        let session = gateways[gateway].value.open(attach, until: expiresAt, resumeFrom: resumeFrom, at: now)
        while clients[gateway].count <= Int(session) { clients[gateway].append(nil) }
        clients[gateway][Int(session)] = client
        return session
    }

    /// Ends a session at its gateway.
    final func close(_ session: Gateway.SessionIndex, of gateway: Int, cause: Detach.Cause) {
        gateways[gateway].value.close(session, cause: cause)
        clients[gateway][Int(session)] = nil
    }

    /// The client of an open session.
    final func client(of session: Gateway.SessionIndex, at gateway: Int) -> Int? { clients[gateway][Int(session)] }

    // MARK: Effects

    /// Carries out the effects of the gateways and of the core once, and passes on those that leave the process, in order.
    ///
    /// - Returns: whether there were effects. They may have caused others.
    final func turn(at now: Now, _ passOn: (Output) -> Void) -> Bool {
        var isBusy = false
        for gateway in gateways.indices {
            gateways[gateway].value.endTurn()
            guard !gateways[gateway].value.output.isEmpty else { continue }
            isBusy = true
            let output = gateways[gateway].value.output
            gateways[gateway].value.output = Gateway.Output()
            passOn(.gateway(gateway, output))
            if gateway == 0 {
                for message in output.toNode { node.receive(message, from: 0, at: now) }
            } else if !output.toNode.isEmpty {
                passOn(.toCore(from: gateway, output.toNode))
            }
        }
        guard !node.effects.isEmpty else { return isBusy }
        carryOut(passOn)
        return true
    }

    private func carryOut(_ passOn: (Output) -> Void) {
        // As in the shell, the memory of the effects is used again.
        var effects: [Node.Effect] = []
        swap(&effects, &spareEffects)
        swap(&effects, &node.effects)
        defer {
            effects.removeAll(keepingCapacity: true)
            swap(&effects, &spareEffects)
        }
        var crossing: [[NodeMessage]] = []
        for effect in effects {
            switch effect {
            case .send(0, let message): gateways[0].value.receive(message)
            case .send(let gateway, let message):
                if crossing.isEmpty { crossing = Array(repeating: [], count: gateways.count) }
                crossing[gateway].append(message)
            case .persist(let rows, let ticket, let isUrgent):
                passOn(.effect(effect, of: effects))
                disk.write(rows, ticket: ticket, isUrgent: isUrgent)
            case .deleteSlots(let slots):
                passOn(.effect(effect, of: effects))
                disk.deleteSlots(Set(slots))
            case .deleteRows(let rows):
                passOn(.effect(effect, of: effects))
                disk.deleteRows(rows)
            case .answer, .connect, .transmit, .computeRing, .superseded, .membership, .followSystemClock, .deliver, .traced, .truncateLog,
                .resumeDeletion:
                passOn(.effect(effect, of: effects))
            }
        }
        for (gateway, messages) in crossing.enumerated() where !messages.isEmpty { passOn(.toGateway(gateway, messages)) }
        passOn(.turnEnded)
    }
}

/// A gateway of a process. It is a class, because an array cannot hold a noncopyable value.
package final class GatewayBox {
    package var value: Gateway

    init(node: NodeID, _ settings: GatewaySettings) { value = Gateway(node: node, settings: settings) }
}
