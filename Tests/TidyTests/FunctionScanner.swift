/// Finds the functions of a Swift source and their lengths, whatever the layout of their signatures.
///
/// A line tells little: a signature may be wrapped, and a string or a comment may hold braces. The scanner reads the tokens of
/// the source, follows its brackets, and skips strings, comments and regular expressions. It knows the code inside interpolations.
struct FunctionScanner {
    /// A function, an initializer, a deinitializer, a subscript, a computed property or an accessor that has a body.
    struct Function: Equatable {
        let name: String
        /// The line of the keyword, counted from 1.
        let line: Int
        /// The lines from the keyword to the closing brace, without the last one. A wrapped signature counts: a reader reads it as well.
        let length: Int
    }

    /// The functions of a source, in the order of their ends, and whether its brackets match.
    struct Findings: Equatable {
        var functions: [Function] = []
        var areBracketsMatched = true
    }

    /// A keyword whose body has not begun.
    private struct Declaration {
        let keyword: String
        var name: String
        let line: Int
        let depth: Int
    }

    /// A bracket that is open, and the function whose body it begins.
    private struct Opening {
        let bracket: String
        let declaration: Declaration?
    }

    static func findings(in text: String) -> Findings {
        var lexer = SwiftLexer(text)
        var scanner = FunctionScanner(tokens: lexer.tokens())
        scanner.scan()
        return scanner.found
    }

    private let tokens: [SwiftLexer.Token]
    private var found = Findings()
    private var open: [Opening] = []
    private var declared: Declaration?

    private init(tokens: [SwiftLexer.Token]) { self.tokens = tokens }

    private mutating func scan() {
        for index in tokens.indices {
            let token = tokens[index]
            switch token.text {
            case "{", "(", "[": enter(token)
            case "}", ")", "]": leave(token)
            default: read(token, at: index)
            }
        }
        if !open.isEmpty { found.areBracketsMatched = false }
    }

    private mutating func enter(_ token: SwiftLexer.Token) {
        let begun = token.text == "{" && declared?.depth == open.count ? declared : nil
        if begun != nil { declared = nil }
        open.append(Opening(bracket: token.text, declaration: begun))
    }

    private mutating func leave(_ token: SwiftLexer.Token) {
        guard let opening = open.popLast(), opening.bracket + token.text == Self.pairs[token.text] else {
            found.areBracketsMatched = false
            return
        }
        if let declaration = opening.declaration {
            let length = token.line - declaration.line
            found.functions.append(Function(name: declaration.name, line: declaration.line, length: length))
        }
        // A requirement of a protocol has no body.
        if let depth = declared?.depth, depth > open.count { declared = nil }
    }

    private static let pairs = ["}": "{}", ")": "()", "]": "[]"]

    private mutating func read(_ token: SwiftLexer.Token, at index: Int) {
        guard declared == nil || declared?.depth == open.count else { return }
        if let declared, ends(declared, at: index) { self.declared = nil }
        guard let name = name(ofDeclarationAt: index) else { return }
        declared = Declaration(keyword: token.text, name: name, line: token.line, depth: open.count)
    }

    /// True if the token cannot belong to the signature of `declared`, which therefore has no body.
    private func ends(_ declared: Declaration, at index: Int) -> Bool {
        let token = tokens[index]
        guard declared.keyword == "var" else { return Self.endings.contains(token.text) && !isName(at: index) }
        // A property without a body ends with its line, or has an initial value.
        return token.text == "=" || (token.line != tokens[index - 1].line && !Self.continuations.contains(token.text))
    }

    private static let endings: Set = [
        "func", "init", "deinit", "subscript", "var", "let", "case", "struct", "class", "enum", "actor", "extension", "protocol",
        "typealias", "associatedtype", "static", "mutating", "public", "package", "internal", "fileprivate", "private",
    ]
    private static let continuations: Set = [".", "&", ":", "->", "any", "some"]

    /// The name of what is declared by the keyword at `index`; nil if the token declares nothing that has a body.
    private func name(ofDeclarationAt index: Int) -> String? {
        let next = text(at: index + 1)
        guard !isName(at: index) else { return nil }
        switch tokens[index].text {
        case "func": return next
        case "init" where ["(", "<", "?", "!"].contains(next): return "init"
        case "subscript" where ["(", "<"].contains(next): return "subscript"
        case "deinit" where next == "{": return "deinit"
        case "var" where text(at: index + 2) == ":": return next
        case let accessor where Self.accessors.contains(accessor): return ["{", "(", "async", "throws"].contains(next) ? accessor : nil
        default: return nil
        }
    }

    private static let accessors: Set = ["get", "set", "willSet", "didSet", "_read", "_modify"]

    /// True if the word is the name of a function or of a member, not a keyword.
    private func isName(at index: Int) -> Bool { [".", "func"].contains(text(at: index - 1)) }

    private func text(at index: Int) -> String { tokens.indices.contains(index) ? tokens[index].text : "" }
}

/// Splits a Swift source into words, brackets and operators. Strings and regular expressions are tokens without content.
struct SwiftLexer {
    struct Token: Equatable {
        let text: String
        let line: Int
    }

    private let bytes: [UInt8]
    private var position = 0
    private var line = 1
    private var found: [Token] = []

    init(_ text: String) { bytes = Array(text.utf8) }

    mutating func tokens() -> [Token] {
        while position < bytes.count { readToken() }
        return found
    }

    private func byte(_ offset: Int = 0) -> UInt8 {
        position + offset < bytes.count ? bytes[position + offset] : 0
    }

    private func isAt(_ text: StaticString) -> Bool {
        let length = text.utf8CodeUnitCount
        guard position + length <= bytes.count else { return false }
        return (0..<length).allSatisfy { bytes[position + $0] == text.utf8Start[$0] }
    }

    private mutating func skip(_ count: Int = 1) {
        for _ in 0..<count where position < bytes.count {
            if bytes[position] == UInt8(ascii: "\n") { line += 1 }
            position += 1
        }
    }

    private mutating func append(_ text: String) { found.append(Token(text: text, line: line)) }

    private mutating func readToken() {
        let first = byte()
        switch first {
        case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\t"), UInt8(ascii: "\r"): skip()
        case UInt8(ascii: "/"): readSlash()
        case UInt8(ascii: "\""): readString(marks: 0)
        case UInt8(ascii: "#"): readNumberSign()
        case UInt8(ascii: "`"): readQuotedName()
        case UInt8(ascii: "-") where byte(1) == UInt8(ascii: ">"):
            append("->")
            skip(2)
        case let first where Self.isWord(first): readWord()
        case let first where Self.isOperator(first): readOperator()
        default:
            append(String(UnicodeScalar(first)))
            skip()
        }
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "_"), UInt8(ascii: "$"), 0x80...0xFF:
            true
        default: false
        }
    }

    private static func isOperator(_ byte: UInt8) -> Bool { "=-+!*%<>&|^~?/".utf8.contains(byte) }

    private mutating func readWord() {
        let start = position
        while Self.isWord(byte()) { position += 1 }
        append(String(decoding: bytes[start..<position], as: UTF8.self))
    }

    /// A name between backticks is no keyword, so its token keeps them.
    private mutating func readQuotedName() {
        let start = position
        repeat { position += 1 } while position < bytes.count && byte() != UInt8(ascii: "`") && byte() != UInt8(ascii: "\n")
        position = min(position + 1, bytes.count)
        append(String(decoding: bytes[start..<position], as: UTF8.self))
    }

    private mutating func readOperator() {
        let start = position
        repeat { position += 1 } while Self.isOperator(byte()) && !isAt("//") && !isAt("/*")
        append(String(decoding: bytes[start..<position], as: UTF8.self))
    }

    // MARK: Comments and regular expressions

    private mutating func readSlash() {
        if isAt("//") {
            while position < bytes.count, byte() != UInt8(ascii: "\n") { position += 1 }
        } else if isAt("/*") {
            skipBlockComment()
        } else if let length = lengthOfRegex() {
            append("regex")
            skip(length)
        } else {
            readOperator()
        }
    }

    private mutating func skipBlockComment() {
        var depth = 0
        repeat {
            if isAt("/*") {
                depth += 1
                skip(2)
            } else if isAt("*/") {
                depth -= 1
                skip(2)
            } else {
                skip()
            }
        } while depth > 0 && position < bytes.count
    }

    /// The bytes of the regular expression that begins here; nil if the slash divides.
    ///
    /// The token before decides: a value is divided, and after anything else a value begins.
    private func lengthOfRegex() -> Int? {
        if let last = found.last?.text.utf8.last, ![" ", "\t"].contains(UnicodeScalar(byte(1))) {
            let isValue = Self.isWord(last) || ")]}`\"".utf8.contains(last)
            if isValue, let word = found.last?.text, !Self.wordsBeforeValues.contains(word) { return nil }
            if found.last?.text == "func" { return nil }
        } else if [" ", "\t"].contains(UnicodeScalar(byte(1))) {
            return nil
        }
        var length = 1
        var isInClass = false
        while position + length < bytes.count {
            switch byte(length) {
            case UInt8(ascii: "\n"): return nil
            case UInt8(ascii: "\\"): length += 1
            case UInt8(ascii: "["): isInClass = true
            case UInt8(ascii: "]"): isInClass = false
            case UInt8(ascii: "/") where !isInClass: return length + 1
            default: break
            }
            length += 1
        }
        return nil
    }

    private static let wordsBeforeValues: Set = [
        "return", "in", "case", "where", "if", "guard", "while", "else", "try", "await", "is", "as", "throw", "yield",
    ]

    /// A raw string, a regular expression between number signs, or a directive such as `#if`.
    private mutating func readNumberSign() {
        var marks = 0
        while byte(marks) == UInt8(ascii: "#") { marks += 1 }
        switch byte(marks) {
        case UInt8(ascii: "\""):
            skip(marks)
            readString(marks: marks)
        case UInt8(ascii: "/"):
            append("regex")
            skip(marks + 1)
            while position < bytes.count, !(byte() == UInt8(ascii: "/") && isFollowedByMarks(marks, at: 1)) {
                skip(byte() == UInt8(ascii: "\\") ? 2 : 1)
            }
            skip(marks + 1)
        default:
            append("#")
            skip(marks)
        }
    }

    // MARK: Strings

    private func isFollowedByMarks(_ marks: Int, at offset: Int) -> Bool {
        (0..<marks).allSatisfy { byte(offset + $0) == UInt8(ascii: "#") }
    }

    /// True if three quotation marks begin a raw string of one line, whose content begins or ends with quotation marks.
    private func isClosedOnItsLine(marks: Int) -> Bool {
        guard marks > 0 else { return false }
        var offset = 1
        while byte(offset) != 0, byte(offset) != UInt8(ascii: "\n") {
            if byte(offset) == UInt8(ascii: "\""), isFollowedByMarks(marks, at: offset + 1) { return true }
            offset += 1
        }
        return false
    }

    /// A string that begins at its quotation mark, after `marks` number signs.
    private mutating func readString(marks: Int) {
        append("\"")
        let quotes = isAt("\"\"\"") && !isClosedOnItsLine(marks: marks) ? 3 : 1
        skip(quotes)
        while position < bytes.count {
            switch byte() {
            case UInt8(ascii: "\\") where isFollowedByMarks(marks, at: 1):
                skip(1 + marks)
                if byte() == UInt8(ascii: "(") { readInterpolation() } else { skip() }
            case UInt8(ascii: "\"") where quotes == 1 || isAt("\"\"\""):
                guard isFollowedByMarks(marks, at: quotes) else {
                    skip()
                    continue
                }
                return skip(quotes + marks)
            case UInt8(ascii: "\n") where quotes == 1: return
            default: skip()
            }
        }
    }

    /// The code between the brackets of an interpolation, which may hold strings and closures.
    private mutating func readInterpolation() {
        var depth = 0
        repeat {
            if byte() == UInt8(ascii: "(") { depth += 1 }
            if byte() == UInt8(ascii: ")") { depth -= 1 }
            readToken()
        } while depth > 0 && position < bytes.count
        append("\"")
    }
}
