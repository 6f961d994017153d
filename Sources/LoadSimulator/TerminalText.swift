import PresenceWire

/// Texts in columns of a terminal. Characters of East Asian scripts and emoji are two columns wide.
public enum TerminalText {
    /// The columns that a text takes.
    public static func width(_ text: String) -> Int { text.reduce(0) { $0 + width($1) } }

    /// The text in exactly `columns` columns: filled with spaces, or cut with `…` at its end. Control characters are escaped.
    public static func fitted(_ text: String, to columns: Int) -> String {
        let text = cut(text, to: columns)
        return text + String(repeating: " ", count: max(columns - width(text), 0))
    }

    /// The text in at most `columns` columns, with `…` in the place of what was cut off. Control characters are escaped.
    public static func cut(_ text: String, to columns: Int) -> String {
        let text = PrintableText.escaped(text)
        guard width(text) > columns else { return text }
        guard columns > 0 else { return "" }
        var (kept, used) = ("", 0)
        for character in text {
            let next = width(character)
            if used + next > columns - 1 { break }
            kept.append(character)
            used += next
        }
        return kept + "…"
    }

    /// Lines with aligned columns, two spaces apart. Control characters in the cells are escaped.
    ///
    /// - Parameter numbers: the columns that are aligned on their right.
    public static func table(_ rows: [[String]], numbers: Set<Int> = []) -> [String] {
        let rows = rows.map { $0.map(PrintableText.escaped) }
        let count = rows.map(\.count).max() ?? 0
        let widths = (0..<count).map { column in rows.map { $0.indices.contains(column) ? width($0[column]) : 0 }.max() ?? 0 }
        return rows.map { row in
            var line = row.enumerated().map { column, cell in
                let space = String(repeating: " ", count: widths[column] - width(cell))
                return numbers.contains(column) ? space + cell : cell + space
            }.joined(separator: "  ")
            while line.last == " " { line.removeLast() }
            return line
        }
    }

    private static func width(_ character: Character) -> Int {
        guard let first = character.unicodeScalars.first else { return 0 }
        // U+FE0F asks for the form of an emoji.
        if character.unicodeScalars.contains(where: { $0.value == 0xFE0F || isWide($0) }) { return 2 }
        switch first.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format: return 0
        default: return 1
        }
    }

    /// Whether a scalar is of East Asian Width W or F, or is shown as an emoji.
    private static func isWide(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case ..<0x1100: false
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97C, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
            0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x20000...0x3FFFD:
            true
        default: scalar.properties.isEmojiPresentation
        }
    }
}
