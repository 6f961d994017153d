import HTTP2
import PresenceCore

extension API {
    /// The operation of a path `/v1/<operation>`.
    static func operation(ofPath path: UnsafeBufferPointer<UInt8>) -> Operation? {
        for (index, known) in paths.enumerated() where path.equals(known) { return Operation(rawValue: index) }
        return nil
    }

    private static let paths = Operation.allCases.map { Array("/v1/\($0.name)".utf8) }
}
