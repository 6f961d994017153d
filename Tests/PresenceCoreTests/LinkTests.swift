import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct LinkTests {
    var link = Link(messagesMax: 3)

    private func record(_ id: String, _ version: Milliseconds) -> Record {
        var record = Record(blank: user(id))
        record.version = Version(milliseconds: version, counter: 0, node: 1)
        return record
    }

    private mutating func messages() -> [Message] {
        guard let batch = link.nextBatch(clock: .zero) else { return [] }
        return batch.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            var messages: [Message] = []
            while reader.remainingBytes > 0, let message = try? reader.message() { messages.append(message) }
            return messages
        }
    }

    @Test("A newer record replaces an older one that waits") mutating func newerRecord() {
        link.append(.delta(record("a", 1)))
        link.append(.delta(record("b", 1)))
        link.append(.delta(record("a", 3)))
        link.append(.delta(record("a", 2)))
        let sent = messages()
        #expect(sent == [.delta(record("a", 3)), .delta(record("b", 1)), .complete(upTo: .zero)])
        #expect(link.counters.deltasCoalesced == 2)
        #expect(link.counters.deltasSent == 2)
    }

    @Test("Few batches are in flight") mutating func inFlight() {
        for version in 1...10 {
            link.append(.delta(record("a", Milliseconds(version))))
            _ = messages()
        }
        #expect(link.counters.batchesSent == UInt64(Link.batchesInFlightMax))
        #expect(!link.isReady)
        link.acknowledge()
        #expect(link.isReady)
    }

    @Test("The messages behind records that leave alone follow when the peer has taken these") mutating func recordsFirst() {
        link.append(.delta(record("before", 1)))
        #expect(messages().count == 2)
        link.append(.delta(record("hides", 1)))
        link.append(.replicate(ticket: 1, []))
        link.sendRecordsAlone()
        let alone = messages()
        #expect(alone == [.delta(record("hides", 1))])
        // Two batches are in flight.
        #expect(!link.isReady)
        link.acknowledge()
        link.beat()
        let waiting = messages()
        #expect(waiting == [])
        // A record that leaves alone waits for nothing.
        link.append(.delta(record("also hides", 1)))
        link.sendRecordsAlone()
        let next = messages()
        #expect(next == [.delta(record("also hides", 1))])
        link.acknowledge()
        #expect(!link.isReady)
        link.acknowledge()
        let behind = messages()
        #expect(behind == [.replicate(ticket: 1, []), .complete(upTo: .zero)])
    }

    @Test("A connection that ends while messages wait behind records leaves a queue that is ready") mutating func endBehindRecords() {
        link.append(.delta(record("hides", 1)))
        link.append(.replicate(ticket: 1, []))
        link.sendRecordsAlone()
        #expect(messages().count == 1)
        link.reset()
        link.append(.replicate(ticket: 2, []))
        let sent = messages()
        #expect(sent == [.replicate(ticket: 2, []), .complete(upTo: .zero)])
    }

    @Test("A full queue is dropped, and reports it") mutating func overflow() {
        for _ in 0..<4 { link.append(.misrouted([])) }
        #expect(link.hasOverflowed)
        #expect(link.depth == 0)
        #expect(link.counters.overflows == 1)
    }

    @Test("A request carries its trace only to a peer that reads traces, and not on the next connection") mutating func traces() throws {
        let request = Request(id: 1, user: user("a"), operation: .register)
        let trace = try #require(TraceContext(traceHigh: 1, traceLow: 2, span: 3, isSampled: true))
        let message = Message.traced(trace, request)
        link.append(message)
        let toEarlierRelease = messages()
        #expect(toEarlierRelease == [.request(request), .complete(upTo: .zero)])
        link.takeTraces()
        link.append(message)
        let traced = messages()
        #expect(traced == [message, .complete(upTo: .zero)])
        link.reset()
        link.append(message)
        let afterReset = messages()
        #expect(afterReset == [.request(request), .complete(upTo: .zero)])
    }

    /// The count of slots would be taken for that of slots whose rows have arrived.
    @Test("No message leaves without those that were queued before it") mutating func dependentMessage() {
        for _ in 0..<3 { link.append(.misrouted([])) }
        link.append(.replicate(ticket: nil, []))
        link.append(.sent(ring: 8, slotsCount: 1))
        link.append(.delta(record("a", 1)))
        #expect(!link.hasRoom)
        #expect(messages() == [])
        link.clearOverflow()
        link.append(.requestSync)
        let sent = messages()
        #expect(sent == [.requestSync, .complete(upTo: .zero)])
    }

    @Test("A new connection carries a visibility again") mutating func ruleOfNewConnection() {
        var hidden = record("a", 1)
        let rule = Visibility().changed(by: .init(mode: .nobody))
        hidden.privacy = Privacy().changed(to: rule, writtenAt: hidden.version, hiddenView: hidden, at: hidden.version)
        for _ in 0..<3 {
            link.append(.delta(hidden))
            _ = link.nextBatch(clock: .zero)
        }
        #expect(link.rulesSent == 1)
        link.reset()
        link.append(.delta(hidden))
        let sent = messages()
        #expect(sent == [.delta(hidden), .complete(upTo: .zero)])
        #expect(link.rulesSent == 2)
    }

    @Test("A beat leaves even if nothing waits") mutating func beat() {
        #expect(!link.isReady)
        link.beat()
        let sent = messages()
        #expect(sent == [.complete(upTo: .zero)])
    }
}
