/// Cuts a stream of bytes into server-sent events.
///
/// An event that arrives in one piece is not copied.
struct EventScanner {
    /// The kinds that the simulator tells apart.
    enum Kind: Equatable { case connected, statusChanged, syncCompleted, kicked, reconnectHint, chain(ChainEvent), other }

    private var rest: [UInt8] = []

    /// Calls `body` with each event's kind, its `id` and its data.
    mutating func append(
        _ bytes: UnsafeRawBufferPointer, _ body: (Kind, Int64?, UnsafeBufferPointer<UInt8>) -> Void
    ) {
        if rest.isEmpty {
            let used = Self.cut(bytes.bindMemory(to: UInt8.self), body)
            if used < bytes.count { rest.append(contentsOf: bytes[used...]) }
            return
        }
        rest.append(contentsOf: bytes)
        let used = rest.withUnsafeBufferPointer { Self.cut($0, body) }
        rest.removeFirst(used)
    }

    private static func cut(
        _ bytes: UnsafeBufferPointer<UInt8>, _ body: (Kind, Int64?, UnsafeBufferPointer<UInt8>) -> Void
    ) -> Int {
        var start = 0
        var line = 0
        while line < bytes.count, let end = bytes[line...].firstIndex(of: 0x0A) {
            if end == line {
                read(UnsafeBufferPointer(rebasing: bytes[start..<end]), body)
                start = end + 1
            }
            line = end + 1
        }
        return start
    }

    private static func read(
        _ event: UnsafeBufferPointer<UInt8>, _ body: (Kind, Int64?, UnsafeBufferPointer<UInt8>) -> Void
    ) {
        var kind = Kind.other
        var id: Int64?
        var data = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
        var line = 0
        while line < event.count, let end = event[line...].firstIndex(of: 0x0A) {
            let text = UnsafeBufferPointer(rebasing: event[line..<end])
            switch text.first {
            case UInt8(ascii: "e"): kind = self.kind(text)
            case UInt8(ascii: "i"): id = text.dropFirst(4).reduce(Int64(0)) { $0 &* 10 &+ Int64($1) &- 48 }
            case UInt8(ascii: "d"): data = UnsafeBufferPointer(rebasing: text.dropFirst(6))
            default: break
            }
            line = end + 1
        }
        if data.count > 0 { body(kind, id, data) }
    }

    private static func kind(_ line: UnsafeBufferPointer<UInt8>) -> Kind {
        guard line.count > 9 else { return .other }
        switch line[9] {
        case UInt8(ascii: "C"): return .connected
        case UInt8(ascii: "U"): return line.count == 26 ? .statusChanged : chain(line)
        case UInt8(ascii: "F"), UInt8(ascii: "B"): return chain(line)
        case UInt8(ascii: "K"): return .kicked
        case UInt8(ascii: "R"): return line.count == 22 ? .reconnectHint : chain(line)
        case UInt8(ascii: "S"): return line.count == 34 ? .syncCompleted : .other
        default: return .other
        }
    }

    private static func chain(_ line: UnsafeBufferPointer<UInt8>) -> Kind {
        ChainEvent(rawValue: String(decoding: line.dropFirst(7), as: UTF8.self)).map { .chain($0) } ?? .other
    }
}
