import Foundation

/// The shares of the process's descriptors (`ulimit -n`): first files, loops and links, then other nodes and operators, then clients.
///
/// Any number of client connections therefore leaves the other ports usable.
struct DescriptorBudget: Equatable {
    /// Most connections to the client port.
    let clients: Int
    /// Most connections to the cluster port. As many descriptors are reserved for links to other nodes.
    let nodes: Int
    /// Most connections to the ops port.
    let operators: Int

    /// - Parameters:
    ///   - descriptorsMax: descriptors that the process may have.
    ///   - loopsCount: event loops, which need descriptors of their own.
    init(descriptorsMax: Int, loopsCount: Int) {
        // The database, the log, the ports, the resolver, /proc for the metrics; three or four for each loop.
        let left = max(descriptorsMax - 64 - 4 * loopsCount, 16)
        nodes = min(left / 8 + 1, 256)
        operators = min(left / 16 + 1, 128)
        clients = max(left - 2 * nodes - operators, 4)
    }

    /// The budget of this process.
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

    /// The descriptors for which ``makeTable()`` makes room. The table then takes half a megabyte of the kernel's memory.
    static let tableMax = 1 << 16

    /// Has the kernel make the process's table of descriptors as large as it will be, by a descriptor at its end.
    ///
    /// The table otherwise doubles when a connection is accepted. Linux then waits for all processors (`synchronize_rcu`), 12 to 20 ms in
    /// which the event loop serves nobody.
    static func makeTable() {
        let file = open("/dev/null", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        let last = fcntl(file, F_DUPFD_CLOEXEC, Int32(min(descriptorsMax, tableMax) - 1))
        if last >= 0 { close(last) }
        close(file)
    }
}
