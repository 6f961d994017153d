import Testing

@testable import PresenceWire

@Suite struct HexTests {
    @Test("The digits of any number and width are those of the standard library, behind what the array has") func digits() {
        // Each step gives numbers of another size: 2^64 / 3^n.
        var value = UInt64.max
        while value > 0 {
            for digits in 1...16 {
                let text = String(value, radix: 16)
                let expected = String(repeating: "0", count: max(digits - text.count, 0)) + text.suffix(digits)
                var bytes: [UInt8] = [7]
                Hex.append(value, digits: digits, to: &bytes)
                #expect(bytes == [7] + Array(expected.utf8))
            }
            value /= 3
        }
    }
}
