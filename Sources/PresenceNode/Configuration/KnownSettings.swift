import Foundation
import PresenceWire
import Yams

/// The names of settings and the shapes of their values.
///
/// An unknown name or a wrong shape stops the start. A setting that is silently ignored would show only in production.
enum KnownSettings {
    /// All settings by name, from ``groups``.
    private static let all = Dictionary(uniqueKeysWithValues: groups.flatMap(\.settings).map { ($0.name, $0) })
    static let names = groups.flatMap(\.settings).map(\.name).sorted()

    /// The range of a setting that is a number.
    static func range(of name: String) -> ClosedRange<Int> {
        guard let range = all[name]?.range else { preconditionFailure("\(name) is not a setting with a range") }
        return range
    }

    /// Names of keys below `jwt.<app>`.
    static let keyNames = ["es256PublicKeyFile", "hs256", "jwksFile", "jwksUrl", "rs256PublicKeyFile"]

    /// Names below `jwt.<app>`.
    static let tokenNames = (keyNames + ["audience", "issuer"]).sorted()

    /// Those of them that may be lists.
    private static let listNames: Set = ["audience", "es256PublicKeyFile", "hs256", "issuer", "rs256PublicKeyFile"]

    /// Names below `policies.<app>`.
    static let policyNames = ["preset", "settings"]

    /// The parts of a file that are about apps.
    struct Apps {
        var policies: [String: AppPolicy] = [:]
        /// Apps below `jwt`.
        var withKeys: [String] = []
        /// Whether the file has settings. The reader does not accept a file without any.
        var hasSettings = true
    }

    /// Throws for unknown names and for values of a wrong shape. Returns the parts of the file that are about apps.
    static func check(file: String) throws(ConfigurationError) -> Apps {
        let text: String
        do { text = try String(contentsOfFile: file, encoding: .utf8) } catch {
            throw ConfigurationError(setting: "config", problem: "\(file): \(FileErrorText.problem(error, "cannot be read"))")
        }
        let root: Node?
        do { root = try Yams.compose(yaml: text) } catch {
            throw ConfigurationError(setting: "config", problem: "\(file) is not YAML\(place(of: error))")
        }
        var apps = Apps()
        guard let root, root.null == nil else {
            apps.hasSettings = false
            return apps
        }
        try checkNames(in: root, of: nil, names)
        for (name, value) in root.mapping ?? [:] { try checkShape(of: value, name.string ?? "?") }
        for (app, keys) in root.mapping?["jwt"]?.mapping ?? [:] {
            let name = app.string ?? "?"
            try checkNames(in: keys, of: "jwt.\(name)", tokenNames)
            for (key, value) in keys.mapping ?? [:] { try checkTokenShape(of: value, "jwt.\(name)", key.string ?? "?") }
            apps.withKeys.append(name)
        }
        apps.policies = try policies(in: root)
        return apps
    }

    /// The place and the reason of an error in YAML. The library's own text has the lines around it, which may be secrets.
    private static func place(of error: any Error) -> String {
        switch error as? YamlError {
        case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _), .composer(_, let problem, let mark, _):
            ": line \(mark.line), column \(mark.column): \(problem)"
        case .reader(let problem, _, _, _): ": \(problem)"
        default: ""
        }
    }

    private static func policies(in root: Node) throws(ConfigurationError) -> [String: AppPolicy] {
        var policies: [String: AppPolicy] = [:]
        for (app, policy) in root.mapping?["policies"]?.mapping ?? [:] {
            let name = app.string ?? "?"
            try checkNames(in: policy, of: "policies.\(name)", policyNames)
            guard Limits.isValidName(name) else {
                throw ConfigurationError(
                    setting: "policies.\(name)", problem: "is not an app ID; an app ID is 1 to 64 bytes without control characters")
            }
            do throws(PolicyError) { policies[name] = try AppPolicy(JSONValue(policy)) } catch {
                throw ConfigurationError(setting: "policies.\(name).\(error.setting)", problem: error.problem)
            }
        }
        return policies
    }

    /// Throws for a name that is not among `names`.
    ///
    /// - Parameter setting: the setting above the names; nil for the file itself.
    private static func checkNames(in node: Node, of setting: String?, _ names: [String]) throws(ConfigurationError) {
        guard let mapping = node.mapping else {
            throw ConfigurationError(
                setting: setting ?? "config", problem: "is \(shape(of: node)); it must be a mapping of names to values")
        }
        for (key, _) in mapping {
            let name = key.string ?? "?"
            guard names.contains(name) else {
                throw ConfigurationError(
                    setting: setting.map { "\($0).\(name)" } ?? name,
                    problem: "no such setting; the settings are \(names.joined(separator: ", "))")
            }
        }
    }

    /// Throws for a list or a mapping in place of one value. The reader would skip it and use the default.
    private static func checkShape(of value: Node, _ setting: String) throws(ConfigurationError) {
        let found = shape(of: value)
        switch setting {
        case "jwt", "policies":
            guard value.mapping != nil || value.null != nil else {
                throw ConfigurationError(setting: setting, problem: "is \(found); it must be a mapping of app IDs to their settings")
            }
        case "apps", "join", "corsOrigins": try checkList(value, setting, "a list, or one value with commas")
        default:
            guard value.scalar != nil else { throw ConfigurationError(setting: setting, problem: "is \(found); it must be one value") }
        }
    }

    /// Throws for a value of a wrong shape below `jwt.<app>`.
    private static func checkTokenShape(of value: Node, _ app: String, _ name: String) throws(ConfigurationError) {
        if listNames.contains(name) {
            try checkList(value, "\(app).\(name)", "one value or a list")
        } else {
            try checkShape(of: value, "\(app).\(name)")
        }
    }

    /// Throws for a value that is neither one value nor a list of values.
    private static func checkList(_ value: Node, _ setting: String, _ form: String) throws(ConfigurationError) {
        if value.scalar != nil { return }
        guard let elements = value.sequence else {
            throw ConfigurationError(setting: setting, problem: "is \(shape(of: value)); it must be \(form)")
        }
        for (index, element) in elements.enumerated() where element.scalar == nil {
            throw ConfigurationError(setting: setting, problem: "element \(index + 1) is \(shape(of: element)); it must be one value")
        }
    }

    private static func shape(of node: Node) -> String {
        if node.sequence != nil { return "a list" }
        return node.mapping != nil ? "a mapping" : "one value"
    }
}

/// Keys of apps in the environment.
extension KnownSettings {
    private static let prefix = "ROLLCALL_"
    private static let keyPrefix = prefix + "JWT_"

    /// Settings that cannot be a variable.
    private static let namesInFilesOnly = Set(
        groups.flatMap(\.settings).filter { if case .byApp = $0.value { true } else { false } }.map(\.name))

    /// Variables of other programs, which a node ignores: the first two are of `docker-compose.yml`, the others of `Tests`.
    private static let foreignVariables: Set = ["ROLLCALL_HS256", "ROLLCALL_SECRET", "ROLLCALL_SCALE", "ROLLCALL_TESTS"]

    /// The names of all variables, in the order of the settings.
    static var variables: [String] { names.compactMap { variable(of: $0) } }

    /// The variable of a setting; nil if it can stand in a file only.
    static func variable(of name: String) -> String? { namesInFilesOnly.contains(name) ? nil : prefix + encoded(name) }

    /// Returns the name of the variable for a key of an app.
    static func variable(of app: String, _ key: String) -> String { "\(keyPrefix)\(encoded(app))_\(encoded(key))" }

    /// Returns a name as `EnvironmentVariablesProvider` spells it.
    ///
    /// The name is in capitals. `_` stands before a capital that follows a small letter, and replaces all but letters and digits.
    private static func encoded(_ name: String) -> String {
        var encoded = ""
        var isAfterSmall = false
        for character in name {
            if isAfterSmall, character.isUppercase { encoded += "_" }
            encoded += character.isLetter || character.isNumber ? character.uppercased() : "_"
            isAfterSmall = character.isLowercase
        }
        return encoded
    }

    /// Throws for a variable with the prefix of settings that is not a setting, for instance a misspelled one.
    static func check(variables: [String]) throws(ConfigurationError) {
        let known = Set(Self.variables).union(foreignVariables)
        for variable in variables where variable.hasPrefix(prefix) && !variable.hasPrefix(keyPrefix) && !known.contains(variable) {
            throw ConfigurationError(
                setting: variable, problem: "no such setting; the variables are \(Self.variables.joined(separator: ", "))")
        }
    }

    /// Throws for a variable with the prefix of keys that belongs to no app of `apps`, or is of an unknown kind.
    ///
    /// The node would ignore such a key, and without any other key it would accept the public development key.
    static func check(variables: [String], apps: [String]) throws(ConfigurationError) {
        let known = Set(apps.flatMap { app in tokenNames.map { variable(of: app, $0) } })
        for variable in variables where variable.hasPrefix(keyPrefix) && !known.contains(variable) {
            let ending = tokenNames.map { "_" + encoded($0) }.first { variable.hasSuffix($0) } ?? ""
            let app = variable.dropFirst(keyPrefix.count).dropLast(ending.count).lowercased()
            guard !ending.isEmpty, !app.isEmpty else {
                let names = tokenNames.map { "\(keyPrefix)<APP>_\(encoded($0))" }.joined(separator: ", ")
                throw ConfigurationError(setting: variable, problem: "no such setting; the keys of an app are \(names)")
            }
            throw ConfigurationError(
                setting: variable,
                problem:
                    "is a key of an app that is not configured; add the app ID, spelled as in its tokens, to ROLLCALL_APPS: ROLLCALL_APPS=\((apps + [app]).joined(separator: ","))"
            )
        }
    }
}

extension JSONValue {
    /// The JSON value of a YAML node.
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
