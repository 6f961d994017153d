import PresenceWire
import Testing

@testable import PresenceNode

/// Virtual time: a loop that is as late as the test says.
@Suite struct AdmissionTests {
    var now = Instant(nanoseconds: 1_000_000_000_000)
    var admission = Admission(seed: 1)

    /// A look at the clock that comes `delay` late.
    mutating func probe(late delay: Duration) {
        admission.probe(due: now)
        now += delay
        admission.probed(at: now)
    }

    mutating func take(_ kind: Admission.Kind) -> Bool { admission.ask(for: kind, at: now) == .accept }

    /// The number of `count` logins that a loop with the delay `delay` admits, each done at once.
    mutating func refusals(_ kind: Admission.Kind, of count: Int, late delay: Duration) -> Int {
        admission.probe(due: Instant(nanoseconds: now.nanoseconds - delay.wholeNanoseconds))
        var refused = 0
        for _ in 0..<count {
            if take(kind) { admission.ended(kind, startedAt: now, at: now) } else { refused += 1 }
        }
        return refused
    }

    @Test("An idle node admits everything") mutating func idle() {
        for _ in 0..<1_000 {
            probe(late: .milliseconds(1))
            #expect(refusals(.login, of: 10, late: .zero) == 0)
            #expect(refusals(.operation, of: 10, late: .zero) == 0)
        }
    }

    /// One turn of a second is a burst; turns that are late for 300 ms without a break are overload.
    @Test("A delay counts if it lasts") mutating func delay() {
        probe(late: .seconds(1))
        #expect(refusals(.login, of: 1, late: .seconds(1)) == 0)
        for _ in 0..<4 { probe(late: .milliseconds(60)) }
        #expect(refusals(.login, of: 1, late: .milliseconds(60)) == 0, "240 ms")
        for _ in 0..<2 { probe(late: .milliseconds(60)) }
        #expect(refusals(.login, of: 5, late: .milliseconds(60)) == 5)
        #expect(refusals(.login, of: 5, late: .milliseconds(40)) == 0, "what fits into the target is taken")
        probe(late: .milliseconds(49))
        #expect(refusals(.login, of: 5, late: .milliseconds(60)) == 0, "one look in time ends it")
    }

    /// A resumed stream is admitted while everything else yields, because watchers of its user would see OFFLINE.
    @Test("Resumed streams yield last") mutating func yieldOrder() {
        for _ in 0..<10 { probe(late: .milliseconds(400)) }
        #expect(refusals(.operation, of: 5, late: .milliseconds(400)) == 5)
        #expect(refusals(.resume, of: 5, late: .milliseconds(400)) == 0)
        for _ in 0..<10 { probe(late: .milliseconds(600)) }
        #expect(refusals(.resume, of: 5, late: .milliseconds(600)) == 5)
    }

    /// Between the targets logins yield and operations go on; beyond both nothing is taken.
    @Test("Logins yield before operations") mutating func operationsFirst() {
        for _ in 0..<10 { probe(late: .milliseconds(60)) }
        #expect(refusals(.login, of: 5, late: .milliseconds(60)) == 5)
        #expect(refusals(.operation, of: 5, late: .milliseconds(60)) == 0)
        for _ in 0..<10 { probe(late: .milliseconds(110)) }
        #expect(refusals(.operation, of: 5, late: .milliseconds(110)) == 5)
        #expect(admission.gauges(.login).refused == 5)
        #expect(admission.gauges(.operation).refused == 5)
        #expect(admission.longestDelay(at: now) == .milliseconds(110))
        now += .seconds(3)
        admission.probe(due: now)
        #expect(admission.longestDelay(at: now) == .zero)
    }

    @Test("Logins in progress are bounded") mutating func bounds() {
        var taken = 0
        while take(.login) { taken += 1 }
        #expect(taken == 256)
        #expect(take(.operation), "logins do not keep operations out")
        admission.abandoned(.login)
        #expect(take(.login))
        #expect(admission.gauges(.login) == Admission.Gauges(refused: 1, inProgress: 256, limit: 256))
    }

    /// While too many operations are in progress, no login is taken.
    @Test("No login is admitted while operations are refused") mutating func noLogins() {
        while take(.operation) {}
        #expect(!take(.login))
        admission.abandoned(.operation)
        #expect(take(.login))
    }

    /// A server with one place and a queue: the bound finds the number that are done within the target.
    @Test("The bound follows the duration of the work", arguments: [200, 300, 4_000]) mutating func adaptiveBound(microseconds: Int) {
        let work = Duration.microseconds(microseconds)
        var queue: [Instant] = []
        for _ in 0..<40_000 {
            while take(.login) { queue.append(now) }
            now += work
            admission.ended(.login, startedAt: queue.removeFirst(), at: now)
        }
        let expected = Duration.milliseconds(100) / work
        let limit = admission.gauges(.login).limit
        #expect(limit <= max(expected * 1.2, 64) && (limit >= expected * 0.6 || limit == 64), "\(limit) for \(expected)")
    }

    @Test("An unused bound is not raised") mutating func unusedBound() {
        for _ in 0..<1_000 {
            #expect(take(.login))
            admission.ended(.login, startedAt: now, at: now)
        }
        #expect(admission.gauges(.login).limit == 256)
    }

    /// The more are refused for each that is taken, the longer they stay away, each for another time.
    @Test("Refused clients are spread over time") mutating func herd() {
        func longest(_ refusals: Int, _ admission: inout Admission, at now: Instant) -> (max: Int, different: Int, min: Int) {
            var times: [Int] = []
            for _ in 0..<refusals {
                if case .refuse(let seconds, _) = admission.ask(for: .login, at: now) { times.append(seconds) }
            }
            return (times.max() ?? 0, Set(times).count, times.min() ?? 0)
        }
        while take(.login) {}
        let few = longest(30, &admission, at: now)
        #expect(few.min == 1 && few.max == 2)
        let many = longest(2_560, &admission, at: now)
        #expect((15...23).contains(many.max) && many.min == 1 && many.different >= 15)
        let storm = longest(100_000, &admission, at: now)
        #expect(storm.max == 60 && storm.different == 60)
        now += .seconds(2)
        #expect((1...2).contains(admission.retryAfter(.login, at: now)), "what was two seconds ago counts no more")
    }

    /// A thousand at once are free, and then two for each that is taken; beyond, connections wait, but never longer than half a second.
    @Test("Refusals are bounded, too", arguments: [0, 1_000, 50_000]) mutating func refusalBounds(taken: Int) {
        for _ in 0..<taken {
            #expect(take(.operation))
            admission.ended(.operation, startedAt: now, at: now)
        }
        while take(.operation) {}  // The last of them is the first to be refused.
        now += .seconds(1)
        var pauses: [Duration] = []
        for _ in 0..<20_000 {
            if case .refuse(_, let pause) = admission.ask(for: .login, at: now) { pauses.append(pause) }
        }
        // Requests in progress were admitted, too.
        let spacing = Duration.nanoseconds(1_000_000_000 / min(2 * (Int64(taken) + 4_096), 12_500))
        #expect(pauses.prefix { $0 == .zero }.count == 1_000)
        #expect(pauses[1_000] == spacing)
        #expect(pauses.last == .milliseconds(500))
        now += .seconds(1) + .milliseconds(500)
        for _ in 0..<1_000 { if case .refuse(_, let pause) = admission.ask(for: .login, at: now) { #expect(pause == .zero) } }
    }

    @Test("The same seed gives the same delays") mutating func seed() {
        var other = Admission(seed: 1)
        while take(.login) {}
        while other.ask(for: .login, at: now) == .accept {}
        for _ in 0..<1_000 { #expect(admission.ask(for: .login, at: now) == other.ask(for: .login, at: now)) }
    }

    @Test("A refusal has the fields of the API") func refusal() throws {
        var bodies = RefusalBodies()
        for seconds in [7, 60, 7, 1] {
            let response = bodies.response(retryAfter: seconds)
            let problem = try JSONReader.read(Array(response.body.readableBytesView))
            #expect(response.status == 503 && response.retryAfter == seconds && response.contentType == .problem)
            #expect(problem["code"] == .integer(50002) && problem["status"] == .integer(503))
            #expect(problem["retryAfter"] == .integer(Int64(seconds)))
        }
    }
}
