import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// The codes of <doc:HTTPAPI#Errors> for a wrong path, a wrong method and a wrong role.
@Suite(.timeLimit(.minutes(2))) struct RefusedPathTests {
    @Test("On every port a path that is not there has code 404, and a method that a path does not have has code 405")
    func pathsAndMethods() async throws {
        let fixture = try await ServedCluster.start()
        let ports = fixture.nodes[0].ports
        let refused: [(port: Int, method: HTTPRequest.Method, path: String, status: Int)] = [
            (ports.client, .post, "/v1/nothing", 404), (ports.client, .get, "/", 404), (ports.client, .get, "/v1/getUserStatus", 405),
            (ports.client, .post, "/v1/events", 405), (ports.client, .post, "/openapi.json", 405),
            (ports.ops, .get, "/nothing", 404), (ports.ops, .post, "/admin/v1/nothing", 404), (ports.ops, .post, "/metrics", 405),
            (ports.ops, .post, "/healthz", 405), (ports.ops, .post, "/readyz", 405), (ports.ops, .get, "/admin/v1/clusterStatus", 405),
            (ports.cluster, .post, "/v1/getUserStatus", 404), (ports.cluster, .get, "/cluster/v1/hello", 405),
            (ports.cluster, .get, "/cluster/v1/proof", 405), (ports.cluster, .get, "/cluster/v1/batch/0", 405),
            (ports.cluster, .get, "/cluster/v1/trial", 405),
        ]
        for (port, method, path, status) in refused {
            let answer = try await HTTPExchange.send(
                method, host: "127.0.0.1", port: port, path: path, body: method == .post ? "{}" : nil,
                on: MultiThreadedEventLoopGroup.singleton.next())
            #expect(answer.status == status, "\(method) \(path)")
            let problem = try JSON(answer.body)
            #expect(problem["code"]?.number == Int64(status) && problem["status"]?.number == Int64(status), "\(method) \(path)")
            #expect(problem["detail"]?.text?.isEmpty == false && problem["title"]?.text != "refused", "\(method) \(path)")
        }
        try await fixture.stop()
    }

    @Test("A valid user token is not allowed on the ops port: 403. A bad token is not logged in: 401") func roles() async throws {
        let fixture = try await ServedCluster.start()
        let user = try signedToken(user: "ann")
        for operation in ["clusterStatus", "getAppPolicy", "importUsers", "kick", "drain"] {
            for (token, status, code) in [(user, 403, 403), (user + "x", 401, 6014)] as [(String, Int, Int64)] {
                let answer = try await HTTPExchange.send(
                    .post, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: "/admin/v1/\(operation)",
                    headers: [("authorization", "Bearer \(token)")], body: "{}", on: MultiThreadedEventLoopGroup.singleton.next())
                #expect(answer.status == status, "\(operation)")
                #expect(try JSON(answer.body)["code"]?.number == code, "\(operation)")
            }
        }
        try await fixture.stop()
    }
}
