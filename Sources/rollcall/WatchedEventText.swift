/// Cuts the text of an event stream into its events.
struct EventText {
    private var rest: [UInt8] = []

    /// Takes a piece of the text. Returns the events that it completes.
    mutating func append(_ piece: [UInt8]) -> [(name: String, data: [UInt8])] {
        rest += piece
        var events: [(name: String, data: [UInt8])] = []
        while let end = rest.firstRange(of: Array("\n\n".utf8)) {
            var name = ""
            for line in String(decoding: rest[..<end.lowerBound], as: UTF8.self).split(separator: "\n") {
                if line.hasPrefix("event: ") { name = String(line.dropFirst(7)) }
                if line.hasPrefix("data: ") { events.append((name, Array(line.dropFirst(6).utf8))) }
            }
            rest.removeSubrange(..<end.upperBound)
        }
        return events
    }
}
