import PresenceWire
import Testing

@testable import LoadSimulator

/// Each fault that a cluster could have is planted, and the ledger must call it by its name.
@Suite struct LedgerTests {
    let population = Population(scenario: .mesh, users: 10, watch: 9, seed: 1)
    var ledger: Ledger

    init() {
        ledger = Ledger(population: population, graceSeconds: 1.5)
        ledger.allOnline()
        _ = ledger.beginChange(of: 2)
    }

    private mutating func tell(
        _ watcher: Int, _ user: Int, version: Int, text: String = "", status: StatusType = .online, at seconds: Double = 1
    ) {
        let name = Array(population.name(of: user).utf8)
        let custom = Array(text.utf8)
        name.withUnsafeBufferPointer { name in
            custom.withUnsafeBufferPointer { custom in
                var scanned = ScannedStatus()
                scanned.userID = name
                scanned.customStatus = custom
                scanned.statusType = status
                scanned.version = Version(milliseconds: Milliseconds(version), counter: 0, node: 1)
                _ = ledger.received(scanned, by: watcher, at: seconds)
            }
        }
    }

    @Test mutating func aSoundRunHasNoViolation() {
        tell(1, 2, version: 1)
        tell(1, 2, version: 2, text: "c2.1")
        #expect(
            ledger.counts
                == {
                    var counts = Ledger.Counts()
                    counts.recordsReceived = 2
                    return counts
                }())
    }

    @Test mutating func anOlderVersionOnOneStreamIsStale() {
        tell(1, 2, version: 2)
        tell(1, 2, version: 1)
        #expect(ledger.counts.stale == 1)
    }

    @Test mutating func theSameVersionTwiceOnOneStreamIsADuplicate() {
        tell(1, 2, version: 2)
        tell(1, 2, version: 2)
        #expect(ledger.counts.duplicate == 1)
    }

    @Test mutating func theSameVersionOnANewStreamIsNone() {
        tell(1, 2, version: 2)
        ledger.beginStream(of: 1)
        tell(1, 2, version: 2)
        #expect(ledger.counts.duplicate == 0)
    }

    @Test(arguments: ["c2.2", "c3.1", "something", "c2.0"]) mutating func aStatusNobodySetIsAPhantom(text: String) {
        tell(1, 2, version: 2, text: text)
        #expect(ledger.counts.phantom == 1)
    }

    @Test mutating func offlineOfAUserWhoStayedIsAPhantom() {
        tell(1, 2, version: 2, status: .offline)
        #expect(ledger.counts.phantom == 1)
    }

    @Test mutating func offlineOfAUserWhoWasAwayForLongIsNone() {
        ledger.left(2, at: 1)
        ledger.returned(2, at: 3)
        tell(1, 2, version: 2, status: .offline)
        #expect(ledger.counts.phantom == 0)
    }

    @Test mutating func offlineWithinTheGraceIsAPhantom() {
        ledger.left(2, at: 1)
        ledger.returned(2, at: 2)
        tell(1, 2, version: 2, status: .offline, at: 4)
        #expect(ledger.counts.phantom == 1)
    }

    @Test mutating func aViewThatStaysBehindIsCounted() {
        tell(1, 2, version: 1)
        var truth = [Version?](repeating: nil, count: 10)
        truth[2] = Version(milliseconds: 1, counter: 0, node: 1)
        #expect(ledger.viewsBehind(truth) { $0 == 1 } == 0)
        truth[2] = Version(milliseconds: 2, counter: 0, node: 1)
        #expect(ledger.viewsBehind(truth) { $0 == 1 } == 1)
    }

    @Test func theScannerReadsFieldsInAnyOrderAndInPieces() {
        let event = """
            event: onUserStatusChanged
            id: 17
            data: {"userStatusList":[{"version":"0000000000010000000000ff","statusType":"OFFLINE","x":{"y":[1,"}"]},"customStatus":"c2.1","userID":"u"}]}


            """
        let bytes = Array(event.utf8)
        for cut in 0..<bytes.count {
            var scanner = EventScanner()
            var seen: [(Version, StatusType)] = []
            for part in [bytes[..<cut], bytes[cut...]] {
                part.withUnsafeBytes { part in
                    scanner.append(part) { kind, id, data in
                        #expect(kind == .statusChanged)
                        #expect(id == 17)
                        #expect(StatusScanner.scan(data) { seen.append(($0.version, $0.statusType)) })
                    }
                }
            }
            #expect(seen.count == 1)
            #expect(seen.first?.0 == Version(stamp: 65_536, node: 255))
            #expect(seen.first?.1 == .offline)
        }
    }
}
