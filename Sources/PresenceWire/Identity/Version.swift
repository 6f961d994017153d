/// The time stamp of a fact, by a hybrid logical clock (Kulkarni et al., "Logical Physical Clocks", 2014). The larger version wins
/// everywhere.
///
/// It has 48 bits of milliseconds since 1970, 16 bits of counter, and the writer's number as tie-breaker (<doc:OneWriter>).
public struct Version: Hashable, Comparable, Sendable {
    /// Milliseconds << 16 | counter.
    public var stamp: UInt64
    /// A 32-bit hash of the writer's node ID. It only breaks ties.
    public var node: UInt32

    public init(stamp: UInt64, node: UInt32) {
        self.stamp = stamp
        self.node = node
    }

    public init(milliseconds: Milliseconds, counter: UInt16, node: UInt32) {
        stamp = UInt64(Swift.max(milliseconds, 0)) << 16 | UInt64(counter)
        self.node = node
    }

    /// A version older than every write: that of a user without any write.
    public static let zero = Version(stamp: 0, node: 0)

    /// A version newer than every write.
    public static let max = Version(stamp: .max, node: .max)

    /// The stamp's milliseconds since 1970.
    public var milliseconds: Milliseconds { Milliseconds(stamp >> 16) }

    /// Reads ``text``; nil for any other text.
    public init?(text: String) {
        var text = text
        guard let version = text.withUTF8({ Version(digits: $0) }) else { return nil }
        self = version
    }

    /// Reads the UTF-8 of ``text``; nil for any other bytes.
    public init?(digits: ArraySlice<UInt8>) {
        guard let version = digits.withUnsafeBufferPointer({ Version(digits: $0) }) else { return nil }
        self = version
    }

    private init?(digits: UnsafeBufferPointer<UInt8>) {
        guard digits.count == 24, let stamp = Hex.value(of: digits.prefix(16)), let node = Hex.value(of: digits.suffix(8)) else {
            return nil
        }
        self.init(stamp: stamp, node: UInt32(node))
    }

    public static func < (left: Version, right: Version) -> Bool {
        left.stamp != right.stamp ? left.stamp < right.stamp : left.node < right.node
    }

    /// Appends 24 hexadecimal digits. The texts sort like the versions.
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

/// A node's hybrid logical clock. Each version it issues is larger than all that it has issued or observed.
public struct VersionClock: Sendable {
    /// The number that breaks ties, see ``Version/node``.
    public let node: UInt32
    private var latest: UInt64 = 0
    /// How far an observed version may be ahead of the wall clock; 60 s by default.
    ///
    /// Nodes refuse a version further ahead, so that one broken clock cannot drag the cluster's versions into the future.
    public let driftMax: Duration

    /// The largest allowed difference between the clocks of a cluster.
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

    /// The next version at wall time `wall` whose counter leaves `rest` if it is divided by 4.
    public mutating func next(at wall: Milliseconds, ofFour rest: UInt64) -> Version {
        let least = next(at: wall).stamp
        latest += (rest &- least) & 3
        return Version(stamp: latest, node: node)
    }

    /// Whether the clock accepts an observed version at wall time `wall`.
    public func accepts(_ version: Version, at wall: Milliseconds) -> Bool {
        version.milliseconds <= wall + driftMax.wholeMilliseconds
    }

    /// Moves past `version`, so that the next one issued is newer.
    public mutating func observe(_ version: Version) {
        latest = max(latest, version.stamp)
    }

    /// The clock's milliseconds: at least `wall`, and at least those of each observed version.
    public func milliseconds(at wall: Milliseconds) -> Milliseconds { max(wall, Milliseconds(latest >> 16)) }

    /// A version at or above everything issued until now, and below everything issued later.
    ///
    /// It uses no stamp. Otherwise the counter of the next version would show viewers that somebody has made a query.
    public func current(at wall: Milliseconds) -> Version {
        Version(stamp: max(latest, UInt64(max(wall, 1)) << 16 - 1), node: node)
    }
}
