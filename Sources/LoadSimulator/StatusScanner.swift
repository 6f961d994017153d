import PresenceWire

/// What the ledger needs of a `UserStatus`.
struct ScannedStatus {
    var userID = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
    var customStatus = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
    var statusType = StatusType.unlogined
    var version = Version.zero
}

/// Reads `UserStatus` objects from JSON without allocation: a push costs less than a microsecond. Field order does not matter;
/// strings with escapes are passed over, which no simulated user has.
struct StatusScanner {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var offset = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    /// Calls `body` with every object that has a `version` and a `userID`, at any depth. Returns false for what is no JSON.
    static func scan(_ bytes: UnsafeBufferPointer<UInt8>, _ body: (ScannedStatus) -> Void) -> Bool {
        var scanner = StatusScanner(bytes)
        return scanner.value(body)
    }

    private mutating func value(_ body: (ScannedStatus) -> Void) -> Bool {
        guard let byte = peek() else { return false }
        switch byte {
        case UInt8(ascii: "{"): return object(body)
        case UInt8(ascii: "["):
            offset += 1
            if peek() == UInt8(ascii: "]") {
                offset += 1
                return true
            }
            while value(body) {
                guard let next = peek() else { return false }
                offset += 1
                if next == UInt8(ascii: "]") { return true }
                guard next == UInt8(ascii: ",") else { return false }
            }
            return false
        case UInt8(ascii: "\""): return string() != nil
        default:
            let start = offset
            while offset < bytes.count, !Self.ends(bytes[offset]) { offset += 1 }
            return offset > start
        }
    }

    private mutating func object(_ body: (ScannedStatus) -> Void) -> Bool {
        offset += 1
        var status = ScannedStatus()
        var hasVersion = false
        if peek() == UInt8(ascii: "}") {
            offset += 1
            return true
        }
        while true {
            guard peek() == UInt8(ascii: "\""), let name = string(), peek() == UInt8(ascii: ":") else { return false }
            offset += 1
            if peek() == UInt8(ascii: "\"") {
                guard let text = string() else { return false }
                hasVersion = set(name, text, of: &status) || hasVersion
            } else if !value(body) {
                return false
            }
            guard let next = peek() else { return false }
            offset += 1
            if next == UInt8(ascii: "}") { break }
            guard next == UInt8(ascii: ",") else { return false }
        }
        if hasVersion, status.userID.count > 0 { body(status) }
        return true
    }

    /// Returns whether it was the version.
    private func set(_ name: UnsafeBufferPointer<UInt8>, _ text: UnsafeBufferPointer<UInt8>, of status: inout ScannedStatus) -> Bool {
        switch name.count {
        case 6 where name[0] == UInt8(ascii: "u"): status.userID = text
        case 12 where name[0] == UInt8(ascii: "c"): status.customStatus = text
        case 10 where name[0] == UInt8(ascii: "s"):
            // UNKNOWN is told to those alone who are there.
            let isOnline = text.count == 6 || text.elementsEqual("UNKNOWN".utf8)
            status.statusType = isOnline ? .online : text.count == 7 ? .offline : .unlogined
        case 7 where name[0] == UInt8(ascii: "v"):
            guard text.count == 24 else { return false }
            status.version = Version(stamp: Self.hex(text[0..<16]), node: UInt32(truncatingIfNeeded: Self.hex(text[16..<24])))
            return true
        default: break
        }
        return false
    }

    private static func hex(_ digits: Slice<UnsafeBufferPointer<UInt8>>) -> UInt64 {
        var value: UInt64 = 0
        for digit in digits { value = value << 4 | UInt64(digit < 58 ? digit &- 48 : digit &- 87) & 15 }
        return value
    }

    private mutating func string() -> UnsafeBufferPointer<UInt8>? {
        offset += 1
        let start = offset
        while offset < bytes.count, bytes[offset] != UInt8(ascii: "\"") { offset += bytes[offset] == UInt8(ascii: "\\") ? 2 : 1 }
        guard offset < bytes.count else { return nil }
        offset += 1
        return UnsafeBufferPointer(rebasing: bytes[start..<offset - 1])
    }

    private mutating func peek() -> UInt8? {
        while offset < bytes.count, bytes[offset] == 0x20 || bytes[offset] == 0x0A { offset += 1 }
        return offset < bytes.count ? bytes[offset] : nil
    }

    private static func ends(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: ",") || byte == UInt8(ascii: "}") || byte == UInt8(ascii: "]") || byte == 0x20
    }
}

/// Cuts a stream of bytes into server-sent events; an event that arrives whole is not copied.
struct EventScanner {
    /// The kinds that the simulator tells apart.
    enum Kind { case connected, statusChanged, syncCompleted, kicked, reconnectHint, other }

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
        case UInt8(ascii: "U"): return .statusChanged
        case UInt8(ascii: "K"): return .kicked
        case UInt8(ascii: "R"): return .reconnectHint
        case UInt8(ascii: "S"): return line.count == 34 ? .syncCompleted : .other
        default: return .other
        }
    }
}
