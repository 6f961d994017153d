import PresenceCore
import PresenceWire

/// The rule that says whose back end may copy the database of a node, which has the users of all its apps.
struct BackupRule {
    /// The secret of the cluster.
    let secret: BackupProof
    let hasSecret: Bool
    let isDevelopment: Bool
    /// The times that a request may name.
    static let times = 0...Limits.times.upperBound

    init(_ configuration: NodeConfiguration) {
        (secret, hasSecret) = (BackupProof(secret: configuration.clusterSecret), configuration.clusterSecret != nil)
        isDevelopment = configuration.isDevelopment
    }

    /// Throws unless the request proves the cluster's secret, or there is none and the caller's app is the only one.
    ///
    /// A node with a secret may be one of several: the others may serve more apps, whose users it keeps as well.
    ///
    /// - Parameters:
    ///   - target: the path of the request with its query.
    ///   - apps: the apps that have keys now.
    func check(_ caller: UserID, _ target: [UInt8], _ apps: Set<String>, at wall: Milliseconds) throws(Problem) {
        let query = String(decoding: target, as: UTF8.self).split(separator: "?", maxSplits: 1).dropFirst().first ?? ""
        var parameters: [String: String] = [:]
        for field in query.split(separator: "&") {
            let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            parameters[String(parts[0])] = parts.count == 2 ? String(parts[1]) : ""
        }
        if let time = parameters["time"], !(Milliseconds(time).map(Self.times.contains) ?? false) {
            throw .parameter("time: must be an integer in 0...\(Self.times.upperBound)")
        }
        if isDevelopment { return }
        guard hasSecret else {
            if apps == [String(caller.app)] { return }
            throw .wrongRole("backup: the node serves several apps, and has no clusterSecret that a request could prove; set one")
        }
        if let problem = secret.problem(of: parameters, at: wall) {
            throw .wrongRole("backup: it has the users of all apps, so a request must prove the cluster's secret; \(problem)")
        }
    }
}
