import Testing

/// The scanner on texts whose functions are known.
@Suite struct FunctionScannerTests {
    /// Each function as name, line and length.
    private func functions(in text: String) -> [String] {
        let findings = FunctionScanner.findings(in: text)
        #expect(findings.areBracketsMatched, "\(text)")
        return findings.functions.map { "\($0.name) \($0.line) \($0.length)" }
    }

    @Test("A wrapped signature counts as part of its function") func wrappedSignature() {
        let text = """
            public init(
                a: Int,
                b: Int
            ) throws {
                c()
            }
            static func f<Value>(
                _ value: Value
            )
                async throws -> [Value]
            where Value: Equatable
            {
            }
            """
        #expect(functions(in: text) == ["init 1 5", "f 7 6"])
    }

    @Test("Brackets in strings, interpolations, comments and regular expressions are skipped") func skipped() {
        let text = #####"""
            func strings() {
                a("}", "\"}", "\\", #"}\"#, ##"}"#}"##, #""}""#, #""""#)
                b("\(c("}") { "{\(d)" })", #"\(x) \#(c("}"))"#)
            }
            func lines() {
                a(
                    """
                    } " "" \("}") \"""
                    """, #"""
                        } \""" """
                        """#)
            }
            func comments() {  // }
                /* } /* } */ } */
                a()  // "{
            }
            func expressions() {
                a(/}"[/}]\/}/, #/}"/}/#, ##/
                    } /# {
                    /##)
                if let match = text.firstMatch(of: /"}/) { b(match) }
                return /\{/
            }
            func quotients(a: Int, b: Int) -> Int { a / b + (a) / b * [a][0] / b }
            static func / (a: Value, b: Value) -> Value { a.divided(by: b) }
            """#####
        #expect(
            functions(in: text) == [
                "strings 1 3", "lines 5 7", "comments 13 3", "expressions 17 6", "quotients 24 0", "/ 25 0",
            ])
    }

    @Test("A nested function counts alone and in the one around it") func nested() {
        let text = """
            func outer() {
                struct Inner {
                    func method() {
                    }
                }
                func inner() -> Int {
                    let closure = { (a: Int) in
                        a
                    }
                    return closure(1)
                }
            }
            """
        #expect(functions(in: text) == ["method 3 1", "inner 6 5", "outer 1 11"])
    }

    @Test("A closure as a default argument does not begin the body") func defaultArguments() {
        let text = """
            func f(
                _ change: (inout Settings) -> Void = { _ in
                },
                also: [Int] = [1, 2].map { $0 }
            ) -> @Sendable () -> Void {
                { a() }
            }
            """
        #expect(functions(in: text) == ["f 1 6"])
    }

    @Test("Initializers, deinitializers, subscripts, computed properties and observers count") func otherBodies() {
        let text = """
            struct A {
                let a = { 1 }()
                var b: Int
                var c: Int { d }
                var e:
                    [Int]
                {
                    get throws { [] }
                }
                var f: Int = 1 {
                    didSet { g() }
                }
                lazy var h: Int = { 1 }()
                init?() { self.init(1) }
                subscript(index: Int) -> Int {
                    get { 1 }
                    set(value) { i.set(value) }
                }
                deinit {
                }
            }
            """
        #expect(
            functions(in: text) == [
                "c 4 0", "get 8 0", "e 5 4", "didSet 11 0", "init 14 0", "get 16 0", "set 17 0", "subscript 15 3", "deinit 19 1",
            ])
    }

    @Test("Requirements of protocols, calls and names like keywords are no functions") func noFunctions() {
        let text = """
            protocol P {
                init(a: Int)
                func b() -> Int
                var c: Int
                func d()
            }
            extension P {
                func e() {
                    _ = Value.init(1)
                    var f: Int
                    if self.subscript(f) { self.deinit }
                    g(init: 1, func: `init`(2)) { .set }
                }
                func `subscript`() {}
            }
            """
        #expect(functions(in: text) == ["e 8 5", "`subscript` 14 0"])
    }

    @Test("Brackets that do not match are noticed", arguments: ["func a() {", "}", "func a( }", "a([)]"])
    func unmatched(text: String) { #expect(!FunctionScanner.findings(in: text).areBracketsMatched) }
}
