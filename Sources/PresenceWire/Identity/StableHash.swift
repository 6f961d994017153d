/// The hash that assigns users and nodes to slots.
///
/// It never changes and is the same on every platform, because data on disk and every node's ring depend on it.
///
/// It is FNV-1a over the bytes (Fowler, Noll, Vo), then the finalizer of MurmurHash3 (Appleby), which spreads FNV's weak high bits.
public enum StableHash {
    /// The hash of `bytes`, 64 bits.
    @inlinable
    public static func hash64(_ bytes: some Sequence<UInt8>) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        return finalize(hash)
    }

    /// The hash of two hashes, in this order.
    @inlinable
    public static func mix(_ left: UInt64, _ right: UInt64) -> UInt64 {
        finalize(left ^ (right &* 0x9E37_79B9_7F4A_7C15))
    }

    /// MurmurHash3's `fmix64`: each input bit changes each output bit with a probability of about one half.
    @inlinable
    static func finalize(_ value: UInt64) -> UInt64 {
        var hash = value
        hash ^= hash >> 33
        hash = hash &* 0xFF51_AFD7_ED55_8CCD
        hash ^= hash >> 33
        hash = hash &* 0xC4CE_B9FE_1A85_EC53
        return hash ^ (hash >> 33)
    }
}
