import PresenceCore
import PresenceWire

/// Virtual nanoseconds since the start of a history.
typealias Nanoseconds = Int64

extension Nanoseconds {
    static func milliseconds(_ count: Int) -> Nanoseconds { Nanoseconds(count) * 1_000_000 }
    var milliseconds: Int { Int(self / 1_000_000) }
}

/// Something that will happen at a moment of virtual time. What happens at the same moment happens in the order in which it was planned.
struct Occurrence: Comparable {
    enum What {
        case step(Int)
        case tick(node: Int, run: Int)
        /// A caller's hello has reached its target, or found nobody.
        case connect(link: Int, attempt: Int)
        /// The caller has learnt that the target took its proof.
        case linked(link: Int, attempt: Int, hello: Hello)
        /// The pause before another attempt is over.
        case retry(link: Int, attempt: Int)
        case refused(link: Int, attempt: Int)
        case broken(link: Int, attempt: Int)
        /// Nothing has been heard for too long.
        case silent(link: Int, attempt: Int)
        case arrive(link: Int, attempt: Int, run: Int, batch: [UInt8])
        case acknowledge(link: Int, attempt: Int)
        case commit(node: Int, run: Int)
        /// Messages of a gateway on another loop than the core's, on their way.
        case fromGateway(node: Int, run: Int, gateway: Int, [GatewayMessage])
        case toGateway(node: Int, run: Int, gateway: Int, [NodeMessage])
        /// A node has computed the ring of its members.
        case placed(node: Int, run: Int, [Ring.Member])
        /// A node begins, or begins again.
        case start(node: Int)
        case leave(node: Int, run: Int)
        case resume(node: Int)
        case emptyDisk(node: Int)
        case connectClient(client: Int, attempt: Int)
        /// Pushes have reached a client.
        case read(client: Int, attempt: Int)
        case streamEnded(client: Int, attempt: Int)
        /// A gateway has noticed that a device is gone.
        case missed(client: Int, attempt: Int)
    }

    let at: Nanoseconds
    let order: UInt64
    let what: What

    static func < (left: Occurrence, right: Occurrence) -> Bool { (left.at, left.order) < (right.at, right.order) }
    static func == (left: Occurrence, right: Occurrence) -> Bool { left.order == right.order }
}
