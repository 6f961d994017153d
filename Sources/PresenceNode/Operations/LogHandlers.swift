import Foundation
import Logging
import PresenceWire

/// Writes one JSON object per line to standard error.
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
        FileHandle.standardError.write(Data(json.bytes + [0x0A]))
    }
}

/// Escapes control characters in a line of the text log.
///
/// Otherwise a value from outside could forge lines of the log, or send commands to the terminal that shows the log.
enum LogText {
    static func needsEscape(_ text: some StringProtocol) -> Bool { text.unicodeScalars.contains(where: isControl) }

    /// Returns the text with `\n`, `\r`, `\t` and the numbers of other control characters, such as `\u{1B}`, in their place.
    static func escaped(_ text: String) -> String {
        guard needsEscape(text) else { return text }
        var escaped = ""
        for scalar in text.unicodeScalars {
            if isControl(scalar) { escaped += scalar.escaped(asASCII: true) } else { escaped.unicodeScalars.append(scalar) }
        }
        return escaped
    }

    /// Whether a scalar is of C0, DEL or C1, or separates lines or paragraphs.
    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value) || (0x2028...0x2029).contains(scalar.value)
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
        event.message = "\(LogText.escaped(event.message.description))"
        event.metadata = event.metadata?.mapValues(Self.escaped)
        lines.log(event: event)
    }

    private static func escaped(_ value: Logger.MetadataValue) -> Logger.MetadataValue { .string(LogText.escaped("\(value)")) }
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
