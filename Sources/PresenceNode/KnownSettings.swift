import Foundation
import Yams

/// The names that a YAML file may use: a misspelt one is refused by name, because a setting that is silently ignored is found in production.
enum KnownSettings {
    static let names = [
        "advertise", "apps", "cluster", "clusterListen", "clusterSecret", "clusterTlsCa", "clusterTlsCertificate",
        "clusterTlsKey", "dataDir", "dev", "drainTimeout", "heartbeatInterval",
        "heartbeatTimeout", "join",
        "jwt", "listen", "logFormat", "logLevel", "loops", "nodeId", "offlineGrace", "opsListen", "reconnectGrace", "streamsPerConnection",
        "tlsCertificate", "tlsKey",
    ]
    /// Below `jwt`, for each app.
    static let keyNames = ["es256PublicKeyFile", "hs256", "rs256PublicKeyFile"]

    static func check(file: String) throws(ConfigurationError) {
        let root: Node?
        do { root = try Yams.compose(yaml: String(contentsOfFile: file, encoding: .utf8)) } catch {
            throw ConfigurationError(setting: "config", problem: "\(file) is not YAML: \(error)")
        }
        guard let root else { return }
        try check(root, in: "", names: names)
        guard let apps = root.mapping?["jwt"]?.mapping else { return }
        for (app, keys) in apps { try check(keys, in: "jwt.\(app.string ?? "?").", names: keyNames) }
    }

    private static func check(_ node: Node, in prefix: String, names: [String]) throws(ConfigurationError) {
        guard let mapping = node.mapping else {
            throw ConfigurationError(setting: "config", problem: "\(prefix)… must be names with values")
        }
        for (key, _) in mapping {
            let name = key.string ?? "?"
            guard names.contains(name) else {
                throw ConfigurationError(
                    setting: prefix + name, problem: "no such setting; there are \(names.joined(separator: ", "))")
            }
        }
    }
}
