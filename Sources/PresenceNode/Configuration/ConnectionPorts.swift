import HTTP2
import Logging
import NIOConcurrencyHelpers
import NIOCore

/// How many connections each of a node's three ports takes.
///
/// A connection that is not taken is counted, and logged once a minute for each port and reason.
struct ConnectionPorts: Sendable {
    let clients: ConnectionLimits
    let nodes: ConnectionLimits
    let operators: ConnectionLimits

    /// - Parameter perAddressMax: connections of one address to the clients' port, 0 for no limit; nil for half of what there is, which is what
    ///   one address has on the other ports in any case.
    init(_ budget: DescriptorBudget, perAddressMax: Int?, logger: Logger) {
        let lines = NIOLockedValueBox(RepeatedLines())
        let port = { (name: String, connectionsMax: Int, perAddressMax: Int?) in
            let perAddressMax = perAddressMax ?? max(connectionsMax / 2, 1)
            return ConnectionLimits(connectionsMax: connectionsMax, perAddressMax: perAddressMax) { refusal in
                guard lines.withLockedValue({ $0.isDue(name, refusal.rawValue, at: .now()) }) else { return }
                let numbers: Logger.Metadata = [
                    "port": "\(name)", "reason": "\(refusal.rawValue)", "connectionsMax": "\(connectionsMax)",
                    "connectionsPerAddressMax": "\(perAddressMax)",
                ]
                logger.warning("connections refused; this line is repeated at most once a minute", metadata: numbers)
            }
        }
        clients = port("clients", budget.clients, perAddressMax)
        nodes = port("cluster", budget.nodes, nil)
        operators = port("ops", budget.operators, nil)
    }

    /// By the names that the metrics have.
    var byName: [(name: String, limits: ConnectionLimits)] { [("clients", clients), ("cluster", nodes), ("ops", operators)] }
}
