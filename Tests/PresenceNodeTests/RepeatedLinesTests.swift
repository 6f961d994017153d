import NIOCore
import Testing

@testable import PresenceNode

@Suite struct RepeatedLinesTests {
    private var lines = RepeatedLines()
    private let start = NIODeadline.uptimeNanoseconds(1_000_000_000)

    @Test("A line is due once a minute for each subject") mutating func oncePerMinute() {
        let first = lines.isDue("n1", "clock is 70 s ahead", at: start)
        let sameWithOtherSeconds = lines.isDue("n1", "clock is 71 s ahead", at: start + .seconds(59))
        let ofAnother = lines.isDue("n2", "clock is 70 s ahead", at: start)
        let aMinuteLater = lines.isDue("n1", "clock is 72 s ahead", at: start + .seconds(60))
        #expect([first, sameWithOtherSeconds, ofAnother, aMinuteLater] == [true, false, true, true])
    }

    @Test("Beyond the bound all lines are dropped") mutating func linesMax() {
        for number in 0..<RepeatedLines.linesMax {
            let isDue = lines.isDue("n\(number)", "refused", at: start)
            #expect(isDue)
        }
        let isDue = (
            lines.isDue("n0", "refused", at: start), lines.isDue("another", "refused", at: start), lines.isDue("n0", "refused", at: start)
        )
        #expect(isDue == (false, true, true))
    }
}
