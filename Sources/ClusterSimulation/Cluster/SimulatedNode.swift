import PresenceCore
import PresenceWire

/// A process of the simulated cluster, with its faults and its clock.
final class SimulatedNode: ClusterProcess {
    /// The number of starts. An event of an earlier run is ignored.
    var run = 0
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
    /// The difference of the system clock from the true time.
    var systemOffset: Milliseconds = 0
    /// The current jump of the system clock.
    var jump: Milliseconds = 0
    /// The node's clock; its offset is the difference from the true time.
    private var clock = SteadyClock(offset: 0)
    /// The time at which the disk was last full, by ``worked(at:)``. It stores nothing while it is full.
    var filledAt: Nanoseconds = 0
    var ticksCount = 0
    var isLeaving = false
    /// Whether its last messages reached the others before it ended.
    var hasLeft = false
    /// The time at which a draining node ends, whether or not its slots have moved, and how long it stays down then.
    var leaving: (deadline: Nanoseconds, downMilliseconds: Int) = (0, 0)
    /// Its part in the contest of two processes for one node ID; nil in other histories.
    var twin: Twins.State?

    static let cluster = "simulated"

    /// The node's working time. Its work just before a pause may be the last that it does.
    func worked(at time: Nanoseconds) -> Nanoseconds { max(time, pausedUntil) - stoodStill }

    /// Whether it is a member's machine, or is about to be.
    var isInUse: Bool { twin?.isSpare != true }

    init(index: Int, options: HistoryOptions) {
        var setup = Setup(cluster: Self.cluster, gatewaysCount: options.gatewaysCount, joins: true, settings: options.settings)
        let isSpare = index == options.nodesCount
        let id = isSpare ? options.twinned ?? index : index
        setup.address = "node-\(index):7601"
        if id == options.twinned { twin = Twins.State(isSpare: isSpare) }
        super.init(NodeID("node-\(id)"), setup)
    }

    /// Starts the node with its disk. `noteWrite` receives the rows that it writes at once.
    func start(at now: Now, noteWrite: (Row) -> Void) throws(RowError) {
        run += 1
        clock = SteadyClock(offset: systemOffset + jump)
        (ring, owners) = (0, [])
        isLeaving = false
        hasLeft = false
        try start(generation: max(generation + 1, UInt64(now.wall)), at: now, noteWrite: noteWrite)
    }

    /// Ends the process; only its disk remains.
    func die(keepsGroup: Bool) {
        end(keepsGroup: keepsGroup)
        pausedUntil = 0
        deferred = []
    }

    /// The record and the subscriptions that the core holds of a user.
    func kept(_ user: UserID) -> (record: Record, subscriptions: [Subscription]) { look { $0.owner.kept(user) } }

    /// The difference of the node's clock from the true time.
    var clockOffset: Milliseconds { clock.offset }

    /// Reads the system clock at a tick. Returns how far it is ahead.
    func followSystemClock() -> Milliseconds { clock.follow(systemOffset + jump) }

    /// Ends all jumps: the system clock shows the node's time.
    func confirmClock() { (systemOffset, jump) = (clock.offset, 0) }

    func adoptSystemClock() { clock.adopt(systemOffset + jump) }

    /// The clocks of a process that starts now.
    func nowAtStart(_ time: Nanoseconds) -> Now {
        Now(instant: Instant(nanoseconds: time + 1), wall: SimulatedCluster.epoch + time / 1_000_000 + systemOffset + jump)
    }

    func now(_ time: Nanoseconds) -> Now {
        Now(instant: Instant(nanoseconds: time + 1), wall: SimulatedCluster.epoch + time / 1_000_000 + clock.offset)
    }
}
