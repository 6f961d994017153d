import Foundation

/// How a node shares the descriptors that its process may have (`ulimit -n`): its own files, loops and links come first, then other nodes and
/// operators, so that clients, however many there are, cost nothing but clients.
struct DescriptorBudget: Equatable {
    /// Connections at a time to the port for clients.
    let clients: Int
    /// To the cluster port; as many are left for links to other nodes.
    let nodes: Int
    /// To the ops port.
    let operators: Int

    /// - Parameters:
    ///   - descriptorsMax: of the process.
    ///   - loopsCount: each has descriptors of its own.
    init(descriptorsMax: Int, loopsCount: Int) {
        // The database, the log, the ports, the resolver, /proc for the metrics; three or four for each loop.
        let left = max(descriptorsMax - 64 - 4 * loopsCount, 16)
        nodes = min(left / 8 + 1, 256)
        operators = min(left / 16 + 1, 128)
        clients = max(left - 2 * nodes - operators, 4)
    }

    /// Of this process.
    init(loopsCount: Int) { self.init(descriptorsMax: Self.descriptorsMax, loopsCount: loopsCount) }

    /// The descriptors that the system lets this process have.
    static var descriptorsMax: Int {
        var limit = rlimit()
        #if canImport(Glibc)
            let status = getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        #else
            let status = getrlimit(RLIMIT_NOFILE, &limit)
        #endif
        guard status == 0 else { return 1_024 }
        return Int(clamping: limit.rlim_cur)
    }
}
