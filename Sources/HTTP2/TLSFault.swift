import NIOSSL

/// The reason why TLS did not start on a connection.
public enum TLSFault: Equatable, Sendable, CustomStringConvertible {
    /// The peer answers in another protocol, for instance in plain HTTP.
    case noTLS
    /// The peer closes the connection during the handshake.
    case closed
    /// No authority that this process trusts has signed the peer's certificate, or the certificate has expired.
    case untrusted
    /// The peer's certificate is for another name or address.
    case otherName
    /// Another reason, in the words of TLS; empty without one.
    case failed(String)

    /// Nil for an error that is not about the start of TLS.
    public init?(_ error: any Error) {
        switch error {
        case NIOSSLError.handshakeFailed(let failure): self.init(failure)
        case let failure as BoringSSLError: self.init(failure)
        case NIOSSLError.noCertificateToValidate, NIOSSLError.unableToValidateCertificate: self = .untrusted
        case let error as NIOSSLExtraError where error == .failedToValidateHostname || error == .serverHostnameImpossibleToMatch:
            self = .otherName
        default: return nil
        }
    }

    private init(_ failure: BoringSSLError) {
        let errors: NIOBoringSSLErrorStack
        switch failure {
        case .sslError(let stack), .unknownError(let stack): errors = stack
        default: errors = []
        }
        // "Error: 268435703 error:100000f7:SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER at <file>:127".
        let text = errors.first.map { "\($0)" } ?? ""
        let reason = text.split(separator: " at ").first?.split(separator: ":").last.map { String($0.drop { $0 == " " }) } ?? ""
        switch reason {
        case "WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST": self = .noTLS
        case "EOF during handshake": self = .closed
        case "CERTIFICATE_VERIFY_FAILED": self = .untrusted
        default: self = .failed(reason.lowercased().replacing("_", with: " "))
        }
    }

    public var description: String {
        switch self {
        case .noTLS: "the port does not speak TLS"
        case .closed: "the connection was closed during the TLS handshake; the port may not speak TLS"
        case .untrusted: "the certificate is not trusted: its authority is unknown, or it has expired"
        case .otherName: "the certificate is for another name or address"
        case .failed(let reason): "the TLS handshake failed" + (reason.isEmpty ? "" : ": \(reason)")
        }
    }
}
