import Testing

@testable import PresenceWire

/// Texts from outside, as terminals and logs get them.
@Suite struct PrintableTextTests {
    private static let controls: [Unicode.Scalar] =
        [0x00...0x1F, 0x7F...0x9F, 0x61C...0x61C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069].flatMap {
            (range: ClosedRange<UInt32>) in
            range.compactMap(Unicode.Scalar.init)
        }

    @Test("Each control character is escaped, in text and in JSON, and no other character is") func controls() throws {
        for value in UInt32(0)...0x2FFF {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let text = "a\(scalar)b"
            let isControl = Self.controls.contains(scalar)
            #expect(PrintableText.needsEscape(text) == isControl)
            #expect((PrintableText.escaped(text) == text) != isControl)
            #expect(!PrintableText.needsEscape(PrintableText.escaped(text)))
        }
        #expect(PrintableText.escaped("\u{1B}[2J\r\n\u{9B}5m\u{202E}") == "\\u{1B}[2J\\r\\n\\u{9B}5m\\u{202E}")
        #expect(PrintableText.escaped("Zoë 👩‍👩‍👧 עברית") == "Zoë 👩‍👩‍👧 עברית")
    }

    @Test("JSON keeps its value when control characters are escaped") func json() throws {
        let text = String(String.UnicodeScalarView(Self.controls)) + "é"
        var json = JSONWriter()
        json.array { $0.string(text) }
        let escaped = PrintableText.escapedJSON(json.bytes)
        #expect(!PrintableText.needsEscape(escaped))
        #expect(try JSONReader.read(Array(escaped.utf8)) == .array([.string(text)]))
    }
}
