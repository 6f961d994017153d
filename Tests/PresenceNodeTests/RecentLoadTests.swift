import PresenceWire
import Testing

@testable import PresenceNode

/// The load of the last minutes for the console: see ``PresenceNode/RecentLoad``.
@Suite struct RecentLoadTests {
    @Test("A sample has what has happened since the one before, and the latency of only that time") func differences() {
        var load = RecentLoad()
        var reading = LoadReading()
        (reading.logins, reading.pushes) = (100, 1_000)
        reading.pushSeconds.observe(seconds: 9)
        load.add(reading, at: 1_000)
        #expect(load.samples.isEmpty)
        (reading.logins, reading.pushes, reading.sessions) = (103, 1_100, 7)
        reading.pushSeconds.observe(seconds: 0.0002, count: 99)
        reading.pushSeconds.observe(seconds: 0.04)
        load.add(reading, at: 2_000)
        #expect(
            load.samples == [
                RecentLoad.Sample(
                    time: 2_000, counts: [3, 0, 0, 0, 100, 0, 0], usersOnline: 0, sessions: 7, quantiles: [0.00025, 0.00025, 0.05])
            ])
        load.add(reading, at: 3_000)
        #expect(load.samples.last?.quantiles == nil)
    }

    @Test("300 samples are kept, the newest") func bound() {
        var load = RecentLoad()
        for second in 0...400 { load.add(LoadReading(), at: Milliseconds(second)) }
        #expect(load.samples.map(\.time) == Array(101...400))
    }
}
