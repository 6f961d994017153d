/// Parses server-sent events (HTML standard, "Interpreting an event stream"): bytes in, events out.
///
/// Bytes may be cut anywhere, also inside a character. A line and an event have bounds. Do not read on from a stream that exceeds one.
struct EventStreamParser {
    /// One event.
    struct Event: Equatable {
        /// The name; `message` if the stream names none.
        var name: String
        /// The lines of `data`, joined by line feeds; UTF-8.
        var data: [UInt8]
        /// The position to resume from: the latest `id` of the stream.
        var id: String?
    }

    /// A violation that no node commits.
    enum Failure: Error, Equatable {
        case lineTooLong(bytesMax: Int), eventTooLong(bytesMax: Int)
    }

    private let lineBytesMax: Int
    private let eventBytesMax: Int
    private var line: [UInt8] = []
    private var name = ""
    private var data: [UInt8] = []
    private var hasData = false
    private var id: String?
    private var endedWithCR = false
    private var isFirstLine = true
    /// The interval between two attempts that the stream requests, in milliseconds.
    private(set) var retryMilliseconds: Int?

    /// - Parameters:
    ///   - lineBytesMax: longest line. Default 1 MiB: fifty whole records are some 100 KiB at most.
    ///   - eventBytesMax: longest data of an event.
    init(lineBytesMax: Int = 1 << 20, eventBytesMax: Int = 1 << 20) {
        self.lineBytesMax = lineBytesMax
        self.eventBytesMax = eventBytesMax
    }

    /// Receives the next bytes, and appends the events that are now complete.
    mutating func receive(_ bytes: some Sequence<UInt8>, into events: inout [Event]) throws(Failure) {
        for byte in bytes {
            let followsCR = endedWithCR
            endedWithCR = byte == 0x0D
            switch byte {
            case 0x0A where followsCR: continue
            case 0x0A, 0x0D: try endLine(into: &events)
            default:
                guard line.count < lineBytesMax else { throw .lineTooLong(bytesMax: lineBytesMax) }
                line.append(byte)
            }
        }
    }

    private mutating func endLine(into events: inout [Event]) throws(Failure) {
        if isFirstLine, line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
        isFirstLine = false
        defer { line.removeAll(keepingCapacity: true) }
        guard !line.isEmpty else { return dispatch(into: &events) }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return try take(field: line[...], value: []) }
        var value = line[(colon + 1)...]
        if value.first == 0x20 { value = value.dropFirst() }
        try take(field: line[..<colon], value: value)
    }

    private mutating func take(field: ArraySlice<UInt8>, value: ArraySlice<UInt8>) throws(Failure) {
        switch String(decoding: field, as: UTF8.self) {
        case "event": name = String(decoding: value, as: UTF8.self)
        case "data":
            guard data.count + value.count < eventBytesMax else { throw .eventTooLong(bytesMax: eventBytesMax) }
            if hasData { data.append(0x0A) }
            data.append(contentsOf: value)
            hasData = true
        case "id": if !value.contains(0) { id = String(decoding: value, as: UTF8.self) }
        case "retry":
            let isNumber = !value.isEmpty && value.count <= 9 && value.allSatisfy { (0x30...0x39).contains($0) }
            if isNumber { retryMilliseconds = Int(String(decoding: value, as: UTF8.self)) }
        default: break  // A comment, whose field is empty, or a field that nobody knows.
        }
    }

    private mutating func dispatch(into events: inout [Event]) {
        if hasData { events.append(Event(name: name.isEmpty ? "message" : name, data: data, id: id)) }
        name = ""
        data.removeAll(keepingCapacity: true)
        hasData = false
    }
}
