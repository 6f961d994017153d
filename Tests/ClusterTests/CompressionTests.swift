import Foundation
import NodeFixture
import Testing

/// Answers with gzip, over both versions of HTTP and on both ports (<doc:HTTPAPI#Compression>).
@Suite(.serialized, .timeLimit(.minutes(3))) struct CompressionTests {
    private static let versions = ["--http1.1", "--http2-prior-knowledge"]

    /// An answer as it was sent: the fields in lower case, and the body in a file.
    private struct Answer {
        let fields: [(name: String, value: String)]
        let file: String

        func values(_ name: String) -> [String] { fields.filter { $0.name == name }.map(\.value) }
        var isGzip: Bool { values("content-encoding") == ["gzip"] }
        var varies: Bool { values("vary").contains("Accept-Encoding") }
        var length: Int? { values("content-length").first.flatMap { Int($0) } }
        var body: Data { get throws { try Data(contentsOf: URL(filePath: file)) } }

        /// The text of a body that was compressed.
        func text() async throws -> String {
            let result = try await run("bash", ["-c", #"gzip --decompress --stdout < "$0""#, file])
            #expect(result.status == 0)
            return result.output
        }
    }

    private let folder = FileManager.default.temporaryDirectory.appending(path: "rollcall-gzip-\(UUID().uuidString)")

    private func request(_ flags: [String], _ url: String) async throws -> Answer {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let file = folder.appending(path: UUID().uuidString).path
        // Debian's curl fails when it follows a redirect over HTTP/2 on the same connection.
        let redirect = try await run("curl", ["-s", "-o", "/dev/null", "-w", "%{redirect_url}", url]).output
        let target = redirect.isEmpty ? url : redirect
        let result = try await run("curl", ["-s", "-D", "\(file).head", "-o", file] + flags + [target])
        #expect(result.status == 0 || result.status == 28, "\(url): \(result)")
        let head =
            try String(contentsOfFile: "\(file).head", encoding: .utf8).components(separatedBy: "\r\n\r\n").last { !$0.isEmpty } ?? ""
        let fields = head.components(separatedBy: "\r\n").dropFirst().compactMap { line -> (name: String, value: String)? in
            guard let colon = line.firstIndex(of: ":") else { return nil }
            return (line[..<colon].lowercased(), line[colon...].dropFirst().trimmingCharacters(in: .whitespaces))
        }
        return Answer(fields: fields, file: file)
    }

    private static let gzip = ["-H", "Accept-Encoding: gzip, deflate, br"]

    @Test("Long answers are compressed where gzip is accepted, vary by it, and HEAD agrees with GET", arguments: versions)
    func long(version: String) async throws {
        let fixture = try await ServedCluster.start()
        let ports = fixture.nodes[0].ports
        let users = (0..<60).map { "\"user-\($0)\"" }.joined(separator: ",")
        let call = ["-H", "Authorization: Bearer \(try signedToken(user: "ann"))", "-d", "{\"userIDs\":[\(users)]}"]
        for (flags, port, path, isRead) in [
            ([], ports.client, "/client.js", true), ([], ports.client, "/openapi.json", true),
            (call, ports.client, "/v1/getUserStatus", false),
            ([], ports.ops, "/console", true), ([], ports.ops, "/console/console.js", true), ([], ports.ops, "/openapi.json", true),
        ] as [([String], Int, String, Bool)] {
            let url = "http://127.0.0.1:\(port)\(path)"
            let plain = try await request([version] + flags, url)
            #expect(!plain.isGzip && plain.varies && plain.values("content-encoding").isEmpty, "\(path): \(plain.fields)")
            let refused = try await request([version, "-H", "Accept-Encoding: gzip;q=0, identity"] + flags, url)
            #expect(!refused.isGzip && refused.varies)
            let short = try await request([version] + Self.gzip + flags, url)
            let (plainBytes, bytes) = (try plain.body.count, try short.body.count)
            #expect(short.isGzip && short.varies && short.length == bytes && bytes < plainBytes / 2, "\(path): \(bytes) of \(plainBytes)")
            let text = try String(contentsOfFile: plain.file, encoding: .utf8)
            // An answer of the API names the time of the question.
            let found = try await short.text()
            #expect(isRead ? found == text : found.count == text.count && found.hasPrefix(text.prefix(100)), "\(path)")
            guard isRead else { continue }
            let head = try await request([version, "--head"] + Self.gzip, url)
            #expect(head.isGzip && head.varies && head.length == short.length, "\(path): \(head.fields)")
        }
        let metrics = try await request([version] + Self.gzip, "http://127.0.0.1:\(ports.ops)/metrics")
        #expect(metrics.isGzip)
        #expect(try await metrics.text().contains("rollcall_sessions"))
        try await fixture.stop()
        try FileManager.default.removeItem(at: folder)
    }

    @Test("Short answers and event streams are not compressed", arguments: versions) func short(version: String) async throws {
        let fixture = try await ServedCluster.start()
        let ports = fixture.nodes[0].ports
        let token = ["-H", "Authorization: Bearer \(try signedToken(user: "ann"))"]
        for (flags, port, path) in [
            (token + ["-d", #"{"userIDs":["ben"]}"#], ports.client, "/v1/getUserStatus"),
            (token + ["-d", "{}"], ports.client, "/v1/streamTicket"),
            (token + ["-m", "1"], ports.client, "/v1/events?platform=web"), ([], ports.ops, "/healthz"),
        ] as [([String], Int, String)] {
            let answer = try await request([version] + Self.gzip + flags, "http://127.0.0.1:\(port)\(path)")
            #expect(answer.values("content-encoding").isEmpty && !answer.varies && !answer.fields.isEmpty, "\(path): \(answer.fields)")
        }
        try await fixture.stop()
        try FileManager.default.removeItem(at: folder)
    }

    @Test("The answer about 3,000 subscriptions and an export are compressed", arguments: versions)
    func longest(version: String) async throws {
        let fixture = try await ServedCluster.start()
        let ports = fixture.nodes[0].ports
        for number in 0..<15 {
            let names = (0..<200).map { "\"\(String(repeating: "x", count: 50))-\(number)-\($0)\"" }.joined(separator: ",")
            #expect(try await fixture.call("subscribeUserStatus", "{\"userIDs\":[\(names)]}").status == 200)
        }
        let user = ["-H", "Authorization: Bearer \(try signedToken(user: "ann"))", "-d", "{}"]
        let admin = ["-H", "Authorization: Bearer \(try signedToken(user: "ops", isAdmin: true))"]
        for (flags, port, path, bytesMin) in [
            (user, ports.client, "/v1/getSubscribedUserStatus", 600_000), (admin, ports.ops, "/admin/v1/export?kind=all", 300_000),
        ] as [([String], Int, String, Int)] {
            let url = "http://127.0.0.1:\(port)\(path)"
            let plain = try await request([version] + flags, url)
            #expect(!plain.isGzip && plain.varies, "\(path): \(plain.fields)")
            let short = try await request([version] + Self.gzip + flags, url)
            let (plainBytes, bytes) = (try plain.body.count, try short.body.count)
            #expect(short.isGzip && short.varies, "\(path): \(short.fields)")
            #expect(plainBytes > bytesMin && bytes < plainBytes / 3, "\(path): \(bytes) of \(plainBytes)")
            #expect(try await short.text().count == String(contentsOfFile: plain.file, encoding: .utf8).count, "\(path)")
        }
        try await fixture.stop()
        try FileManager.default.removeItem(at: folder)
    }
}
