import Foundation
import NodeFixture
import Testing

/// Clients that know nothing of us: each can log in, set and query.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ForeignClientTests {
    private static func token() throws -> String { "Authorization: Bearer \(try signedToken(user: "ann"))" }

    /// Logs in, sets and queries with curl.
    private func useCurl(_ flags: [String], scheme: String, _ fixture: ServedCluster) async throws {
        let url = "\(scheme)://127.0.0.1:\(fixture.nodes[0].ports.client)/v1"
        let header = try Self.token()
        let login = try await run("curl", flags + ["-s", "-N", "-m", "8", "-H", header, "\(url)/events?platform=web"])
        #expect(login.output.contains("event: onConnected"), "\(flags): \(login.output)")
        #expect(login.output.contains("event: onSubscriptionSyncCompleted"))
        let set = try await run("curl", flags + ["-s", "-H", header, "-d", #"{"customStatus":"busy"}"#, "\(url)/setSelfStatus"])
        #expect(set.output.contains(#""customStatus":"busy""#), "\(flags): \(set.output)")
        let query = try await run("curl", flags + ["-s", "-H", header, "-d", #"{"userIDs":["ann"]}"#, "\(url)/getUserStatus"])
        #expect(query.output.contains(#""customStatus":"busy""#), "\(flags): \(query.output)")
    }

    @Test("curl without TLS can call and stream", arguments: ["--http1.1", "--http2-prior-knowledge"]) func curlInClear(version: String)
        async throws
    {
        // The session of the first call has ended when the others are made. No user may be OFFLINE by then.
        let fixture = try await ServedCluster.start(["ROLLCALL_OFFLINE_GRACE": "600"])
        try await useCurl([version], scheme: "http", fixture)
        try await fixture.stop()
    }

    @Test("curl over TLS chooses HTTP/2 by ALPN") func curlOverTLSChoosesHTTP2ByALPN() async throws {
        let temporary = TemporaryFolder()
        let folder = temporary.path
        let made = try await run(
            "openssl",
            [
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", "\(folder)/key.pem",
                "-out", "\(folder)/certificate.pem",
            ])
        #expect(made.status == 0, "\(made.output)")
        let fixture = try await ServedCluster.start(
            in: temporary, arguments: ["--tls-certificate", "\(folder)/certificate.pem", "--tls-key", "\(folder)/key.pem"])
        for version in ["--http1.1", "--http2"] { try await useCurl(["-k", version], scheme: "https", fixture) }
        let version = try await run(
            "curl",
            ["-k", "-s", "-o", "/dev/null", "-w", "%{http_version}", "https://127.0.0.1:\(fixture.nodes[0].ports.client)/openapi.json"])
        #expect(version.output == "2")
        try await fixture.stop()
    }

    @Test("nghttp and h2load can call the API") func nghttpAndH2load() async throws {
        let fixture = try await ServedCluster.start()
        let url = "http://127.0.0.1:\(fixture.nodes[0].ports.client)/v1"
        let header = try Self.token()
        let folder = fixture.directory
        try #"{"customStatus":"busy"}"#.write(toFile: "\(folder)/set", atomically: true, encoding: .utf8)
        try #"{"userIDs":["ann"]}"#.write(toFile: "\(folder)/query", atomically: true, encoding: .utf8)
        let set = try await run("nghttp", ["-H", header, "-d", "\(folder)/set", "\(url)/setSelfStatus"])
        #expect(set.output.contains(#""customStatus":"busy""#), "\(set.output)")
        let query = try await run("nghttp", ["-H", header, "-d", "\(folder)/query", "\(url)/getUserStatus"])
        #expect(query.output.contains(#""customStatus":"busy""#), "\(query.output)")
        let load = try await run(
            "h2load", ["-n", "2000", "-c", "4", "-m", "10", "-H", header, "-d", "\(folder)/query", "\(url)/getUserStatus"])
        #expect(load.output.contains("2000 succeeded, 0 failed, 0 errored"), "\(load.output)")
        #expect(load.output.contains("2000 2xx"))
        try await fixture.stop()
    }
}
