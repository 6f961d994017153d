import ArgumentParser
import Foundation
import HTTP2
import NIOPosix
import PresenceNode
import PresenceWire

/// `rollcall cluster …`: the commands of operators.
struct ClusterCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract: "Show the members and the ring, drain a node, remove a dead node, and explain what a viewer sees.",
        subcommands: [MembersCommand.self, RingCommand.self, DrainCommand.self, ForgetCommand.self, ExplainCommand.self])
}

/// The options with which the commands of operators reach a node's ops port and log in.
struct OpsOptions: ParsableArguments {
    @Option(help: "URL of a node's ops port.") var ops = "http://127.0.0.1:7602"
    @Option(help: "Token with role admin (default: one signed with the development key).") var token: String?

    /// Carries out an operator's operation and returns its answer.
    func call(_ operation: String, _ body: [UInt8] = Array("{}".utf8)) async throws -> JSONValue {
        guard let url = URL(string: ops), let host = url.host, url.scheme == "http" else {
            throw ValidationError("--ops: \"\(ops)\" is not http://HOST:PORT")
        }
        var bearer = token
        if bearer == nil { bearer = try await TokenMint().token(user: "operator", isAdmin: true) }
        let response: HTTPExchange.Response
        do {
            response = try await HTTPExchange.send(
                .post, host: host, port: url.port ?? 7602, path: "/admin/v1/\(operation)",
                headers: [("authorization", "Bearer \(bearer ?? "")")], body: String(decoding: body, as: UTF8.self),
                on: MultiThreadedEventLoopGroup.singleton.next())
        } catch { throw CommandFailure(description: "\(error)", code: PresenceNode.ExitCode.unavailable) }
        guard response.status == 200, let answer = try? JSONReader.read(response.body) else {
            throw CommandFailure(description: response.text, code: 1)
        }
        return answer
    }
}

/// `rollcall cluster members`: prints the nodes and their states.
struct MembersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "members", abstract: "List the members of the cluster as one node sees them: name, state, address.")
    @OptionGroup var ops: OpsOptions

    func run() async throws {
        for member in try await ops.call("clusterStatus")["members"]?.elements ?? [] {
            Terminal.row(["node", "state", "address"].map { member[$0]?.text ?? "?" })
        }
    }
}

/// `rollcall cluster ring`: prints the number of slots that each node owns.
struct RingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ring", abstract: "List the slots that each member owns, as one node sees them.")
    @OptionGroup var ops: OpsOptions

    func run() async throws {
        for member in try await ops.call("clusterStatus")["members"]?.elements ?? [] {
            guard case .integer(let slots)? = member["slotsOwned"], case .integer(let weight)? = member["weight"] else { continue }
            let share = String(format: "%.2f %%", Double(slots) / 655.36)
            Terminal.row([member["node"]?.text ?? "?", "weight \(weight)", "\(slots) slots", share])
        }
    }
}

/// `rollcall cluster drain`: prepares a node for its stop.
struct DrainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drain",
        abstract: "Move the slots and clients of a node to the other nodes. The node keeps running and can then be stopped.")
    @OptionGroup var ops: OpsOptions

    func run() async throws {
        guard case .bool(true)? = try await ops.call("drain")["isDraining"] else {
            throw CommandFailure(description: "the node is not draining: no other node is alive that could take over its slots", code: 1)
        }
        Terminal.line("draining")
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
        _ = try await ops.call("forget", body.bytes)
        Terminal.line("forgotten")
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
        let said = try await ops.call("explain", body.bytes)
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
