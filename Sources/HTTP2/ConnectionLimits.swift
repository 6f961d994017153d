import NIOConcurrencyHelpers
import NIOCore

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The limits on the connections of a port, in total and from one address.
///
/// A connection beyond a limit is reset as soon as it is accepted, before it costs anything. The loops of the port share one object.
public final class ConnectionLimits: Sendable {
    /// The reason why a connection was refused.
    public enum Refusal: String, Sendable, CaseIterable {
        /// The port holds ``ConnectionLimits/connectionsMax`` connections.
        case connectionsMax
        /// One address holds ``ConnectionLimits/perAddressMax`` connections.
        ///
        /// Of an IPv6 address only the first 64 bits count: one customer of a provider has all the others.
        case connectionsPerAddressMax
        /// The process or the system has no descriptor or no memory for one more.
        ///
        /// Accepting pauses for ``ConnectionLimits/pauseWithoutDescriptors``.
        case noDescriptor
    }

    private struct State {
        var connectionsCount = 0
        var byAddress: [Address: Int] = [:]
        var refused: [Refusal: UInt64] = [:]
    }

    /// The pause in accepting after the process ran out of descriptors. New connections wait in the kernel's queue.
    static let pauseWithoutDescriptors = TimeAmount.milliseconds(100)
    /// Refusals within ``pauseAfterRefusals`` after which accepting pauses for as long, so that the loop's connections have their turn.
    static let refusalsAtOnceMax = 32
    static let pauseAfterRefusals = TimeAmount.milliseconds(10)

    public let connectionsMax: Int
    /// The most connections from one address; 0 for no limit.
    public let perAddressMax: Int
    private let refused: @Sendable (Refusal) -> Void
    private let state = NIOLockedValueBox(State())

    /// Makes the limits of one port.
    ///
    /// - Parameters:
    ///   - perAddressMax: 0 for no limit.
    ///   - refused: called on the listener's loop for each refused connection.
    public init(connectionsMax: Int, perAddressMax: Int, refused: @escaping @Sendable (Refusal) -> Void) {
        self.connectionsMax = connectionsMax
        self.perAddressMax = perAddressMax
        self.refused = refused
    }

    /// The number of open connections.
    public var connectionsCount: Int { state.withLockedValue { $0.connectionsCount } }

    /// The refused connections so far, by reason.
    public var refusedCounts: [Refusal: UInt64] { state.withLockedValue { $0.refused } }

    /// Counts a new connection. Returns false when it is refused.
    ///
    /// - Parameter address: nil for a connection through a proxy, whose client is known later: see ``enterAddress(_:)``.
    func enter(_ address: Address?) -> Bool {
        let refusal: Refusal? = state.withLockedValue { state in
            if state.connectionsCount >= connectionsMax { return .connectionsMax }
            if let address, let refusal = self.refusal(of: address, in: state) { return refusal }
            state.connectionsCount += 1
            if let address { state.byAddress[address, default: 0] += 1 }
            return nil
        }
        if let refusal { refuse(refusal) }
        return refusal == nil
    }

    /// Counts a connection for its client's address. Returns false when it is refused.
    func enterAddress(_ address: Address) -> Bool {
        let refusal = state.withLockedValue { state in
            let refusal = self.refusal(of: address, in: state)
            if refusal == nil { state.byAddress[address, default: 0] += 1 }
            return refusal
        }
        if let refusal { refuse(refusal) }
        return refusal == nil
    }

    private func refusal(of address: Address, in state: State) -> Refusal? {
        perAddressMax > 0 && state.byAddress[address, default: 0] >= perAddressMax ? .connectionsPerAddressMax : nil
    }

    /// Counts a closed connection.
    func leave(_ address: Address?) {
        state.withLockedValue { $0.connectionsCount -= 1 }
        if let address { leaveAddress(address) }
    }

    /// Counts a closed connection for its client's address.
    func leaveAddress(_ address: Address) {
        state.withLockedValue { state in
            let count = state.byAddress[address, default: 1] - 1
            state.byAddress[address] = count == 0 ? nil : count
        }
    }

    /// Counts and reports a refusal.
    func refuse(_ refusal: Refusal) {
        state.withLockedValue { $0.refused[refusal, default: 0] += 1 }
        refused(refusal)
    }

    /// An address as the limits count it: an IPv4 address, or the first 64 bits of an IPv6 address.
    public struct Address: Hashable, Sendable {
        private enum Bits: Hashable {
            case v4(UInt32)
            /// The first half of an IPv6 address.
            case v6(UInt64)
        }

        private let bits: Bits

        /// Makes the address of a peer. Peers without an address, as in tests, count as one address.
        public init(_ address: SocketAddress?) {
            switch address {
            case .v4(let address):
                bits = .v4(withUnsafeBytes(of: address.address.sin_addr) { $0.loadUnaligned(as: UInt32.self) })
            case .v6(let address):
                let words = withUnsafeBytes(of: address.address.sin6_addr) { bytes in
                    (bytes.loadUnaligned(as: UInt64.self), bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
                }
                // A listener for both versions shows IPv4 as ::ffff:a.b.c.d (RFC 4291 §2.5.5.2).
                let isMapped = words.0 == 0 && UInt64(bigEndian: words.1) >> 32 == 0xFFFF
                bits = isMapped ? .v4(UInt32(truncatingIfNeeded: UInt64(bigEndian: words.1)).bigEndian) : .v6(words.0)
            case .unixDomainSocket, nil: bits = .v4(0)
            }
        }
    }
}
