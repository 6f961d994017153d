import Foundation

/// A check of SQLite's write-ahead log (https://www.sqlite.org/fileformat2.html#walformat) without SQLite.
///
/// SQLite stops at the first frame with a wrong checksum and does not report the frames after it. A crash can tear only the last
/// transaction, because each is synced before the next begins. An unreadable commit with another commit after it was therefore damaged
/// later, and acknowledged rows are lost. Damage inside the last transaction, and a truncated log, look like a crash.
struct WriteAheadLog {
    /// Readable frames up to the last readable commit.
    private(set) var framesCount = 0
    /// The damage; nil if there is none, or only what a crash can cause.
    private(set) var problem: String?

    private static let headerBytes = 32
    private static let frameHeaderBytes = 24

    /// Reads the log. A log that does not exist is empty.
    init(path: String) throws {
        guard FileManager.default.fileExists(atPath: path) else { return }
        let content = try Data(contentsOf: URL(fileURLWithPath: path), options: .mappedIfSafe)
        content.withUnsafeBytes { scan($0) }
    }

    private mutating func scan(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count > Self.headerBytes else { return }
        let word = { (offset: Int) in UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)) }
        let magic = word(0)
        let pageBytes = Int(word(8))
        var sum = Checksum(isBigEndian: magic & 1 == 1)
        sum.add(bytes[..<24])
        guard magic & ~1 == 0x377F_0682, (512...65_536).contains(pageBytes), sum.isEqual(word(24), word(28)) else {
            return problem = "the header of its write-ahead log is damaged"
        }
        let salts = (word(16), word(20))
        let frameBytes = Self.frameHeaderBytes + pageBytes
        let offsets = stride(from: Self.headerBytes, through: bytes.count - frameBytes, by: frameBytes)
        var isReadable = true
        /// Whether a commit of this log follows an unreadable frame.
        var hasLostCommit = false
        for (index, offset) in offsets.enumerated() {
            let isOfThisLog = (word(offset + 8), word(offset + 12)) == salts
            let isCommit = word(offset + 4) != 0
            if isReadable {
                var next = sum
                next.add(bytes[offset..<offset + 8])
                next.add(bytes[offset + Self.frameHeaderBytes..<offset + frameBytes])
                isReadable = isOfThisLog && next.isEqual(word(offset + 16), word(offset + 20))
                sum = next
                if isReadable, isCommit { framesCount = index + 1 }
            }
            guard !isReadable, isOfThisLog else { continue }
            if hasLostCommit { return problem = "its write-ahead log is damaged after frame \(framesCount)" }
            hasLostCommit = isCommit
        }
    }

    private struct Checksum {
        let isBigEndian: Bool
        private var sums: (UInt32, UInt32) = (0, 0)

        init(isBigEndian: Bool) { self.isBigEndian = isBigEndian }

        mutating func add(_ bytes: Slice<UnsafeRawBufferPointer>) {
            let bytes = UnsafeRawBufferPointer(rebasing: bytes)
            for offset in stride(from: 0, to: bytes.count, by: 8) {
                let first = bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
                let second = bytes.loadUnaligned(fromByteOffset: offset + 4, as: UInt32.self)
                sums.0 &+= (isBigEndian ? UInt32(bigEndian: first) : UInt32(littleEndian: first)) &+ sums.1
                sums.1 &+= (isBigEndian ? UInt32(bigEndian: second) : UInt32(littleEndian: second)) &+ sums.0
            }
        }

        func isEqual(_ first: UInt32, _ second: UInt32) -> Bool { sums == (first, second) }
    }
}
