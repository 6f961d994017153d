import PresenceWire

/// The fields of a `UserStatus` that the ledger reads.
struct ScannedStatus {
    var userID = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
    var customStatus = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
    var statusType = StatusType.unlogined
    var version = Version.zero
    /// The look of the record as a number: the bytes of `onlinePlatforms`, 1,000,000 more for the status type UNKNOWN, and 2,000,000 more
    /// for `isUnsure`.
    var look: Int32 = 0
}

/// Reads `UserStatus` objects from JSON without allocation.
///
/// A push costs less than a microsecond. The order of the fields does not matter. Strings with escapes are skipped, because no simulated
/// user has any.
struct StatusScanner {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var offset = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    /// Calls `body` with every object that has a `version` and a `userID`, at any depth. Returns false for bytes that are not JSON.
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
            } else {
                let start = offset
                guard value(body) else { return false }
                if name.count == 15, name[0] == UInt8(ascii: "o") { status.look += Int32(truncatingIfNeeded: offset - start) }
                if name.count == 8, name[0] == UInt8(ascii: "i") { status.look += 2_000_000 }
            }
            guard let next = peek() else { return false }
            offset += 1
            if next == UInt8(ascii: "}") { break }
            guard next == UInt8(ascii: ",") else { return false }
        }
        if hasVersion, status.userID.count > 0 { body(status) }
        return true
    }

    /// Sets a field. Returns whether it was the version.
    private func set(_ name: UnsafeBufferPointer<UInt8>, _ text: UnsafeBufferPointer<UInt8>, of status: inout ScannedStatus) -> Bool {
        switch name.count {
        case 6 where name[0] == UInt8(ascii: "u"): status.userID = text
        case 12 where name[0] == UInt8(ascii: "c"): status.customStatus = text
        case 10 where name[0] == UInt8(ascii: "s"):
            // Only users who are present get UNKNOWN.
            let isUnknown = text.elementsEqual("UNKNOWN".utf8)
            if isUnknown { status.look += 1_000_000 }
            status.statusType = text.count == 6 || isUnknown ? .online : text.count == 7 ? .offline : .unlogined
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
