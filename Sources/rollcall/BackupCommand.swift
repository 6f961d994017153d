import ArgumentParser
import Foundation
import NIOCore
import PresenceNode
import PresenceWire

/// `rollcall backup FILE`: copies the database of a running node.
struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup", abstract: "Copy the database of a running node into a file.",
        discussion: """
            The node goes on meanwhile. The file has all changes that were acknowledged before the backup began, and is checked before it \
            gets its name: FILE is complete, or it is not there. Nobody else can read it. In a cluster of up to three nodes each node has \
            all users; in a larger one back up every node. `rollcall restore` puts the file into a data directory.

            A backup has the users of all apps. Nodes with a secret want a proof of it: give clusterSecret in --config, or \
            ROLLCALL_CLUSTER_SECRET.
            """)

    @Argument(help: "The file to write; an existing one is replaced.") var file: String
    @Option(help: "YAML file with settings of a node: clusterSecret.") var config: String?
    @OptionGroup var ops: OpsOptions

    func run() async throws {
        let settings = try await NodeConfiguration.read(flags: [:], environment: ProcessInfo.processInfo.environment, file: config)
        let target = try NamedFile.replaceable(file, "FILE")
        let part = target + ".part"
        try NamedFile.open(part, "FILE")
        let backup: BackupFile
        do {
            try await fetch(BackupProof(secret: settings.clusterSecret), into: part)
            backup = try BackupFile(checking: part)
        } catch {
            unlink(part)
            throw error
        }
        guard rename(part, target) == 0 else {
            throw CommandFailure(
                description: "FILE: \(file): \(String(cString: strerror(errno)))", code: PresenceNode.ExitCode.inputOutput)
        }
        backup.show(as: file, json: ops.json, "\(file): ")
    }

    private func fetch(_ proof: BackupProof, into part: String) async throws {
        guard chmod(part, 0o600) == 0, let output = FileHandle(forWritingAtPath: part) else {
            throw CommandFailure(description: "FILE: \(part): cannot be written", code: PresenceNode.ExitCode.inputOutput)
        }
        try output.truncate(atOffset: 0)
        try await ops.stream("backup?\(proof.query())", app: "default") { piece in
            do { try output.write(contentsOf: Data(piece.readableBytesView)) } catch {
                throw CommandFailure(description: "FILE: \(part): cannot be written", code: PresenceNode.ExitCode.inputOutput)
            }
        }
        try output.synchronize()
        try output.close()
    }
}

/// `rollcall restore FILE`: puts a backup into a data directory.
struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Put a backup into the data directory of a node that is not running.",
        discussion: """
            The backup is checked first. A data directory that has a database already is refused, and stays as it is. Start the node with the \
            name that the command prints: the database belongs to it. Operations says how to restore a cluster, and when not to.
            """)

    @Argument(help: "A file of `rollcall backup`.") var file: String
    @Option(help: "The data directory; created if it is not there.") var dataDir: String
    @Flag(help: "Print the result as JSON.") var json = false

    func run() throws {
        let backup = try BackupFile(checking: file)
        try backup.restore(into: dataDir)
        backup.show(as: file, json: json, "\(dataDir): ")
        if !json { Terminal.line(PrintableText.escaped("start it with: rollcall serve --node-id \(backup.node) --data-dir \(dataDir)")) }
    }
}

extension BackupFile {
    /// Prints what is in the backup.
    fileprivate func show(as file: String, json isJSON: Bool, _ prefix: String) {
        guard isJSON else {
            let rows = rowsCount == 1 ? "1 row" : "\(rowsCount) rows"
            return Terminal.line(PrintableText.escaped("\(prefix)\(rows) of node \(node), cluster \(cluster), \(bytesCount) bytes"))
        }
        var json = JSONWriter()
        json.object { json in
            json.member("file", file)
            json.member("node", node)
            json.member("cluster", cluster)
            json.member("rows", Int64(rowsCount))
            json.member("bytes", Int64(bytesCount))
        }
        Terminal.line(PrintableText.escapedJSON(json.bytes))
    }
}
