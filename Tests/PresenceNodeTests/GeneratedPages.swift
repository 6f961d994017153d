import Foundation
import PresenceWire

@testable import PresenceNode

/// The text of the page `Configuration`: every setting of a node and of a policy.
struct ConfigurationPage {
    var text: String {
        let parts = [Self.head] + KnownSettings.groups.map(Self.section) + [Self.policyHead] + [Self.policies, Self.presets]
        return parts.joined(separator: "\n\n") + "\n"
    }

    private static let head = """
        # Configuration

        Every setting of a node and of an app's policy, with its default, its range and its effect.

        > Note: This page is generated from the code. After a change of a setting run `make pages`.

        ## Sources of settings

        A node reads its settings from three places. The first one that has the setting decides:

        1. flags of `rollcall serve`,
        2. environment variables that begin with `ROLLCALL_`,
        3. the YAML file that `--config` names.

        An unknown name or a value out of range stops the start with exit code 64. The error names the setting.
        Durations are whole seconds. Lists are YAML lists, or values with commas between them. An address is `HOST:PORT` or `[IPv6]:PORT`.
        Unless a table says otherwise, a change takes effect when the node starts again.

        ## Settings of a node
        """

    private static func section(_ group: KnownSettings.Group) -> String {
        let rows = group.settings.map { setting in
            let flag = setting.hasFlag ? "`--\(dashed(setting.name))`" : nil
            // The keys of apps have variables of their own.
            let variable = (setting.name == "jwt" ? "ROLLCALL_JWT_<APP>_<KEY>" : KnownSettings.variable(of: setting.name)).map { "`\($0)`" }
            let names = [flag, variable].compactMap { $0 }.joined(separator: "<br>")
            return row("`\(setting.name)`", names.isEmpty ? "file only" : names, setting.defaultText, values(setting.value), setting.effect)
        }
        return
            (["### \(group.title)", "", row("YAML key", "flag, variable", "default", "values", "effect"), "|---|---|---|---|---|"] + rows)
            .joined(separator: "\n")
    }

    private static func values(_ value: NodeSetting.Value) -> String {
        switch value {
        case .text(let rule): rule
        case .address: "an address"
        case .addresses: "a list of addresses"
        case .names: "a list of apps"
        case .origins: "a list of origins, or `*`"
        case .file: "a path"
        case .bool: "`true`, `false`"
        case .word(let words): words.map { "`\($0)`" }.joined(separator: ", ")
        case .integer(let range): "\(range.lowerBound) to \(grouped(range.upperBound))"
        case .seconds(let range): "\(range.lowerBound) to \(grouped(range.upperBound)) s"
        case .byApp(let keys): "by app: \(keys)"
        }
    }

    private static let policyHead = """
        ## Settings of a policy

        A policy belongs to an app and holds on all nodes. A preset gives a value to every setting; single settings override the preset.
        Choosing a preset discards all overrides. `null` discards one override.

        There are two ways to set a policy:

        - In the YAML file of every node, below `policies.APP`: `preset` and `settings`.
        - On a running cluster, with `setAppPolicy` (<doc:HTTPAPI#Operations-of-the-ops-port>). The policy is on every disk when the call is
          answered, all nodes follow it, and it takes precedence over the file.

        A limit of calls is `{"calls": 20, "seconds": 5}`, or `false` for none. It holds for the whole cluster: over any number of nodes at most
        1.2 times the limit passes.
        """

    private static var policies: String {
        let rows = Policy.settingDescriptions.map { row("`\($0.name)`", values($0.shape), $0.effect) }
        return (["### Names, values and effects", "", row("setting", "values", "effect"), "|---|---|---|"] + rows).joined(separator: "\n")
    }

    private static func values(_ shape: Policy.SettingShape) -> String {
        switch shape {
        case .bool: "`true`, `false`"
        case .integer(let range): "\(range.lowerBound) to \(grouped(range.upperBound))"
        case .integerOrZero(let range): "0, or \(grouped(range.lowerBound)) to \(grouped(range.upperBound))"
        case .rate:
            "`false`, or `calls` \(Policy.Rate.callsRange.lowerBound) to \(grouped(Policy.Rate.callsRange.upperBound)) and `seconds` "
                + "\(Policy.Rate.secondsRange.lowerBound) to \(grouped(Policy.Rate.secondsRange.upperBound))"
        case .words(let words): "a list of " + words.map { "`\($0)`" }.joined(separator: ", ")
        case .url(let bytesMax): "empty, or a URL of at most \(grouped(Int64(bytesMax))) bytes"
        case .secret: WebhookPolicy.secretRule
        case .word(let words): words.map { "`\($0)`" }.joined(separator: ", ")
        case .customFields:
            "names of 1 to \(Limits.customNameBytesMax) letters or digits, at most \(Limits.customFieldsMax), each with "
                + CustomFieldDeclaration.ValueType.allCases.map { "`\($0.rawValue)`" }.joined(separator: ", ")
        case .platforms:
            "platforms, at most \(Policy.platformTimeoutsMax), each with \(Policy.PlatformTimeout.secondsRange.lowerBound) to "
                + grouped(Policy.PlatformTimeout.secondsRange.upperBound)
        }
    }

    private static var presets: String {
        let columns = Policy.Preset.allCases.map { preset in (name: preset.rawValue, values: values(of: preset)) }
        let rows = Policy.settingNames.map { name in row(["`\(name)`"] + columns.map { $0.values[name] ?? "" }) }
        let head = [
            "### Values of the presets", "",
            "`rollcall` is the default. The four others follow the documents of Tencent, RongCloud, CommsEase and ZEGOCLOUD ZIM (<doc:Requirements>).",
            "", row(["setting"] + columns.map { "`\($0.name)`" }), "|---" + String(repeating: "|---", count: columns.count) + "|",
        ]
        return (head + rows).joined(separator: "\n")
    }

    private static func values(of preset: Policy.Preset) -> [String: String] {
        var json = JSONWriter(reserving: 2_048)
        json.object { json in
            guard let policy = try? AppPolicy(["preset": .string(preset.rawValue)]) else { return }
            policy.writeAll(into: &json)
        }
        guard case .object(let settings) = (try? JSONReader.read(json.bytes))?["settings"] else { return [:] }
        return Dictionary(uniqueKeysWithValues: settings.map { ($0.name, text($0.value)) })
    }

    private static func text(_ value: JSONValue) -> String {
        switch value {
        case .bool(let value): "\(value)"
        case .integer(let value): grouped(value)
        case .string(let value): value
        case .object(let members) where members.isEmpty: "none"
        case .object(let members) where members.contains { $0.name == "calls" }:
            "\(members.map { text($0.value) }.joined(separator: " in ")) s"
        case .object(let members): members.map { "\($0.name) \(text($0.value))" }.joined(separator: ", ")
        case .array(let elements): elements.isEmpty ? "none" : elements.map { text($0) }.joined(separator: ", ")
        default: preconditionFailure("a page cannot show the value \(value) of a setting")
        }
    }

    private static func row(_ cells: String...) -> String { row(cells) }

    private static func row(_ cells: [String]) -> String {
        "| " + cells.map { $0.replacing("|", with: "\\|").replacing("\n", with: " ") }.joined(separator: " | ") + " |"
    }

    /// `clusterTlsCa` as a flag: `cluster-tls-ca`.
    private static func dashed(_ name: String) -> String {
        name.map { $0.isUppercase ? "-\($0.lowercased())" : "\($0)" }.joined()
    }

    /// Digits in groups of three.
    private static func grouped(_ number: some BinaryInteger) -> String {
        let digits = Array("\(number)")
        return String(
            digits.enumerated().flatMap { index, digit in index > 0 && (digits.count - index) % 3 == 0 ? [",", digit] : [digit] })
    }
}

/// The text of the page `Metrics`: the name, type and help of each metric.
struct MetricsPage {
    let text: String

    /// - Parameter exposed: the answer of `/metrics`.
    init(_ exposed: String) {
        var rows: [String] = []
        var help: Substring = ""
        for line in exposed.split(separator: "\n") {
            let parts = line.split(separator: " ", maxSplits: 3)
            guard parts.count == 4, parts[0] == "#" else { continue }
            if parts[1] == "HELP" { help = parts[3] }
            if parts[1] == "TYPE" { rows.append("| `\(parts[2])` | \(parts[3]) | \(help.replacing("|", with: "\\|")) |") }
        }
        text = ([Self.head] + rows).joined(separator: "\n") + "\n"
    }

    private static let head = """
        # Metrics

        Every metric that a node exposes on `GET /metrics` of the ops port, in Prometheus' text format.

        > Note: This page is generated from the code. After a change of a metric run `make pages`.

        Units are in the names: `_seconds`, `_bytes`, and `_total` for counters. Counters are exact: `rollcall simulate --verify` compares
        them with its own ledger, to the last one. Labels:

        - `operation` and `code`: the operation and its answer's code; 0 is success.
        - `peer`: the node at the other end of a link.
        - `port`: `clients`, `cluster` or `ops`.
        - `reason`, `rule`, `state`, `kind`: the cause or state that is counted.

        | metric | type | meaning |
        |---|---|---|
        """
}
