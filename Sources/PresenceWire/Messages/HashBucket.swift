/// The users whose stable hash begins with the same bits, as a node describes them to another replica.
///
/// Replicas narrow a difference down: each answers a bucket with the parts of it that differ.
public struct HashBucket: Hashable, Sendable {
    /// A range of hashes: those that begin with `bits` given bits.
    public struct Place: Hashable, Sendable {
        /// The first bits, as the high bits of an integer. The other bits are 0.
        public let prefix: UInt64
        /// The number of the first bits, 0–64.
        public let bits: Int

        /// - Parameter number: the first bits, as an integer of `bits` bits.
        public init(number: UInt64, bits: Int) {
            prefix = bits == 0 ? 0 : number << UInt64(64 - bits)
            self.bits = bits
        }

        /// The first bits, as an integer of ``bits`` bits.
        public var number: UInt64 { bits == 0 ? 0 : prefix >> UInt64(64 - bits) }

        /// Whether a hash begins with these bits.
        public func contains(_ hash: UInt64) -> Bool { bits == 0 || (hash ^ prefix) >> UInt64(64 - bits) == 0 }

        /// The slots of the users in this place.
        public var slots: ClosedRange<Slot> {
            let first = Slot(truncatingIfNeeded: prefix >> 48)
            return first...(first | (bits < 16 ? Slot.max >> Slot(bits) : 0))
        }

        /// Whether the place has parts. Hashes have 64 bits.
        public var isDivisible: Bool { bits + HashBucket.partBits <= 64 }

        /// One of the ``HashBucket/partsCount`` parts of the place.
        public func part(_ index: Int) -> Place {
            Place(number: number << UInt64(HashBucket.partBits) | UInt64(index), bits: bits + HashBucket.partBits)
        }

        /// The part of the place that a hash in it belongs to.
        public func partIndex(of hash: UInt64) -> Int {
            Int((hash << UInt64(bits)) >> UInt64(64 - HashBucket.partBits))
        }
    }

    /// One user of a bucket, by salted hashes.
    public struct Entry: Hashable, Sendable {
        /// A hash of the user's name.
        public var key: UInt32
        /// A hash of the user's rows.
        public var hash: UInt32
        /// The stamp of the newest version in the user's rows (``Version/stamp``).
        public var newest: UInt64

        public init(key: UInt32, hash: UInt32, newest: UInt64) {
            self.key = key
            self.hash = hash
            self.newest = newest
        }
    }

    /// The description of a bucket.
    public enum Content: Hashable, Sendable {
        /// One hash for each of ``partsCount`` parts, over the rows of their users. The receiver describes the parts that differ.
        case parts([UInt32])
        /// All users that the sender has in the bucket. The receiver sends newer rows, and asks for older ones.
        case entries([Entry])
        /// The keys of the users whose rows the sender asks for.
        case wanted([UInt32])
    }

    public var place: Place
    public var content: Content

    public init(_ place: Place, _ content: Content) {
        self.place = place
        self.content = content
    }
}

extension HashBucket {
    /// The bits by which a part is narrower than its bucket.
    public static let partBits = 3
    /// The number of parts of a bucket.
    public static let partsCount = 1 << partBits
    /// The bits of the widest bucket: one of the ``Message/digestRangesCount`` ranges of slots.
    public static let bitsMin = 10
    /// Most entries of a bucket that has parts. Four entries have the size of two lists of hashes.
    public static let entriesMax = 4
    /// Most entries or keys that a receiver accepts of a bucket. A bucket without parts may have more than ``entriesMax``.
    public static let wantedMax = 64

    /// The widest bucket of a range of slots.
    public static func place(ofRange range: Int) -> Place { Place(number: UInt64(range), bits: bitsMin) }
}
