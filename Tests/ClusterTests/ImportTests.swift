import Foundation
import Glibc
import NodeFixture
import Testing

/// `rollcall import` with files as spreadsheets, databases and people write them, into three nodes.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ImportTests {
    private func arguments(_ file: String, _ fixture: ServedCluster) -> [String] {
        ["import", file, "--target", "http://127.0.0.1:\(fixture.nodes[0].ports.client)"]
    }

    private func write(_ text: String, as name: String, _ fixture: ServedCluster) throws -> String {
        let path = "\(fixture.directory)/\(name)"
        try Data(text.utf8).write(to: URL(filePath: path))
        return path
    }

    /// The remarks of a user's friends, by the IDs of the friends.
    private func friends(of user: String, _ fixture: ServedCluster, node: Int = 1) async throws -> [String: String] {
        let answer = try await fixture.call(
            "getFriendList", #"{"asUser":"\#(user)","limit":100}"#, as: "operator", isAdmin: true, node: node)
        guard answer.status == 200 else { throw TestFailure("\(answer.json)") }
        let rows = answer.json["friendList"]?.elements ?? []
        return Dictionary(uniqueKeysWithValues: rows.map { ($0["userID"]?.text ?? "?", $0["remark"]?.text ?? "") })
    }

    /// The fields of a line, with their quotes.
    private func fields(_ line: Substring) -> [String] {
        var (fields, isQuoted) = ([""], false)
        for character in line {
            if character == "\"" { isQuoted.toggle() }
            if character == ",", !isQuoted { fields.append("") } else { fields[fields.count - 1].append(character) }
        }
        return fields
    }

    // MARK: A large file

    /// A bad row of each kind, and the beginning of the reason that the report gives. U+0001 stands for a byte of Latin-1.
    private static let badRows: [(row: @Sendable (_ user: String) -> String, reason: String)] = [
        ({ "\($0),x" }, "has 2 fields; 4 are right"), ({ "\($0),x,Miller, Ben,1" }, "has 5 fields; 4 are right"),
        ({ "\($0),x,M\u{1}ller,1" }, "field 3 is not UTF-8"), ({ "\($0),x,5\" pipe,1" }, "a quote stands inside a field"),
        ({ "\($0),x,\"say \\\"hi\\\"\",1" }, "text follows the end of the quotes"),
        ({ "\($0),x,\"open,1" }, "the end of a quote is missing"),
        ({ "\($0),x,\(String(repeating: "r", count: 70_000)),1" }, "has more than 65536 bytes"), ({ ",\($0),x,1" }, "userID: "),
        ({ "\($0),\(String(repeating: "f", count: 65)),x,1" }, "friendID: "), ({ "\($0),\($0),x,1" }, "userID: "),
        ({ "\($0),x,\(String(repeating: "r", count: 97)),1" }, "remark: "), ({ "\($0),x,,soon" }, "addTime: "),
    ]

    /// The place of a bad row among the rows of the file, from 0.
    private static func place(ofBad kind: Int) -> Int { 31 + kind * 8_311 }

    private static let usersCount = 1_000
    private static let friendsCount = 100

    /// A file of 100,000 rows. Its line ends, blanks and surplus commas differ from row to row.
    private func largeFile(_ fixture: ServedCluster) throws -> String {
        let bad = Dictionary(uniqueKeysWithValues: Self.badRows.indices.map { (Self.place(ofBad: $0), $0) })
        var bytes = Array("\u{FEFF}\"userID\", friendID,remark,addTime\r\n".utf8)
        for number in 0..<Self.usersCount * Self.friendsCount {
            let (user, friend) = ("user\(number / Self.friendsCount)", "friend\(number % Self.friendsCount)")
            let right =
                switch number % 4 {
                case 0: "\(user),\(friend),\"two\r\nlines of \"\"\(friend)\"\"\",1000"
                case 1: " \(user) , \(friend),,"
                case 2: "\(user),\"\(friend)\",a remark,1000,,"
                default: "\(user),\(friend),,1000"
                }
            let row = Array((bad[number].map { Self.badRows[$0].row(user) } ?? right).utf8)
            bytes += row.map { $0 == 1 ? 0xFC : $0 } + Array(["\n", "\r\n", "\r"][number % 3].utf8)
        }
        let path = "\(fixture.directory)/friends.csv"
        try Data(bytes).write(to: URL(filePath: path))
        return path
    }

    private func remark(of number: Int) -> String {
        switch number % 4 {
        case 0: "two\r\nlines of \"friend\(number % Self.friendsCount)\""
        case 2: "a remark"
        default: ""
        }
    }

    /// Kills an import with SIGKILL, after it has stored another place in the file than the run before.
    private func killImport(of file: String, _ fixture: ServedCluster) async throws {
        let rows = {
            let stored = FileManager.default.contents(atPath: "\(file).progress").flatMap { try? JSON($0) }
            return stored?["counts"]?["rows"]?.number ?? 0
        }
        let before = rows()
        let process = Process()
        process.executableURL = URL(filePath: RollcallBinary.path)
        process.arguments = arguments(file, fixture) + ["--calls", "4"]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        try await fixture.until("the import stores a place") { rows() > before || !process.isRunning }
        kill(process.processIdentifier, SIGKILL)
        try await fixture.until("the import ends") { !process.isRunning }
        #expect(process.terminationReason == .uncaughtSignal)
    }

    @Test("An import that is killed twice brings each good row once, and its report names each bad row and can be imported when mended")
    func badRows() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let file = try largeFile(fixture)
        for _ in 0..<2 { try await killImport(of: file, fixture) }
        let ended = try await RollcallBinary.run(arguments(file, fixture))
        #expect(ended.status == 1 && ended.output.contains("100000 rows: ") && ended.output.contains(" 12 refused"), "\(ended.output)")
        let isBad = Set(Self.badRows.indices.map(Self.place(ofBad:)))
        for user in 0..<Self.usersCount {
            let numbers = (user * Self.friendsCount..<(user + 1) * Self.friendsCount).filter { !isBad.contains($0) }
            let right = Dictionary(uniqueKeysWithValues: numbers.map { ("friend\($0 % Self.friendsCount)", remark(of: $0)) })
            #expect(try await friends(of: "user\(user)", fixture, node: user % 3) == right)
        }

        let report = try String(contentsOfFile: "\(file).refused.csv", encoding: .utf8).split(separator: "\n").map(fields)
        #expect(report.first == ["userID", "friendID", "remark", "addTime", "row", "code", "reason"])
        #expect(report.count == 13)
        for (kind, row) in report.dropFirst().enumerated() {
            #expect(row.count == 7 && row[4] == "\(Self.place(ofBad: kind) + 1)")
            #expect(row.last?.drop { $0 == "\"" }.hasPrefix(Self.badRows[kind].reason) == true, "\(row)")
        }
        let mended =
            [report[0]]
            + report.dropFirst().enumerated().map { kind, row in
                let number = Self.place(ofBad: kind)
                return ["user\(number / Self.friendsCount)", "friend\(number % Self.friendsCount)", "mended", "1000"] + row.suffix(3)
            }
        let again = try await RollcallBinary.run(
            arguments(try write(mended.map { $0.joined(separator: ",") + "\n" }.joined(), as: "mended.csv", fixture), fixture))
        #expect(again.status == 0 && again.output.contains("12 rows: 12 imported, 0 present already, 0 refused"), "\(again.output)")
        for number in isBad {
            let friends = try await friends(of: "user\(number / Self.friendsCount)", fixture)
            #expect(friends.count == Self.friendsCount && friends["friend\(number % Self.friendsCount)"] == "mended")
        }
        try await fixture.stop()
    }

    // MARK: Other files

    @Test(
        "A file with another delimiter or in another encoding is refused before the first row, and the cause is named",
        arguments: [
            (Array("userID;friendID;remark\r\na;b;c\r\n".utf8), "the delimiter is a semicolon"),
            (Array("userID\tfriendID\na\tb\n".utf8), "the delimiter is a tab"),
            (Array("sep=,\r\nuserID,friendID\r\na,b\r\n".utf8), "\"sep=\" is no column"), ([], "is empty"),
            // UTF-16 with a byte order mark, and a column with a letter of Latin-1.
            ([0xFF, 0xFE] + Array("userID,friendID\na,b\n".utf8).flatMap { [$0, 0] }, "row 0: field 1 is not UTF-8"),
            (Array("userID,friendID,pr".utf8) + [0xE9] + Array("nom\na,b,c\n".utf8), "row 0: field 3 is not UTF-8"),
        ] as [([UInt8], String)])
    func otherFiles(bytes: [UInt8], words: String) async throws {
        let fixture = try await ServedCluster.start()
        let file = try write("", as: "friends.csv", fixture)
        try Data(bytes).write(to: URL(filePath: file))
        let ended = try await RollcallBinary.run(arguments(file, fixture))
        #expect(ended.status == ExitCode.usage && ended.output.contains(words), "\(ended.output)")
        try await fixture.stop()
    }

    @Test("A user whom the app does not know costs its own rows alone") func unknownUser() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        #expect(try await fixture.admin("importUsers", #"{"userIDs":["ann","ben","cem"]}"#).status == 200)
        try await fixture.setPolicy(#"{"users.mustBeRegistered":true}"#)
        let rows = ["userID,friendID", "ann,ben", "eve,ben", "eve,cem", "ann,eve", "cem,ben"]
        let file = try write(rows.joined(separator: "\n"), as: "friends.csv", fixture)
        let ended = try await RollcallBinary.run(arguments(file, fixture))
        #expect(ended.status == 1 && ended.output.contains("5 rows: 2 imported, 0 present already, 3 refused"), "\(ended.output)")
        #expect(try await friends(of: "ann", fixture).keys.sorted() == ["ben"])
        #expect(try await friends(of: "cem", fixture).keys.sorted() == ["ben"])
        try await fixture.stop()
    }
}
