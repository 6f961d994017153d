import LoadSimulator
import Testing

@Suite struct TerminalTextTests {
    @Test(
        "East Asian characters and emoji take two columns, and marks that combine take none",
        arguments: [
            ("ann", 3), ("会议中", 6), ("회의", 4), ("☕", 2), ("☁️", 2), ("e\u{301}", 1), ("👩‍👩‍👧", 2), ("…", 1), ("", 0), ("ｶﾅ", 2),
        ])
    func width(text: String, columns: Int) {
        #expect(TerminalText.width(text) == columns)
    }

    @Test("A text is filled or cut to exact columns, and never through a wide character", arguments: 0...8)
    func fitted(columns: Int) {
        for text in ["会议中", "in a meeting", "a会b议c", ""] {
            #expect(TerminalText.width(TerminalText.fitted(text, to: columns)) == columns)
        }
        #expect(TerminalText.fitted("会议中", to: 4) == "会… ")
    }

    @Test("Control characters are escaped before the text is measured") func escaped() {
        #expect(TerminalText.cut("a\u{1B}[2Jb", to: 20) == "a\\u{1B}[2Jb")
        #expect(TerminalText.table([["\n", "x"]]) == ["\\n  x"])
    }

    @Test("A table has aligned columns, numbers on the right, and no spaces at the ends of lines") func table() {
        let lines = TerminalText.table([["NODE", "SLOTS", "STATE"], ["mei-会", "7", "alive"], ["b", "65536", ""]], numbers: [1])
        #expect(lines == ["NODE    SLOTS  STATE", "mei-会      7  alive", "b       65536"])
    }
}
