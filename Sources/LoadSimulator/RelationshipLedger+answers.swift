import PresenceWire

extension RelationshipLedger.CallEnd {
    /// Reads the end of a call.
    ///
    /// - Parameters:
    ///   - status: the HTTP status; nil if the connection failed before the end of the answer.
    ///   - body: the body of the answer.
    init(status: Int?, body: [UInt8]) {
        guard let status else {
            self = .unknown
            return
        }
        guard status == 200 else {
            let problem = ProblemBody(body)
            let isOpen = problem.mayTakeEffect || problem.code == nil || problem.code == String(ChainResult.unavailable)
            self = isOpen ? .unknown : .refused
            return
        }
        let answer = try? JSONReader.read(body)
        switch Self.code(in: answer) {
        case nil: self = answer?["profile"] != nil ? .answered(ChainResult.done) : .unknown
        case ChainResult.conflict?, ChainResult.unavailable?: self = .unknown
        case .some(let code): self = .answered(code)
        }
    }

    /// The result code of an answer about one user.
    private static func code(in answer: JSONValue?) -> Int64? {
        if case .integer(let code)? = answer?["resultCode"] { return code }
        guard case .array(let results)? = answer?["resultList"], case .integer(let code)? = results.first?["resultCode"] else { return nil }
        return code
    }

    /// The result in the report.
    ///
    /// - Parameter code: the code of the error, if the call was refused.
    func word(code: String?) -> String {
        switch self {
        case .answered(let result): String(result)
        case .refused: "refused \(code ?? "")"
        case .unknown: "unknown"
        }
    }
}
