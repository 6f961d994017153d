import PresenceCore
import PresenceWire

/// One process of the cluster: the core and the gateways that ship, and the disk that survives its death.
///
/// It is a class, because an array cannot hold a noncopyable value.
final class SimulatedNode {
    let id: NodeID
    let gatewaysCount: Int
    let settings: CoreSettings
    var core: Node
    /// The names of the core's peers that were read. A peer keeps its index as long as the core lives.
    private var peerIDs: [NodeID] = []
    private(set) var gateways: [GatewayBox]
    /// The client of each session of each gateway.
    var clients: [[Int?]]
    var isUp = false
    /// The number of starts. An event of an earlier run is ignored.
    var run = 0
    var generation: UInt64 = 0
    /// The start of the current run.
    var startedAt: Nanoseconds = 0
    /// The node's ring when it was last read.
    var ring: UInt64 = 0
    /// The owner of each user by that ring; empty before the first one.
    var owners: [NodeID] = []
    /// The last time at which another node took this one for a member that it had not been.
    var metAt: Nanoseconds = 0
    /// The last time at which it considered no other node alive.
    var aloneAt: Nanoseconds = .min / 2
    /// For each run that ended by a kill the time of its last work that may have lasted, by ``worked(at:)``.
    var deaths: [Int: Nanoseconds] = [:]
    /// The time at which a paused node resumes.
    var pausedUntil: Nanoseconds = 0
    /// The total pause, including the current one.
    var stoodStill: Nanoseconds = 0
    /// The events that arrived while the node was paused.
    var deferred: [SimulationEvent.What] = []
    /// The difference of the wall clock from the true time.
    var clockOffset: Milliseconds = 0
    var sessionsCount: UInt64 = 0
    var disk = SimulatedDisk()
    /// The time at which the disk was last full, by ``worked(at:)``. It stores nothing while it is full.
    var filledAt: Nanoseconds = 0
    var ticksCount = 0
    var isLeaving = false
    /// Whether its last messages reached the others before it ended.
    var hasLeft = false
    /// The time at which a draining node ends, whether or not its slots have moved.
    var leaveDeadline: Nanoseconds = 0
    var downMilliseconds = 0
    /// Empty memory for the effects of the core.
    var spareEffects: [Node.Effect] = []
    /// The calls that clients wait for, by token.
    var calls: [UInt64: SimulatedCall] = [:]

    static let cluster = "simulated"

    /// The node's working time. Its work just before a pause may be the last that it does.
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

    /// Starts the node with its disk. `noteWrite` receives the rows that it writes at once.
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

    /// Ends the process; only its disk remains. Returns the calls that get no answer.
    func die(keepsGroup: Bool) -> [SimulatedCall] {
        isUp = false
        pausedUntil = 0
        deferred = []
        disk.crash(keepsGroup: keepsGroup)
        let lost = openCalls
        calls = [:]
        return lost
    }

    /// The open calls, in the order in which they were made.
    var openCalls: [SimulatedCall] { calls.sorted { $0.key < $1.key }.map(\.value) }

    /// Calls `body` with the core in place.
    func look<Result>(_ body: (inout Node) -> Result) -> Result { body(&core) }

    /// The name of one of the core's peers.
    func peerID(_ peer: PeerIndex) -> NodeID {
        while peerIDs.count <= peer { peerIDs.append(core.cluster.peerID(peerIDs.count)) }
        return peerIDs[peer]
    }

    func peerIndex(_ id: NodeID) -> PeerIndex? { peerIDs.firstIndex(of: id) ?? core.cluster.peerIndex(id) }

    /// The record and the subscriptions that the core holds of a user.
    func kept(_ user: UserID) -> (record: Record, subscriptions: [Subscription]) { look { $0.owner.kept(user) } }

    func now(_ time: Nanoseconds) -> Now {
        Now(instant: Instant(nanoseconds: time + 1), wall: SimulatedCluster.epoch + time / 1_000_000 + clockOffset)
    }
}

/// A gateway of a simulated node. It is a class, because an array cannot hold a noncopyable value.
final class GatewayBox {
    var value: Gateway

    init(node: NodeID) { value = Gateway(node: node, settings: GatewaySettings()) }
}

/// A call under way, and its caller.
struct SimulatedCall {
    let user: Int
    /// The calling device; nil for a part of the app without a stream.
    let client: Int?
    let call: Call
    let at: Nanoseconds
    /// Whether every node knew all others, and had received their rows, when the call was made.
    var isOfKnownMembers = false
}
