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
}
