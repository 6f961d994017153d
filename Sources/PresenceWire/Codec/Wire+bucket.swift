/// The first byte of a bucket's content.
private enum ContentTag: UInt8 {
    case parts = 1
    case entries = 2
    case wanted = 3
}

extension WireWriter {
    /// Writes one bucket: its place, then its content.
    mutating func bucket(_ bucket: HashBucket) {
        tag(UInt8(bucket.place.bits))
        unsigned(bucket.place.number)
        switch bucket.content {
        case .parts(let hashes):
            precondition(hashes.count == HashBucket.partsCount, "\(hashes.count) parts, not \(HashBucket.partsCount)")
            tag(ContentTag.parts)
            for hash in hashes { fixed(hash) }
        case .entries(let entries):
            tag(ContentTag.entries)
            list(entries) { writer, entry in
                writer.fixed(entry.key)
                writer.fixed(entry.hash)
                writer.unsigned(entry.newest)
            }
        case .wanted(let keys):
            tag(ContentTag.wanted)
            list(keys) { $0.fixed($1) }
        }
    }

    /// Writes four bytes. A hash takes five as a LEB128 integer.
    private mutating func fixed(_ value: UInt32) {
        for shift in stride(from: UInt32(0), to: 32, by: 8) { tag(UInt8(truncatingIfNeeded: value >> shift)) }
    }
}

extension WireReader {
    /// Reads a bucket; see ``WireWriter/bucket(_:)``.
    mutating func bucket() throws(DecodeError) -> HashBucket {
        let bits = Int(try tag())
        guard (HashBucket.bitsMin...64).contains(bits), (bits - HashBucket.bitsMin) % HashBucket.partBits == 0 else {
            throw .outOfRange(Int64(bits))
        }
        let number = try unsigned()
        guard bits == 64 || number >> UInt64(bits) == 0 else { throw .tooLong(count: 64 - number.leadingZeroBitCount, limit: bits) }
        let place = HashBucket.Place(number: number, bits: bits)
        switch try tag(as: ContentTag.self) {
        case .parts:
            guard place.isDivisible else { throw .outOfRange(Int64(bits)) }
            var hashes: [UInt32] = []
            for _ in 0..<HashBucket.partsCount { hashes.append(try fixed()) }
            return HashBucket(place, .parts(hashes))
        case .entries:
            let entries = try list(countMax: HashBucket.wantedMax) { reader throws(DecodeError) in
                HashBucket.Entry(key: try reader.fixed(), hash: try reader.fixed(), newest: try reader.unsigned())
            }
            return HashBucket(place, .entries(entries))
        case .wanted:
            return HashBucket(place, .wanted(try list(countMax: HashBucket.wantedMax) { reader throws(DecodeError) in try reader.fixed() }))
        }
    }

    private mutating func fixed() throws(DecodeError) -> UInt32 {
        var value: UInt32 = 0
        for shift in stride(from: UInt32(0), to: 32, by: 8) { value |= UInt32(try tag()) << shift }
        return value
    }
}
