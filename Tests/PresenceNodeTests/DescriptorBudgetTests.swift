import Foundation
import Testing

@testable import PresenceNode

@Suite struct DescriptorBudgetTests {
    @Test(
        "Clients get the remaining descriptors",
        arguments: [(256, 2, 124), (1_024, 2, 652), (20_000, 2, 19_288), (200_000, 64, 199_040), (1_048_576, 2, 1_047_864)])
    func remainder(descriptors: Int, loops: Int, clients: Int) {
        let budget = DescriptorBudget(descriptorsMax: descriptors, loopsCount: loops)
        #expect(budget.clients == clients)
        #expect(budget.clients + 2 * budget.nodes + budget.operators + 64 + 4 * loops == descriptors)
    }

    /// A process with very few descriptors still tries to serve.
    @Test("Every port accepts a connection even with few descriptors") func fewDescriptors() {
        for descriptors in [0, 10, 64, 100] {
            let budget = DescriptorBudget(descriptorsMax: descriptors, loopsCount: 2)
            #expect(budget.clients >= 4 && budget.nodes >= 2 && budget.operators >= 1)
        }
    }

    #if os(Linux)
        @Test("The kernel's table of descriptors has room for all connections before the first one") func table() throws {
            DescriptorBudget.makeTable()
            let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
            let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("FDSize:") })
            let size = try #require(line.split(separator: "\t").last.flatMap { Int($0) })
            #expect(size >= min(DescriptorBudget.descriptorsMax, DescriptorBudget.tableMax))
        }
    #endif

    @Test("The system reports the number of descriptors") func systemLimit() { #expect(DescriptorBudget.descriptorsMax >= 64) }
}
