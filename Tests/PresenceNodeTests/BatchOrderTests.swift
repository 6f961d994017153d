import HTTP2
import NIOCore
import Testing

@testable import PresenceNode

@Suite struct BatchOrderTests {
    /// The order in which batches are taken when they arrive as given.
    private func taken(_ arrivals: [UInt64]) -> [UInt64] {
        var order = BatchOrder()
        var taken: [UInt64] = []
        for number in arrivals {
            guard let isNext = order.arrives(number) else { continue }
            guard isNext else {
                order.keep(number, BatchOrder.Batch(bytes: [UInt8(number)], stream: StreamID.unused))
                continue
            }
            taken.append(number)
            while let batch = order.takeNext() { taken.append(UInt64(batch.bytes[0])) }
        }
        return taken
    }

    @Test(
        "Batches are taken in the order in which they were sent",
        arguments: [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [2, 0, 1, 3]] as [[UInt64]])
    func order(arrivals: [UInt64]) {
        #expect(taken(arrivals) == [0, 1, 2, 3])
    }

    @Test("A number that arrived before or is far ahead is refused") func refused() {
        #expect(taken([0, 0, 1, 99, 1, 2]) == [0, 1, 2])
    }
}
