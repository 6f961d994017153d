/// When a fact was written, by a hybrid logical clock (Kulkarni et al., "Logical Physical Clocks", 2014): higher wins, everywhere, always.
///
/// 48 bits of milliseconds since 1970, 16 bits of counter, then the writer's number as tie-breaker (<doc:OneWriter>).
public struct Version: Hashable, Comparable, Sendable {
    /// Milliseconds << 16 | counter.
    public var stamp: UInt64
    /// A 32-bit hash of the writer's node ID: only breaks ties.
    public var node: UInt32

    public init(stamp: UInt64, node: UInt32) {
        self.stamp = stamp
        self.node = node
    }

    public init(milliseconds: Milliseconds, counter: UInt16, node: UInt32) {
        stamp = UInt64(Swift.max(milliseconds, 0)) << 16 | UInt64(counter)
        self.node = node
    }

    /// Older than everything that was ever written: the version of a user nobody has written about.
    public static let zero = Version(stamp: 0, node: 0)

    /// Newer than everything that will be written.
    public static let max = Version(stamp: .max, node: .max)

    /// The stamp's milliseconds since 1970.
    public var milliseconds: Milliseconds { Milliseconds(stamp >> 16) }

    /// Reads ``text``; nil for anything else.
    public init?(text: String) {
        guard text.utf8.count == 24 else { return nil }
        var (stamp, node): (UInt64, UInt32) = (0, 0)
        var place = 0
        for byte in text.utf8 {
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            default: return nil
            }
            if place < 16 { stamp = stamp << 4 | UInt64(digit) } else { node = node << 4 | UInt32(digit) }
            place += 1
        }
        self.init(stamp: stamp, node: node)
    }

    public static func < (left: Version, right: Version) -> Bool {
        left.stamp != right.stamp ? left.stamp < right.stamp : left.node < right.node
    }

    /// Appends 24 hexadecimal digits; as text they compare like the versions.
    public func appendText(to bytes: inout [UInt8]) {
        FieldText.append(24, to: &bytes) { $0.version(self) }
    }

    /// The digits of ``appendText(to:)``.
    public var text: String {
        var bytes: [UInt8] = []
        appendText(to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// A node's hybrid logical clock: each version it issues is larger than all it issued or heard of.
public struct VersionClock: Sendable {
    /// The number that breaks ties, see ``Version/node``.
    public let node: UInt32
    private var latest: UInt64 = 0
    /// How far ahead of the wall clock a version that is heard of may be. Default 60 s; further ahead it is refused, so that
    /// one broken clock cannot drag the cluster's versions into the future.
    public let driftMax: Duration

    /// How far apart the clocks of a cluster may be.
    public static let usualDriftMax = Duration.seconds(60)

    public init(node: UInt32, driftMax: Duration = VersionClock.usualDriftMax) {
        self.node = node
        self.driftMax = driftMax
    }

    /// The next version, at wall time `wall`.
    public mutating func next(at wall: Milliseconds) -> Version {
        latest = max(latest + 1, UInt64(max(wall, 0)) << 16)
        return Version(stamp: latest, node: node)
    }

    /// Whether `version` may be heard of at wall time `wall`.
    public func accepts(_ version: Version, at wall: Milliseconds) -> Bool {
        version.milliseconds <= wall + driftMax.wholeMilliseconds
    }

    /// Moves past `version`, so that the next one issued is newer.
    public mutating func observe(_ version: Version) {
        latest = max(latest, version.stamp)
    }

    /// The clock's milliseconds: never behind `wall`, nor behind what was heard of.
    public func milliseconds(at wall: Milliseconds) -> Milliseconds { max(wall, Milliseconds(latest >> 16)) }

    /// Everything issued so far is at or below this stamp, and all that will be issued is above it.
    ///
    /// It uses up no stamp: viewers could tell by the counter of the next version that somebody has asked for something.
    public func current(at wall: Milliseconds) -> Version {
        Version(stamp: max(latest, UInt64(max(wall, 1)) << 16 - 1), node: node)
    }
}
