import HTTP2
import Logging
import NIOConcurrencyHelpers
import NIOCore

/// The limits of connections of a node's three ports.
///
/// Refused connections are counted. The log has a line about them at most once a minute for each port and reason.
struct ConnectionPorts: Sendable {
    let clients: ConnectionLimits
    let nodes: ConnectionLimits
    let operators: ConnectionLimits

    /// - Parameter perAddressMax: most connections of one address to the client port, 0 for no limit. Nil for half of the port's limit,
    ///   as on the other two ports.
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

    /// The limits with the port names of the metrics.
    var byName: [(name: String, limits: ConnectionLimits)] { [("clients", clients), ("cluster", nodes), ("ops", operators)] }
}
