import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import Testing

@Suite(.serialized, .timeLimit(.minutes(5))) struct BadInputTests {
    static let cases: [(operation: String, body: String, status: Int, code: Int64)] = [
        ("getUserStatus", "", 400, 6017), ("getUserStatus", "{}", 400, 6017), ("getUserStatus", "[]", 400, 6017),
        ("getUserStatus", "{", 400, 6017), ("getUserStatus", #"{"userIDs":"bob"}"#, 400, 6017),
        ("getUserStatus", #"{"userIDs":[1]}"#, 400, 6017),
        ("getUserStatus", #"{"userIDs":[]}"#, 400, 6017), ("getUserStatus", #"{"userIDs":["a"],"userIDs":["b"]}"#, 400, 6017),
        ("getUserStatus", #"{"userIDs":["# + Array(repeating: #""u""#, count: 501).joined(separator: ",") + "]}", 400, 6017),
        ("subscribeUserStatus", #"{"userIDs":["# + Array(repeating: #""u""#, count: 201).joined(separator: ",") + "]}", 400, 6017),
        ("subscribeUserStatus", #"{"userIDs":["b"],"expiry":59}"#, 400, 6017),
        ("subscribeUserStatus", #"{"userIDs":["b"],"expiry":2592001}"#, 400, 6017),
        ("subscribeUserStatus", #"{"userIDs":["b"],"sync":"yes"}"#, 400, 6017),
        ("subscribeUserStatus", #"{"userIDs":["b"],"subscribeType":9}"#, 400, 6017),
        ("unsubscribeUserStatus", "{}", 400, 6017), ("unsubscribeUserStatus", #"{"all":true,"userIDs":["b"]}"#, 400, 6017),
        ("getSubscribedUserStatus", #"{"limit":0}"#, 400, 6017), ("getSubscribedUserStatus", #"{"offset":-1}"#, 400, 6017),
        ("unsubscribeUserStatus", #"{"userIDs":["bob"],"subscribeType":5}"#, 400, 6017),
        ("getSubscribedUserStatus", #"{"subscribeType":0}"#, 400, 6017),
        ("subscribeUserStatus", #"{"userIDs":["b"],"subscribeType":2,"sync":true}"#, 400, 6017),
        ("getUsersProfile", "{}", 400, 6017), ("modifySelfProfile", #"{"values":{"Name":"x"}}"#, 400, 6017),
        ("setSelfStatus", #"{"customStatus":7}"#, 400, 6017), ("setSelfStatus", #"{"expiry":60}"#, 400, 6017),
        ("setSelfStatus", #"{"customStatus":""# + String(repeating: "é", count: 129) + #""}"#, 400, 6017),
        ("setSelfStatus", #"{"customStatus":"x","expiry":0}"#, 400, 6017), ("logout", #"{"sessionID":"nonsense"}"#, 400, 6017),
        ("setSelfStatus", #"{"asUser":"bob"}"#, 403, 403), ("noSuchOperation", "{}", 404, 404),
        ("setSelfStatus", String(repeating: "[", count: 10_000) + String(repeating: "]", count: 10_000), 400, 6017),
    ]

    @Test("Every invalid body gets its code and changes nothing") func badBodies() async throws {
        let fixture = try await ServedCluster.start()
        for bad in Self.cases {
            let answer = try await fixture.call(bad.operation, bad.body)
            #expect(answer.status == bad.status, "\(bad.operation) \(bad.body.prefix(60))")
            #expect(answer.json["code"]?.number == bad.code, "\(bad.operation) \(bad.body.prefix(60))")
            #expect(answer.json["detail"]?.text?.isEmpty == false)
        }
        let status = try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#).json["userStatusList"]!.elements[0]
        #expect(status["lastUpdateTime"]?.number == 0)
        #expect(try await fixture.call("getSubscribedUserStatus", "{}").json["total"]?.number == 0)
        try await fixture.stop()
    }

    @Test("Invalid users among valid ones are named one by one") func badUsers() async throws {
        let fixture = try await ServedCluster.start()
        let long = String(repeating: "x", count: 65)
        let answer = try await fixture.call("subscribeUserStatus", #"{"userIDs":["bob","a\u0000b","\#(long)","","ann"]}"#)
        #expect(answer.status == 200)
        #expect(answer.json["errorUserList"]?.elements.compactMap { $0["code"]?.number } == [7003, 7003, 7003, 6017])
        #expect(try await fixture.call("getSubscribedUserStatus", "{}").json["total"]?.number == 1)
        try await fixture.stop()
    }

    @Test("A call without a token is answered 401") func noToken() async throws {
        let fixture = try await ServedCluster.start()
        let answer = try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#, as: nil)
        #expect(answer.status == 401)
        #expect(answer.json["code"]?.number == 6014)
        try await fixture.stop()
    }

    @Test("No call reaches another app") func otherApp() async throws {
        let fixture = try await ServedCluster.start()
        #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"secret"}"#, as: "ann", app: "one").status == 200)
        let answer = try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#, as: "bob", app: "two")
        #expect(answer.json["userStatusList"]?.elements[0]["customStatus"]?.text == "")
        try await fixture.stop()
    }

    @Test("A body or header that is too large is refused, and the connection stays open") func tooLarge() async throws {
        let fixture = try await ServedCluster.start()
        let url = "http://127.0.0.1:\(fixture.nodes[0].ports.client)/v1/getUserStatus"
        let file = fixture.directory + "/large"
        try Data(repeating: 0x20, count: (1 << 20) + 1).write(to: URL(fileURLWithPath: file))
        let many = (0..<120).flatMap { ["-H", "x-\($0): y"] }
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let large = try await run("curl", ["-s", "-o", "/dev/null", "-w", "%{http_code}", version, "--data-binary", "@\(file)", url])
            #expect(large.output.hasSuffix("413"), "\(version): \(large.output)")
            let headers = try await run("curl", ["-s", "-o", "/dev/null", "-w", "%{http_code}", version] + many + [url])
            #expect(headers.output == "431", "\(version): \(headers.output)")
        }
        #expect(try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#).status == 200)
        let metrics = try await fixture.nodes[0].metricsText()
        #expect(metrics.contains("rollcall_http_violations_total{reason=\"bodyTooLarge\"} 2\n"))
        #expect(metrics.contains("rollcall_http_violations_total{reason=\"headerListTooLarge\"} 2\n"))
        try await fixture.stop()
    }

    @Test("Junk on the cluster port ends its stream and is counted") func clusterPortJunk() async throws {
        let fixture = try await ServedCluster.start()
        let port = fixture.nodes[0].ports.cluster
        for path in ["/cluster/v1/hello", "/cluster/v1/batch/0", "/elsewhere"] {
            let response = try await HTTPExchange.send(
                .post, host: "127.0.0.1", port: port, path: path, body: "junk", on: MultiThreadedEventLoopGroup.singleton.next())
            #expect([400, 404, 409].contains(response.status))
        }
        let metrics = try await fixture.nodes[0].metricsText()
        #expect(metrics.contains("rollcall_cluster_streams_rejected_total{reason=\"junk\"} 1\n"))
        #expect(metrics.contains("rollcall_cluster_streams_rejected_total{reason=\"noHello\"} 1\n"))
        #expect(try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#).status == 200)
        try await fixture.stop()
    }
}
