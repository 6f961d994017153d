/// Escapes the control characters of a text that comes from outside, for a terminal or a log.
///
/// Otherwise a value could forge lines, send commands to the terminal that shows them, or turn the direction of the text around it.
public enum PrintableText {
    /// Whether a text has characters that ``escaped(_:)`` replaces.
    public static func needsEscape(_ text: some StringProtocol) -> Bool { text.unicodeScalars.contains(where: isControl) }

    /// Returns the text with `\n`, `\r`, `\t` and the numbers of other control characters, such as `\u{1B}`, in their place.
    public static func escaped(_ text: String) -> String {
        escaped(text) { scalar in
            switch scalar {
            case "\n": "\\n"
            case "\r": "\\r"
            case "\t": "\\t"
            default: "\\u{\(hex(scalar, digitsMin: 2).uppercased())}"
            }
        }
    }

    /// Returns JSON text of the same value in which all control characters are escaped, also those that JSON allows in a string.
    public static func escapedJSON(_ json: [UInt8]) -> String {
        escaped(String(decoding: json, as: UTF8.self)) { "\\u" + hex($0, digitsMin: 4) }
    }

    private static func hex(_ scalar: Unicode.Scalar, digitsMin: Int) -> String {
        let digits = String(scalar.value, radix: 16)
        return String(repeating: "0", count: max(digitsMin - digits.count, 0)) + digits
    }

    private static func escaped(_ text: String, by replacement: (Unicode.Scalar) -> String) -> String {
        guard needsEscape(text) else { return text }
        var escaped = ""
        for scalar in text.unicodeScalars {
            if isControl(scalar) { escaped += replacement(scalar) } else { escaped.unicodeScalars.append(scalar) }
        }
        return escaped
    }

    /// Whether a scalar is of C0, DEL or C1, separates lines or paragraphs, or sets the direction of text.
    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F...0x9F: true
        case 0x061C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}
