import NIOCore
import NIOPosix
import NIOSSL

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The reason why a connection failed, in words for a person at a terminal.
public enum ConnectionErrorText {
    /// The reason in one line. It has no address.
    public static func text(_ error: any Error) -> String {
        if let fault = TLSFault(error) { return fault.description }
        return switch error {
        case let error as NIOConnectionError:
            error.connectionErrors.first.map { text($0.error) } ?? "the name has no address"
        case let error as IOError: String(cString: strerror(error.errnoCode))
        case ChannelError.connectTimeout(let time): "no answer within \(time.nanoseconds / 1_000_000_000) s"
        case ChannelError.eof, ChannelError.inputClosed, ChannelError.outputClosed, ChannelError.ioOnClosedChannel,
            ChannelError.alreadyClosed, NIOSSLError.uncleanShutdown, NIOSSLError.shutdownFailed:
            "the connection was closed"
        case is SocketAddressError: "the name has no address"
        case let error as NIOSSLError: "TLS: \(error)"
        default: "\(error)"
        }
    }
}
