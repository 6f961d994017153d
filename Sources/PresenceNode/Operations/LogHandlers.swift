import Foundation
import Logging
import NIOConcurrencyHelpers
import PresenceWire

/// Writes one JSON object per line to standard error, with all control characters escaped:
/// `{"time":"2026-11-29T04:38:20.123Z","level":"info","label":"rollcall","message":"…","metadata":{…}}`.
///
/// The time has the form of RFC 3339, in UTC. Nested metadata stays nested.
public struct JSONLogHandler: LogHandler {
    public var metadata: Logger.Metadata = [:]
    public var logLevel = Logger.Level.info
    private let label: String

    public init(label: String) { self.label = label }

    public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    public func log(event: LogEvent) {
        let line = Data((line(event, at: Clock.now().wall) + "\n").utf8)
        // A long line takes several writes, and two threads would mix theirs.
        Self.writing.withLock {
            do { try FileHandle.standardError.write(contentsOf: line) } catch { return }  // Nobody reads the log; the node goes on.
        }
    }

    private static let writing = NIOLock()

    /// The line of an event, without its end.
    func line(_ event: LogEvent, at time: Milliseconds) -> String {
        var json = JSONWriter(reserving: 256)
        json.object { json in
            json.member("time", Self.timeText(time))
            json.member("level", event.level.rawValue)
            json.member("label", label)
            json.member("message", event.message.description)
            json.key("metadata")
            var all = metadata.merging(event.metadata ?? [:]) { $1 }
            if let error = event.error, all["error"] == nil { all["error"] = "\(error)" }
            json.metadata(all)
        }
        return PrintableText.escapedJSON(json.bytes)
    }

    /// A time as RFC 3339 has it, in UTC and with milliseconds.
    static func timeText(_ time: Milliseconds) -> String {
        var (seconds, parts) = (time_t((Double(time) / 1_000).rounded(.down)), tm())
        gmtime_r(&seconds, &parts)
        let fraction = Int32(time - Milliseconds(seconds) * 1_000)
        let date = String(format: "%04d-%02d-%02d", parts.tm_year + 1_900, parts.tm_mon + 1, parts.tm_mday)
        return date + String(format: "T%02d:%02d:%02d.%03dZ", parts.tm_hour, parts.tm_min, parts.tm_sec, fraction)
    }
}

extension JSONWriter {
    /// Writes metadata as an object, its members in the order of their names.
    fileprivate mutating func metadata(_ metadata: Logger.Metadata) {
        object { json in
            for (name, value) in metadata.sorted(by: { $0.key < $1.key }) {
                json.key(text: name)
                json.metadata(value)
            }
        }
    }

    private mutating func metadata(_ value: Logger.MetadataValue) {
        switch value {
        case .string(let text): string(text)
        case .stringConvertible(let value): string(value.description)
        case .dictionary(let members): metadata(members)
        case .array(let elements): array { json in for element in elements { json.metadata(element) } }
        }
    }
}

/// Writes one line of text per event to standard error, with control characters escaped.
public struct TextLogHandler: LogHandler {
    private var lines: StreamLogHandler

    public init(label: String) { lines = StreamLogHandler.standardError(label: label) }

    init(lines: StreamLogHandler) { self.lines = lines }

    public var metadata: Logger.Metadata {
        get { lines.metadata }
        set { lines.metadata = newValue.mapValues(Self.escaped) }
    }

    public var logLevel: Logger.Level {
        get { lines.logLevel }
        set { lines.logLevel = newValue }
    }

    public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { lines[metadataKey: key] }
        set { lines[metadataKey: key] = newValue.map(Self.escaped) }
    }

    public func log(event: LogEvent) {
        var event = event
        event.message = "\(PrintableText.escaped(event.message.description))"
        event.metadata = event.metadata?.mapValues(Self.escaped)
        lines.log(event: event)
    }

    private static func escaped(_ value: Logger.MetadataValue) -> Logger.MetadataValue { .string(PrintableText.escaped("\(value)")) }
}

/// Sets up logging for the process. Throws for an unknown level.
public func bootstrapLogging(level: String, format: String) throws(ConfigurationError) {
    guard let level = Logger.Level(rawValue: level) else {
        let levels = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
        throw ConfigurationError(setting: "log-level", problem: "\"\(level)\" is not one of \(levels)")
    }
    LoggingSystem.bootstrap { label in
        if format == "json" {
            var handler = JSONLogHandler(label: label)
            handler.logLevel = level
            return handler
        }
        var handler = TextLogHandler(label: label)
        handler.logLevel = level
        return handler
    }
}
