import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// Tokens as identity providers and back ends write them (<doc:HTTPAPI#Callers-and-tokens>).
@Suite(.serialized, .timeLimit(.minutes(5))) struct TokenTests {
    /// A token of `ann` with changed claims. Each is a piece of JSON; an empty text removes the claim.
    private func token(_ changes: [String: String]) -> String {
        let now = Int(Date().timeIntervalSince1970)
        let claims = ["sub": #""ann""#, "exp": "\(now + 600)", "iat": "\(now - 5)"].merging(changes) { $1 }
        let members = claims.filter { !$0.value.isEmpty }.map { "\"\($0.key)\":\($0.value)" }
        return signedToken(claims: Data("{\(members.joined(separator: ","))}".utf8))
    }

    /// A number of whole seconds, counted from now.
    private func seconds(_ fromNow: Int) -> String { "\(Int(Date().timeIntervalSince1970) + fromNow)" }

    private func call(
        _ fixture: ServedCluster, _ token: String, node: Int = 0, _ body: String = #"{"userIDs":["ann"]}"#
    ) async throws -> (status: Int, code: Int64?, detail: String) {
        let response = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: fixture.nodes[node].ports.client, path: "/v1/getUserStatus",
            headers: [("authorization", "Bearer \(token)")], body: body, on: MultiThreadedEventLoopGroup.singleton.next())
        let json = try JSON(response.body)
        return (response.status, json["code"]?.number, json["detail"]?.text ?? "")
    }

    @Test("A clock that differs by 5 s is no obstacle to a token, and a larger difference names the claim") func leeway() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        for node in 0..<3 {
            for changes in [
                ["nbf": seconds(5), "iat": seconds(5)], ["iat": seconds(30)], ["exp": seconds(-2)], ["exp": seconds(60) + ".5"],
            ] {
                let answer = try await call(fixture, token(changes), node: node)
                #expect(answer.status == 200, "\(changes): \(answer.detail)")
            }
            for (claim, time) in [("nbf", seconds(20)), ("exp", seconds(-20)), ("iat", seconds(90)), ("iat", seconds(0) + "000")] {
                let answer = try await call(fixture, token([claim: time]), node: node)
                #expect(answer.status == 401 && answer.code == 6014 && answer.detail.hasPrefix("\(claim): "), "\(time): \(answer)")
            }
        }
        try await fixture.stop()
    }

    /// The bytes of the verified tokens that a node keeps.
    private func keptBytes(_ fixture: ServedCluster, node: Int) async throws -> Int {
        let found = try await fixture.nodes[node].metricsText().firstMatch(of: /\nrollcall_verified_tokens_bytes ([0-9]+)\n/)
        return try #require(found.flatMap { Int($0.1) })
    }

    /// A token of which each part but the header has a digit that the alphabet of Base64 writes otherwise.
    private func tokenOfBothAlphabets(_ number: Int) -> String {
        for attempt in 0... {
            // In Base64url three question marks have an underscore, wherever they begin.
            let token = token(["jti": "\"\(number)-\(attempt)-?????\""])
            if token.split(separator: ".").dropFirst().allSatisfy({ $0.contains { "-_".contains($0) } }) { return token }
        }
        preconditionFailure("the natural numbers have ended")
    }

    @Test("A token is accepted in one spelling, and its other spellings are kept nowhere") func spellings() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        let inBase64 = { (text: String) in text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/") }
        for node in 0..<3 {
            let token = tokenOfBothAlphabets(node)
            #expect(try await call(fixture, token, node: node).status == 200)
            let kept = try await keptBytes(fixture, node: node)
            #expect(kept > 0)
            let last = try #require(token.last.flatMap { digits.firstIndex(of: $0) })
            let others = (1...3).map { String(token.dropLast()) + String(digits[last ^ $0]) }
            let parts = token.split(separator: ".").map(String.init)
            let alphabets = [
                inBase64(token), "\(parts[0]).\(inBase64(parts[1])).\(parts[2])", "\(parts[0]).\(parts[1]).\(inBase64(parts[2]))",
            ]
            #expect(!alphabets.contains(token))
            for spelling in others + alphabets + ["\(token)=", "\(token).", ".\(token)"] {
                let refused = try await call(fixture, spelling, node: node)
                #expect(refused.status == 401 && refused.code == 6014 && refused.detail.contains("Base64url"), "\(refused)")
            }
            #expect(try await call(fixture, token, node: node).status == 200)
            #expect(try await keptBytes(fixture, node: node) == kept)
        }
        try await fixture.stop()
    }

    @Test("The verified tokens that a node keeps are bounded in bytes, however many are valid") func keptTokens() async throws {
        let fixture = try await ServedCluster.start()
        var (most, emptiedCount, before) = (0, 0, 0)
        // Two copies of each token are kept, so 2,000 of more than 6,000 bytes would take more than 24 MB.
        for number in 0..<2_000 {
            let answer = try await call(fixture, token(["jti": "\"\(number)\"", "scope": "\"\(String(repeating: "s", count: 4_500))\""]))
            #expect(answer.status == 200, "\(answer.detail)")
            guard number % 20 == 19 else { continue }
            let kept = try await keptBytes(fixture, node: 0)
            if kept < before { emptiedCount += 1 }
            (most, before) = (max(most, kept), kept)
        }
        #expect(((9 << 20)...(10 << 20)).contains(most), "\(most)")
        #expect(emptiedCount >= 2)
        try await fixture.stop()
    }

    @Test("A claim of another type is named, with its type and the right one") func types() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        for (claim, value, detail) in [
            ("sub", "42", "is a number; it must be a text"), ("sub", "", "is missing; it must be a text"),
            ("sub", #""""#, "must be 1 to 64 bytes without control characters"),
            ("app", #"{"name":"shop"}"#, "is an object; it must be a text"),
            ("role", #"["user","editor"]"#, "is a list; it must be a text"), ("exp", "", "is missing; it must be a number of seconds"),
            ("exp", "\"\(seconds(600))\"", "is a text; it must be a number of seconds"),
            ("iat", "true", "is a boolean; it must be a number of seconds"),
            ("nbf", "[1]", "is a list; it must be a number of seconds"),
        ] {
            for node in 0..<3 {
                let answer = try await call(fixture, token([claim: value]), node: node)
                #expect(answer.status == 401 && answer.code == 6014 && answer.detail == "\(claim): \(detail)", "\(value): \(answer)")
            }
        }
        try await fixture.stop()
    }

    @Test("Claims that a node does not need refuse nothing") func otherClaims() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        for changes in [
            ["aud": #"["x"]"#, "iss": #""https://idp.example""#, "scope": #""openid""#], ["jti": "7", "realm_access": #"{"roles":["a"]}"#],
            ["role": #""editor""#], ["role": "null", "app": "null", "nbf": "null"], ["iat": ""],
        ] {
            for node in 0..<3 {
                let answer = try await call(fixture, token(changes), node: node)
                #expect(answer.status == 200, "\(changes): \(answer.detail)")
            }
        }
        try await fixture.stop()
    }

    @Test("A call for another user without the role admin is answered 403 with code 403") func otherUser() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        for node in 0..<3 {
            let answer = try await call(fixture, token([:]), node: node, #"{"userIDs":["ann"],"asUser":"bob"}"#)
            #expect(answer.status == 403 && answer.code == 403 && answer.detail.hasPrefix("asUser: "), "\(answer)")
            let stream = try await HTTPExchange.send(
                .get, host: "127.0.0.1", port: fixture.nodes[node].ports.client, path: "/v1/events?asUser=bob",
                headers: [("authorization", "Bearer \(token([:]))")], on: MultiThreadedEventLoopGroup.singleton.next())
            #expect(try stream.status == 403 && JSON(stream.body)["code"]?.number == 403)
        }
        try await fixture.stop()
    }

    @Test("A token that is made right after a kick, in whole seconds, is accepted, and none that was made before") func kick() async throws
    {
        let fixture = try await ServedCluster.start(nodes: 3)
        let earlier = token(["iat": seconds(-1)])
        for node in 0..<3 { #expect(try await call(fixture, earlier, node: node).status == 200) }
        #expect(try await fixture.admin("kick", #"{"userID":"ann"}"#, node: 1).status == 200)
        let later = token(["iat": seconds(0)])
        let withoutTime = token(["iat": ""])
        for node in 0..<3 {
            #expect(try await call(fixture, later, node: node).status == 200)
            let refused = try await call(fixture, earlier, node: node)
            #expect(refused.status == 401 && refused.detail.hasPrefix("iat: the user was kicked"), "\(refused)")
            let unnamed = try await call(fixture, withoutTime, node: node)
            #expect(unnamed.status == 401 && unnamed.detail.contains("the token has no iat"), "\(unnamed)")
        }
        try await fixture.stop()
    }

    // MARK: The end of a token under a stream

    /// A stream of `ann` with this token, or with a ticket.
    private func stream(_ fixture: ServedCluster, node: Int = 0, token: String? = nil, query: String = "") -> AsyncThrowingStream<
        [UInt8], any Error
    > {
        HTTPExchange.stream(
            host: "127.0.0.1", port: fixture.nodes[node].ports.client, path: "/v1/events?platform=web\(query)",
            headers: token.map { [("authorization", "Bearer \($0)")] } ?? [], on: MultiThreadedEventLoopGroup.singleton.next())
    }

    /// All that a stream has told until its end.
    private func whole(_ stream: AsyncThrowingStream<[UInt8], any Error>) async throws -> String {
        var text = ""
        for try await piece in stream { text += String(decoding: piece, as: UTF8.self) }
        return text
    }

    private func statusType(_ fixture: ServedCluster) async throws -> String? {
        try await fixture.admin("queryOnlineStatus", #"{"userIDs":["ann"]}"#, node: 2)
            .json["userStatusList"]?.elements[0]["statusType"]?.text
    }

    @Test("A session ends token.grace after its token, also one that a ticket opened, and its user goes OFFLINE")
    func endOfToken() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        try await fixture.setPolicy(#"{"token.grace":1,"offlineGrace":0}"#)
        let expiresAt = seconds(2)
        let token = token(["exp": expiresAt])
        let response = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: fixture.nodes[1].ports.client, path: "/v1/streamTicket",
            headers: [("authorization", "Bearer \(token)")], on: MultiThreadedEventLoopGroup.singleton.next())
        let ticket = try #require(try JSON(response.body)["ticket"]?.text)
        let streams = [stream(fixture, token: token), stream(fixture, node: 2, query: "&ticket=\(ticket)")]
        async let first = whole(streams[0])
        async let second = whole(streams[1])
        for text in try await [first, second] {
            #expect(text.hasPrefix("event: onConnected"))
            #expect(text.contains("event: onTokenExpiring") && text.contains("{\"expiresAt\":\(expiresAt)000}"), "\(text)")
            #expect(text.hasSuffix("{\"reason\":\"tokenExpired\"}\n\n"), "\(text)")
        }
        try await fixture.until("ann is offline") { try await statusType(fixture) == "OFFLINE" }
        #expect(try await fixture.nodes[0].metricsText().contains("rollcall_sessions_token_expired_total 1\n"))
        try await fixture.stop()
    }

    @Test("renew at any node moves the end of a session, and its stream stays", arguments: 0..<3) func renewal(node: Int) async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        try await fixture.setPolicy(#"{"token.grace":0,"offlineGrace":0}"#)
        let end = seconds(3)
        var events = stream(fixture, token: token(["exp": end])).makeAsyncIterator()
        var text = ""
        while !text.contains("onTokenExpiring"), let piece = try await events.next() { text += String(decoding: piece, as: UTF8.self) }
        let session = try #require(text.firstMatch(of: /"sessionID":"([0-9a-f]{24})"/)?.1)
        try await fixture.until("the owner knows the session") { try await statusType(fixture) == "ONLINE" }
        let renewed = try await fixture.call("renew", "{\"sessionID\":\"\(session)\"}", as: "ann", node: node)
        #expect(renewed.status == 200, "\(renewed.json)")
        // Carl's session ends a second after the old end of Ann's.
        let other = try await whole(stream(fixture, token: token(["sub": #""carl""#, "exp": "\(Int(end)! + 1)"])))
        #expect(other.contains("tokenExpired"))
        #expect(try await statusType(fixture) == "ONLINE")
        #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"still here"}"#, as: "ann", node: 1).status == 200)
        while !text.contains("still here"), let piece = try await events.next() { text += String(decoding: piece, as: UTF8.self) }
        #expect(text.contains("still here") && !text.contains("tokenExpired"))
        try await fixture.stop()
    }

    @Test("A client that renews with a token of the same end is notified again, and its session lasts as long as a later token")
    func sameEnd() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        try await fixture.setPolicy(#"{"token.grace":0,"offlineGrace":0}"#)
        let end = seconds(4)
        var events = stream(fixture, token: token(["exp": end])).makeAsyncIterator()
        var text = ""
        func read(until count: Int, of name: String) async throws {
            while text.matches(of: try Regex(name)).count < count, let piece = try await events.next() {
                text += String(decoding: piece, as: UTF8.self)
            }
            try #require(text.matches(of: try Regex(name)).count == count, "\(text)")
        }
        try await read(until: 1, of: "onTokenExpiring")
        let session = try #require(text.firstMatch(of: /"sessionID":"([0-9a-f]{24})"/)?.1)
        let tokens = [["exp": end, "jti": #""1""#], ["exp": end, "jti": #""2""#], ["exp": seconds(29)]].map(token)
        for (count, token) in zip(2..., tokens) {
            try await fixture.until("the owner renews the session") {
                try await HTTPExchange.send(
                    .post, host: "127.0.0.1", port: fixture.nodes[count % 3].ports.client, path: "/v1/renew",
                    headers: [("authorization", "Bearer \(token)")], body: "{\"sessionID\":\"\(session)\"}",
                    on: MultiThreadedEventLoopGroup.singleton.next()
                ).status == 200
            }
            try await read(until: count, of: "onTokenExpiring")
        }
        let other = try await whole(stream(fixture, token: token(["sub": #""carl""#, "exp": "\(Int(end)! + 1)"])))
        #expect(other.contains("tokenExpired"))
        #expect(try await statusType(fixture) == "ONLINE")
        try await fixture.stop()
    }

    @Test("One or more blanks may stand between Bearer and the token, on both ports and over both versions of HTTP")
    func blanks() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let (user, admin) = (token([:]), try signedToken(user: "operator", isAdmin: true))
        for (node, version) in ["--http1.1", "--http2-prior-knowledge"].enumerated() {
            let ports = fixture.nodes[node].ports
            let urls = [(ports.client, "/v1/getUserStatus", user), (ports.ops, "/admin/v1/queryOnlineStatus", admin)]
            for (port, path, token) in urls {
                for (blanks, status) in [(" ", "200"), ("  ", "200"), ("     ", "200"), ("", "401"), ("\t", "401")] {
                    let done = try await run(
                        "curl",
                        [
                            "-sS", version, "-w", "\n%{http_code}", "-H", "Authorization: Bearer\(blanks)\(token)", "-d",
                            #"{"userIDs":["ann"]}"#, "http://127.0.0.1:\(port)\(path)",
                        ])
                    #expect(done.status == 0 && done.output.hasSuffix("\n\(status)"), "\(version) \(path) '\(blanks)': \(done.output)")
                }
            }
        }
        try await fixture.stop()
    }

    @Test("A session that is not open, or not the caller's, is not renewed") func unknownSession() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        var text = ""
        for try await piece in stream(fixture, token: token([:])) {
            text += String(decoding: piece, as: UTF8.self)
            guard let session = text.firstMatch(of: /"sessionID":"([0-9a-f]{24})"/)?.1 else { continue }
            let body = "{\"sessionID\":\"\(session)\"}"
            try await fixture.until("the owner knows the session") {
                try await fixture.call("renew", body, as: "ann", node: 1).status == 200
            }
            for (user, body) in [("bob", body), ("ann", #"{"sessionID":"000000000000000000000001"}"#), ("ann", "{}")] {
                let refused = try await fixture.call("renew", body, as: user, node: 1)
                #expect(refused.status == 400 && refused.json["code"]?.number == 6017, "\(refused.json)")
                #expect(refused.json["detail"]?.text?.hasPrefix("sessionID: ") == true)
            }
            break
        }
        try await fixture.stop()
    }
}
