import Foundation
import NodeFixture
import Testing

/// The parts of the fixture that other tests rely on.
@Suite(.timeLimit(.minutes(2))) struct FixtureTests {
    @Test("A node is killed when the tests are gone") func noNodeOutlivesTheTests() async throws {
        let node = try await ServedNode.serving()
        try node.cutLifeline()
        #expect(try await node.ended() == SIGKILL)
    }

    @Test("A node that was killed or has crashed fails the stop of its cluster") func crash() async throws {
        let cluster = try await ServedCluster.start()
        cluster.nodes[0].signal(SIGKILL)
        await #expect(throws: TestFailure.self) { try await cluster.stop() }
    }

    @Test("Numbers, texts and truth values of JSON keep their kinds") func kinds() throws {
        let text = #"{"a":true,"b":1,"c":1.5,"d":9007199254740993,"e":null,"f":"x","g":[0,false],"h":-5}"#
        #expect(
            try JSON(text.utf8)
                == .object([
                    "a": .bool(true), "b": .integer(1), "c": .number(1.5), "d": .integer(9_007_199_254_740_993), "e": .null,
                    "f": .string("x"), "g": .array([.integer(0), .bool(false)]), "h": .integer(-5),
                ]))
        #expect(throws: (any Error).self) { try JSON("{".utf8) }
    }
}
