import Testing

@testable import PresenceWire

/// The operations and answers that carry facts out of a cluster and into one, as nodes send them.
@Suite struct PortableFactTests {
    private static let ann = UserID(app: "default", id: "ann")
    private static let fact = PortableFact(kind: .friend, key: "ben", value: Array(#"{"addTime":1}"#.utf8), expiresAt: 5)

    private static let operations: [OwnerOperation] = [
        .exportFacts(FactExportRequest(after: nil, isWhole: true)),
        .exportFacts(FactExportRequest(after: FactPosition(kind: .friendGroup, key: "7"), isWhole: false)),
        .importFacts(FactImportRequest([fact, PortableFact(kind: .status, key: "", value: Array("{}".utf8))], isDryRun: false)),
        .importFacts(FactImportRequest([], isDryRun: true)), .mentions(MentionRequest(from: 0)), .mentions(MentionRequest(from: .max)),
        .onlineUsers(OnlineQuery(app: "default", after: ann, limit: 3, isOfAll: true)),
    ]

    private static let answers: [Answer] = [
        .factsExported(FactExportAnswer(facts: [], next: nil)),
        .factsExported(FactExportAnswer(facts: [Array("{}".utf8)], next: FactPosition(kind: .friend, key: "ben"))),
        .factsImported(FactImportAnswer([.imported, .present, .refused(30_010, "the friend list is full (friends.max)")])),
        .mentioned(MentionAnswer([], next: nil)), .mentioned(MentionAnswer([Mention(user: ann, kind: .blocked)], next: 65_535)),
    ]

    private func read<Value>(_ bytes: [UInt8], _ body: (inout WireReader) throws -> Value) throws -> Value {
        try bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            let value = try body(&reader)
            try reader.expectEnd()
            return value
        }
    }

    @Test("Each operation is read as it was written, and each shorter text is refused", arguments: operations)
    func roundTrip(operation: OwnerOperation) throws {
        var wire = WireWriter()
        wire.operation(operation)
        #expect(try read(wire.bytes) { try $0.operation() } == operation)
        for count in 0..<wire.bytes.count {
            #expect(throws: DecodeError.self) { try read(Array(wire.bytes[..<count])) { try $0.operation() } }
        }
    }

    @Test("Each answer is read as it was written, and each shorter text is refused", arguments: answers) func answerRoundTrip(
        answer: Answer
    )
        throws
    {
        var wire = WireWriter()
        wire.answer(answer)
        #expect(try read(wire.bytes) { try $0.answer() } == answer)
        for count in 0..<wire.bytes.count {
            #expect(throws: DecodeError.self) { try read(Array(wire.bytes[..<count])) { try $0.answer() } }
        }
    }

    @Test("An import of more facts than a call may have is refused") func tooMany() {
        var wire = WireWriter()
        wire.operation(.importFacts(FactImportRequest(Array(repeating: Self.fact, count: PortableFact.callMax + 1), isDryRun: false)))
        #expect(throws: DecodeError.self) { try read(wire.bytes) { try $0.operation() } }
    }

    @Test("An answer with another number of results than facts is not one to the import") func otherCount() {
        let operation = OwnerOperation.importFacts(FactImportRequest([Self.fact], isDryRun: false))
        #expect(operation.isAnswered(by: .factsImported(FactImportAnswer([.present]))))
        #expect(!operation.isAnswered(by: .factsImported(FactImportAnswer([]))))
        #expect(!operation.isAnswered(by: .done))
    }
}
