import Foundation
import HTTP2
import NIOCore

/// A configured port on which the node cannot listen. The node does not start.
public struct ListenError: Error, Equatable, Sendable, CustomStringConvertible {
    /// `listen`, `cluster-listen` or `ops-listen`.
    public let setting: String
    public let address: HostPort
    /// The reason, and the correct form.
    public let problem: String

    public init(setting: String, address: HostPort, problem: String) {
        self.setting = setting
        self.address = address
        self.problem = problem
    }

    /// Nil for an error that does not concern the port.
    init?(_ error: any Error, setting: String, address: HostPort) {
        switch error {
        case let error as IOError where error.errnoCode == EADDRINUSE:
            self.init(
                setting: setting, address: address, problem: "the port is in use; stop the process that uses it, or give another port")
        case let error as IOError: self.init(setting: setting, address: address, problem: ConnectionErrorText.text(error))
        case let error as SocketAddressError.UnknownHost:
            let problem = "\(error.errorDescription); give an address of this machine or a name that resolves to one"
            self.init(setting: setting, address: address, problem: problem)
        default: return nil
        }
    }

    public var description: String { "\(setting): cannot listen on \(address): \(problem)" }
}
