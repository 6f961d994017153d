import PresenceCore
import PresenceWire

/// The rule that says whose back end may copy the database of a node, which has the users of all its apps.
struct BackupRule {
    /// The secret of the cluster.
    let secret: BackupProof
    let hasSecret: Bool
    let isDevelopment: Bool
    /// The apps that have keys.
    let apps: Set<String>

    init(_ configuration: NodeConfiguration) {
        (secret, hasSecret) = (BackupProof(secret: configuration.clusterSecret), configuration.clusterSecret != nil)
        (isDevelopment, apps) = (configuration.isDevelopment, Set(configuration.appKeys.keys))
    }

    /// Throws unless the back end of an app may have the copy: it is the only app, or the request proves the cluster's secret.
    ///
    /// - Parameter target: the path of the request with its query.
    func check(_ caller: UserID, _ target: [UInt8], at wall: Milliseconds) throws(Problem) {
        if isDevelopment || apps == [String(caller.app)] { return }
        guard hasSecret else {
            throw .wrongRole("backup: the node serves several apps, and has no clusterSecret that a request could prove; set one")
        }
        let query = String(decoding: target, as: UTF8.self).split(separator: "?", maxSplits: 1).dropFirst().first ?? ""
        var parameters: [String: String] = [:]
        for field in query.split(separator: "&") {
            let parts = field.split(separator: "=", maxSplits: 1)
            if parts.count == 2 { parameters[String(parts[0])] = String(parts[1]) }
        }
        if let problem = secret.problem(of: parameters, at: wall) {
            throw .wrongRole("backup: the node serves several apps, so a request must prove the cluster's secret; \(problem)")
        }
    }
}
