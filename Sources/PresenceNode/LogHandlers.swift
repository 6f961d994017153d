import Foundation
import Logging
import PresenceWire

/// One JSON object a line on standard error, for machines.
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

/// Sets up logging for the process. Throws for a level that is none.
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
        var handler = StreamLogHandler.standardError(label: label)
        handler.logLevel = level
        return handler
    }
}
