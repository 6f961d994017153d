import Testing

@testable import PresenceCore

@Suite struct PageSetTests {
    @Test(
        "A walk visits the pages of its range that are in the set, in order",
        arguments: [0...1_023, 0...0, 1_023...1_023, 63...64, 64...127, 16...31, 100...900])
    func walk(range: ClosedRange<Int>) {
        var set = PageSet()
        let pages = [0, 1, 16, 31, 32, 63, 64, 65, 127, 128, 500, 899, 900, 901, 1_022, 1_023]
        for page in pages + [7, 700] { set.insert(page) }
        for page in [7, 700] { set.remove(page) }
        var met: [Int] = []
        set.forEach(in: range) { met.append($0) }
        #expect(met == pages.filter(range.contains))
    }
}
