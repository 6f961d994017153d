import HeapModule
import PresenceCore
import PresenceWire

/// Virtual nanoseconds since the start of a history.
typealias Nanoseconds = Int64

extension Nanoseconds {
    static func milliseconds(_ count: Int) -> Nanoseconds { Nanoseconds(count) * 1_000_000 }
    var milliseconds: Int { Int(self / 1_000_000) }
}

/// An event of the simulation at a moment of virtual time.
///
/// Events of the same moment happen in the order in which they were scheduled.
struct SimulationEvent {
    enum What {
        case step(Int)
        case tick(node: Int, run: Int)
        /// A caller's hello arrives at its target, or the target is down.
        case connect(link: Int, attempt: Int)
        /// The caller learns that the target has accepted its proof.
        indirect case linked(link: Int, attempt: Int, hello: Hello)
        /// The pause before the next attempt is over.
        case retry(link: Int, attempt: Int)
        case refused(link: Int, attempt: Int)
        case broken(link: Int, attempt: Int)
        /// The link was silent for too long.
        case silent(link: Int, attempt: Int)
        case arrive(link: Int, attempt: Int, run: Int, connection: ConnectionID, batch: [UInt8])
        case acknowledge(link: Int, attempt: Int)
        case commit(node: Int, run: Int)
        /// Messages arrive from a gateway that runs on another event loop than the core.
        case fromGateway(node: Int, run: Int, gateway: Int, [GatewayMessage])
        case toGateway(node: Int, run: Int, gateway: Int, [NodeMessage])
        /// A node has computed the ring of its members.
        case ringComputed(node: Int, run: Int, [Ring.Member])
        /// A node starts, for the first time or again.
        case start(node: Int)
        case leave(node: Int, run: Int)
        /// A node that has left ends.
        case end(node: Int, run: Int)
        case resume(node: Int)
        case emptyDisk(node: Int)
        /// A clock that has jumped comes back.
        case correctClock(node: Int)
        /// The fault of a machine should have shown its effect by now: see ``MachineFaultChecks``.
        case checkFault(node: Int, run: Int, MachineFaultChecks.Phase)
        case twin(Twins.Event)
        case connectClient(client: Int, attempt: Int)
        /// Pushes arrive at a client.
        case read(client: Int, attempt: Int)
        case streamEnded(client: Int, attempt: Int)
        /// A gateway notices that a device is gone.
        case missed(client: Int, attempt: Int)
        /// A session should have received an event by now: see ``Truth/expectations``.
        case expectEvent(Int)
        /// All nodes should apply a kick by now: see ``Truth/kicks``.
        case expectKick(Int)
        /// A session should have ended by now: see ``SessionLedger``.
        case expectEnd(SessionID)
    }

    let at: Nanoseconds
    let order: UInt64
    let what: What
}

/// The scheduled events of the simulation, in order. The heap holds only small keys, because it moves them often.
struct Agenda {
    /// The key in one number, which compares fast: 44 bits of nanoseconds (4.9 h), 56 of the order, 28 of the index.
    private struct Key: Comparable {
        private let bits: UInt128

        init(at: Nanoseconds, order: UInt64, index: Int) {
            precondition(at >= 0 && order < 1 << 56 && index < 1 << 28)
            // An event that is scheduled for later, or for never, comes after every history.
            bits = UInt128(min(at, 1 << 44 - 1)) << 84 | UInt128(order) << 28 | UInt128(index)
        }

        var at: Nanoseconds { Nanoseconds(truncatingIfNeeded: bits >> 84) }
        var index: Int { Int(truncatingIfNeeded: bits) & (1 << 28 - 1) }

        static func < (left: Key, right: Key) -> Bool { left.bits < right.bits }
    }

    private var keys = Heap<Key>()
    private var events: [SimulationEvent?] = []
    private var free: [Int] = []

    /// The time of the next event; nil if there is none.
    var nextAt: Nanoseconds? { keys.min?.at }

    mutating func insert(_ event: SimulationEvent) {
        let index = free.popLast() ?? events.count
        if index == events.count { events.append(event) } else { events[index] = event }
        keys.insert(Key(at: event.at, order: event.order, index: index))
    }

    /// Removes and returns the next event.
    mutating func popFirst() -> SimulationEvent? {
        guard let key = keys.popMin() else { return nil }
        free.append(key.index)
        return events[key.index].take()
    }
}
