import Foundation
import Logging
import PresenceWire

/// Writes one JSON object per line to standard error, with all control characters escaped.
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
        var json = JSONWriter(reserving: 256)
        json.object { json in
            json.member("time", Clock.now().wall)
            json.member("level", event.level.rawValue)
            json.member("label", label)
            json.member("message", event.message.description)
            json.key("metadata")
            let pairs = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
            json.array { json in
                for (key, value) in pairs { json.string("\(key)=\(value)") }
            }
        }
        let line = Data((PrintableText.escapedJSON(json.bytes) + "\n").utf8)
        do { try FileHandle.standardError.write(contentsOf: line) } catch { return }  // Nobody reads the log; the node goes on.
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
