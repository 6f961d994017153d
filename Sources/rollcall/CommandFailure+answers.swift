import HTTP2
import PresenceNode
import PresenceWire

extension CommandFailure {
    /// The ports of a node to which commands send requests.
    enum Port {
        case client
        case ops

        /// The line that helps a caller who has named another port.
        fileprivate var advice: String {
            switch self {
            case .client: "--target must be the URL of a node's client port (7600 by default)."
            case .ops: "--ops must be the URL of a node's ops port (7602 by default)."
            }
        }
    }

    /// A connection that was not opened, or that broke before the answer.
    init(unreachable url: String, _ error: any Error) {
        let failure = error as? HTTPExchange.Failure
        let reason = failure?.cause.map(Self.reason) ?? failure?.reason ?? Self.reason(error)
        self.init(description: "\(url): \(reason)", code: PresenceNode.ExitCode.unavailable)
    }

    /// The reason why a connection failed, and what may help.
    static func reason(_ error: any Error) -> String {
        let text = ConnectionErrorText.text(error)
        switch TLSFault(error) {
        case .noTLS?, .closed?: return "\(text) (try http://)"
        case .untrusted?: return "\(text) (--ca names the file of an authority)"
        case .otherName?, .failed?, nil: return text
        }
    }

    /// An answer that is not the one of a call: a node's refusal, or the answer of another port or program.
    ///
    /// The exit code is 1 if the port refuses the call. It is 69 if the port is not the right one, or cannot answer now.
    init(refused status: Int, _ body: [UInt8], from url: String, _ port: Port) {
        let problem = try? JSONReader.read(body)
        let detail = problem?["detail"]?.text
        var code: Int64?
        if case .integer(let number)? = problem?["code"] { code = number }
        // A path or a method that a port does not have is refused with the status as the code.
        let isOfPort = detail != nil && code != nil && !([404, 405].contains(status) && code == Int64(status))
        self.init(
            description: "\(url) answered \(status): \(detail ?? "not an answer of Rollcall")",
            code: isOfPort && status < 500 ? 1 : PresenceNode.ExitCode.unavailable,
            advice: isOfPort || status >= 500 ? nil : port.advice)
    }
}
