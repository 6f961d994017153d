import Foundation
import PresenceWire
import Yams

/// The names that a YAML file may use: a misspelt one is refused by name, because a setting that is silently ignored is found in production.
enum KnownSettings {
    static let names = [
        "advertise", "apps", "cluster", "clusterListen", "clusterSecret", "clusterTlsCa", "clusterTlsCertificate",
        "clusterTlsKey", "dataDir", "dev", "drainTimeout", "heartbeatInterval",
        "heartbeatTimeout", "join",
        "jwt", "listen", "logFormat", "logLevel", "loops", "nodeId", "offlineGrace", "opsListen", "policies", "reconnectGrace",
        "streamsPerConnection",
        "tlsCertificate", "tlsKey",
    ]
    /// Below `jwt`, for each app.
    static let keyNames = ["es256PublicKeyFile", "hs256", "rs256PublicKeyFile"]

    /// Below `policies`, for each app.
    static let policyNames = ["preset", "settings"]

    /// Refuses names that do not exist, and returns the apps' policies.
    static func check(file: String) throws(ConfigurationError) -> [String: AppPolicy] {
        let root: Node?
        do { root = try Yams.compose(yaml: String(contentsOfFile: file, encoding: .utf8)) } catch {
            throw ConfigurationError(setting: "config", problem: "\(file) is not YAML: \(error)")
        }
        guard let root else { return [:] }
        try check(root, in: "", names: names)
        for (app, keys) in root.mapping?["jwt"]?.mapping ?? [:] { try check(keys, in: "jwt.\(app.string ?? "?").", names: keyNames) }
        var policies: [String: AppPolicy] = [:]
        for (app, policy) in root.mapping?["policies"]?.mapping ?? [:] {
            let name = app.string ?? "?"
            try check(policy, in: "policies.\(name).", names: policyNames)
            guard Limits.isValidName(name) else {
                throw ConfigurationError(setting: "policies.\(name)", problem: "is not an app: 1 to 64 bytes without control characters")
            }
            do throws(PolicyError) { policies[name] = try AppPolicy(JSONValue(policy)) } catch {
                throw ConfigurationError(setting: "policies.\(name).\(error.setting)", problem: error.problem)
            }
        }
        return policies
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

extension JSONValue {
    /// The same in JSON.
    fileprivate init(_ node: Node) {
        if let members = node.mapping {
            self = .object(members.map { Member(name: $0.key.string ?? "?", value: JSONValue($0.value)) })
        } else if let elements = node.sequence {
            self = .array(elements.map { JSONValue($0) })
        } else if node.null != nil {
            self = .null
        } else if let value = node.bool {
            self = .bool(value)
        } else if let value = node.int {
            self = .integer(Int64(value))
        } else {
            self = .string(node.string ?? "")
        }
    }
}
