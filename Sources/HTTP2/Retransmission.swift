import NIOCore

#if canImport(Glibc)
    import Glibc
#endif

/// The timing with which the kernel retransmits unacknowledged segments of a connection.
public enum Retransmission: Sendable {
    /// Exponential backoff from 0.2 s (RFC 6298). Five losses in a row stall the connection for six seconds.
    case usual
    /// Short intervals of at most a second, for the few connections between nodes.
    ///
    /// They must work on a network that loses a third of all packets, and recover as soon as the network does.
    case quick

    typealias Option = (name: ChannelOptions.Types.SocketOption, value: Int)

    var options: [Option] { self == .quick ? Self.supported : [] }

    /// The socket options that this kernel supports. They came with different versions of Linux.
    private static let supported: [Option] = {
        #if os(Linux)
            return [
                (thinLinearTimeouts, 1), (longestMilliseconds, 1_000), (shortestMicroseconds, 50_000),
                (acknowledgementMicroseconds, 20_000),
            ].filter(isSupported).map { name, value in
                (ChannelOptions.Types.SocketOption(level: .tcp, name: NIOBSDSocket.Option(rawValue: name)), Int(value))
            }
        #else
            return []
        #endif
    }()

    #if os(Linux)
        /// Spaces six retransmissions evenly while few packets are in flight. Since Linux 2.6.34.
        private static let thinLinearTimeouts = CInt(16)
        /// The longest interval of retransmissions. Since Linux 6.15.
        private static let longestMilliseconds = CInt(44)
        /// The shortest interval, beyond the round trip. Since Linux 6.17.
        private static let shortestMicroseconds = CInt(45)
        /// The longest delay of an acknowledgement. It must be shorter than the shortest interval. Since Linux 6.17.
        private static let acknowledgementMicroseconds = CInt(46)

        private static func isSupported(_ name: CInt, _ value: CInt) -> Bool {
            let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
            guard descriptor >= 0 else { return false }
            defer { close(descriptor) }
            return withUnsafePointer(to: value) { setsockopt(descriptor, CInt(IPPROTO_TCP), name, $0, socklen_t(MemoryLayout<CInt>.size)) }
                == 0
        }
    #endif
}
