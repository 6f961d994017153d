import ArgumentParser
import Foundation
import LoadSimulator
import PresenceNode
import PresenceWire

/// `rollcall cluster …`: the commands of operators.
struct ClusterCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract: "Show the members and the ring, drain a node, remove a dead node, and explain what a viewer sees.",
        subcommands: [MembersCommand.self, RingCommand.self, DrainCommand.self, ForgetCommand.self, ExplainCommand.self])
}

/// `rollcall cluster members`: prints the nodes and their states.
struct MembersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "members", abstract: "List the members of the cluster as one node sees them: name, state, address, start and version.")
    @OptionGroup var ops: OpsOptions

    func run() async throws {
        let answer = try await ops.call("clusterStatus")
        if ops.json { return ops.print(answer) }
        let rows = answer.value["members"]?.elements.map { member in
            var started = "?"
            // A node of an earlier release tells no start, and its process has nearly the same number.
            if case .integer(let milliseconds)? = member["startTime"] ?? member["startedAt"] {
                started = Date(timeIntervalSince1970: Double(milliseconds) / 1_000).formatted(.iso8601)
            }
            return ["node", "state", "address"].map { member[$0]?.text ?? "?" } + [started, member["version"]?.text ?? "-"]
        }
        for line in TerminalText.table([["NODE", "STATE", "ADDRESS", "STARTED", "VERSION"]] + (rows ?? [])) { Terminal.line(line) }
    }
}

/// `rollcall cluster ring`: prints the number of slots that each node owns.
struct RingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ring", abstract: "List the slots that each member owns, as one node sees them.")
    @OptionGroup var ops: OpsOptions

    func run() async throws {
        let answer = try await ops.call("clusterStatus")
        if ops.json { return ops.print(answer) }
        var rows = [["NODE", "WEIGHT", "SLOTS", "SHARE"]]
        for member in answer.value["members"]?.elements ?? [] {
            guard case .integer(let slots)? = member["slotsOwned"], case .integer(let weight)? = member["weight"] else { continue }
            rows.append([member["node"]?.text ?? "?", "\(weight)", "\(slots)", String(format: "%.2f %%", Double(slots) / 655.36)])
        }
        for line in TerminalText.table(rows, numbers: [1, 2, 3]) { Terminal.line(line) }
    }
}

/// `rollcall cluster drain`: prepares a node for its stop.
struct DrainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drain",
        abstract: "Move the slots and clients of a node to the other nodes. The node keeps running and can then be stopped.")
    @OptionGroup var ops: OpsOptions

    func run() async throws {
        let answer = try await ops.call("drain")
        guard case .bool(true)? = answer.value["isDraining"] else {
            throw CommandFailure(description: "the node is not draining: no other node is alive that could take over its slots", code: 1)
        }
        if ops.json { ops.print(answer) } else { Terminal.line("draining") }
    }
}

/// `rollcall cluster forget`: removes a dead node from the cluster.
struct ForgetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract:
            "Remove a dead node that will not return. Until then it counts towards the quorum.")
    @OptionGroup var ops: OpsOptions
    @Argument(help: "Name of the dead node, as `rollcall cluster members` shows it.") var node: String

    func run() async throws {
        var body = JSONWriter()
        body.object { $0.member("node", node) }
        let answer = try await ops.call("forget", body.bytes)
        if ops.json { ops.print(answer) } else { Terminal.line("forgotten") }
    }
}

/// `rollcall cluster explain`: prints the reasons for a user's status.
struct ExplainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain", abstract: "Explain what a viewer sees of a user, and why.")
    @OptionGroup var ops: OpsOptions
    @Option(help: "User ID of the viewer.") var viewer: String
    @Option(help: "User ID of the user who is seen.") var target: String

    func run() async throws {
        var body = JSONWriter()
        body.object { json in
            json.member("viewer", viewer)
            json.member("target", target)
        }
        let answer = try await ops.call("explain", body.bytes)
        if ops.json { return ops.print(answer) }
        let said = answer.value
        let owner = said["ownerOfTarget"]
        let status = owner?["userStatus"]
        Terminal.row([
            "\(target) is \(status?["statusType"]?.text ?? "?") at its owner, \(owner?["node"]?.text ?? "which did not answer")"
        ])
        for reason in owner?["because"]?.elements ?? [] { Terminal.row(["  because \(reason.text ?? "?")"]) }
        for reason in said["ownerOfViewer"]?["because"]?.elements ?? [] { Terminal.row(["to \(viewer): \(reason.text ?? "?")"]) }
        let version = status?["version"]?.text
        for node in said["nodes"]?.elements ?? [] {
            guard case .integer(let sessions)? = node["viewerSessions"], sessions > 0 else { continue }
            let held = node["versionHeld"]?.text
            let state = held == version ? "the owner's version" : "version \(held ?? "?"), the owner has \(version ?? "?")"
            Terminal.row([
                "\(node["node"]?.text ?? "?"), with \(sessions) streams of \(viewer), shows \(node["statusShown"]?.text ?? "?"): \(state)"
            ])
        }
    }
}
