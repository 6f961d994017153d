import PresenceCore
import PresenceWire

/// One process of the cluster: the core and the gateways that ship, and what survives its death.
///
/// A class, so that looking at one node of many never copies it: a core is large.
final class SimulatedNode {
    let id: NodeID
    let gatewaysCount: Int
    let settings: CoreSettings
    var core: Node
    /// The names of the core's peers, as far as they were asked for: they keep their places as long as it lives.
    private var peerIDs: [NodeID] = []
    private(set) var gateways: [GatewayBox]
    /// The client of each session of each gateway.
    var clients: [[Int?]]
    var isUp = false
    /// Counts the starts: what belongs to an earlier one is void.
    var run = 0
    var generation: UInt64 = 0
    /// When the present run began.
    var startedAt: Nanoseconds = 0
    /// The ring that it went by when that was last looked at.
    var ring: UInt64 = 0
    /// By user, who owned it by that ring; empty before the first one.
    var owners: [NodeID] = []
    /// When another node took it for a member last, which had not, or not any more.
    var metAt: Nanoseconds = 0
    /// When it last took nobody else for alive.
    var aloneAt: Nanoseconds = .min / 2
    /// When each run that ended by a kill did its last work that may have lasted, by ``worked(at:)``.
    var deaths: [Int: Nanoseconds] = [:]
    /// When it goes on that stands still.
    var pausedUntil: Nanoseconds = 0
    /// How long it has stood still, or will have then.
    var stoodStill: Nanoseconds = 0
    /// What came while the node stood still.
    var deferred: [Occurrence.What] = []
    /// How far the wall clock is from the true time.
    var clockOffset: Milliseconds = 0
    var sessionsCount: UInt64 = 0
    var disk = SimulatedDisk()
    /// When the disk was full last, by ``worked(at:)``: from then on it took nothing, as long as it is.
    var filledAt: Nanoseconds = 0
    var ticksCount = 0
    var isLeaving = false
    /// Its last word reached the others before it ended.
    var hasLeft = false
    /// When a node that drains ends, whether what it held is elsewhere or not.
    var leaveDeadline: Nanoseconds = 0
    var downMilliseconds = 0
    /// Empty: memory for the effects of the core.
    var spareEffects: [Node.Effect] = []
    /// Operations that clients wait for, by token.
    var calls: [UInt64: SimulatedCall] = [:]

    static let cluster = "simulated"

    /// How long it has worked: what it did just before it stood still may be the last that it did.
    func worked(at time: Nanoseconds) -> Nanoseconds { max(time, pausedUntil) - stoodStill }

    init(index: Int, options: SimulationOptions) {
        id = NodeID("node-\(index)")
        gatewaysCount = options.gatewaysCount
        settings = options.settings
        core = Self.core(id, generation: 1, gatewaysCount: gatewaysCount, settings: settings)
        gateways = []
        clients = []
    }

    private static func core(_ id: NodeID, generation: UInt64, gatewaysCount: Int, settings: CoreSettings) -> Node {
        let peer = Peer(id: id, generation: generation, address: "\(id):7601")
        return Node(selfPeer: peer, cluster: cluster, gatewaysCount: gatewaysCount, joins: true, settings: settings)
    }

    /// Begins with nothing but what is on the disk; `noteWrite` is told what is written there at once.
    func start(at now: Now, noteWrite: (Row) -> Void) throws(RowError) {
        run += 1
        isUp = true
        (ring, owners) = (0, [])
        isLeaving = false
        hasLeft = false
        generation = max(generation + 1, UInt64(now.wall))
        sessionsCount = 0
        core = Self.core(id, generation: generation, gatewaysCount: gatewaysCount, settings: settings)
        peerIDs = []
        gateways = (0..<gatewaysCount).map { _ in GatewayBox(node: id) }
        clients = Array(repeating: [], count: gatewaysCount)
        for row in disk.sortedRows() { try core.load(row, at: now) }
        core.loaded(at: now) { row in
            noteWrite(row)
            return disk.writesAtOnce(row)
        }
    }

    /// Dies with everything but its disk. Returns the operations that nobody will answer.
    func die(keepsGroup: Bool) -> [SimulatedCall] {
        isUp = false
        pausedUntil = 0
        deferred = []
        disk.crash(keepsGroup: keepsGroup)
        let lost = openCalls
        calls = [:]
        return lost
    }

    /// In the order in which they were made.
    var openCalls: [SimulatedCall] { calls.sorted { $0.key < $1.key }.map(\.value) }

    /// Looks at the core in its place: a method of ``core`` itself is called on a copy, whose counting of references took a fifth of all time.
    func look<Result>(_ body: (inout Node) -> Result) -> Result { body(&core) }

    /// The name of one of the core's peers.
    func peerID(_ peer: PeerIndex) -> NodeID {
        while peerIDs.count <= peer { peerIDs.append(core.cluster.peerID(peerIDs.count)) }
        return peerIDs[peer]
    }

    func peerIndex(_ id: NodeID) -> PeerIndex? { peerIDs.firstIndex(of: id) ?? core.cluster.peerIndex(id) }

    /// What the core holds of a user.
    func kept(_ user: UserID) -> (record: Record, subscriptions: [Subscription]) { look { $0.owner.kept(user) } }

    func now(_ time: Nanoseconds) -> Now {
        Now(instant: Instant(nanoseconds: time + 1), wall: SimulatedCluster.epoch + time / 1_000_000 + clockOffset)
    }
}

/// A gateway of a simulated node. A class, because an array cannot hold a value that is never copied.
final class GatewayBox {
    var value: Gateway

    init(node: NodeID) { value = Gateway(node: node, settings: GatewaySettings()) }
}

/// An operation under way, and who asked.
struct SimulatedCall {
    let user: Int
    /// The device that asked; nil for a part of the app that has no stream.
    let client: Int?
    let call: Call
    let at: Nanoseconds
    /// When it was made every node knew all the others, and had heard what they hold.
    var isOfKnownMembers = false
}
