/// The record of a target that the answer to a subscribe call has, so that the calling session's stream leaves it out.
public enum DeliveredRecord: Hashable, Sendable {
    /// The answer has no record.
    case nothing
    /// The answer has the record of this version.
    case version(Version)
    /// The subscriber has requested no record, and receives only later changes (N8).
    case laterChanges

    /// - Parameter version: the version of the answer's record; nil for no record.
    public init(_ version: Version?) { self = version.map { .version($0) } ?? .nothing }

    /// The value as messages have it: `laterChanges` is the largest version.
    init(wire version: Version?) { self = version == .max ? .laterChanges : DeliveredRecord(version) }

    var wire: Version? {
        switch self {
        case .nothing: nil
        case .version(let version): version
        case .laterChanges: .max
        }
    }
}
