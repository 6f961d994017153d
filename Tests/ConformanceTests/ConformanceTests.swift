import NodeFixture
import Testing

/// The requirements of the four documents, line by line (<doc:Requirements>), against three nodes over HTTP.
///
/// The nodes are the same for all tests; each test has an app of its own, with the policy of its document.
@Suite(.cluster, .timeLimit(.minutes(3))) struct ConformanceTests {}

/// Starts the nodes before the tests of a suite and stops them after the last.
struct ClusterTrait: SuiteTrait, TestScoping {
    @TaskLocal static var cluster: ServedCluster?

    func provideScope(for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void) async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        try await Self.$cluster.withValue(fixture) { try await function() }
        try await fixture.stop()
    }
}

extension Trait where Self == ClusterTrait {
    static var cluster: ClusterTrait { ClusterTrait() }
}
