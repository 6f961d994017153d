import Foundation
import PresenceWire

/// Checksums of the pages of a database file, by which a scrub notices bytes that nobody wrote.
///
/// SQLite's pages have no checksums, and two bytes of five carry nothing: damage there is harmless, but says that the disk is failing. With
/// a write-ahead log SQLite writes the file at checkpoints only. All other bytes must be those of the scrub before.
struct PageSums {
    private static let pagesAtOnce = 32
    /// The lengths of the headers of a log and of each of its frames (https://www.sqlite.org/fileformat2.html#walformat).
    private static let (logHeaderBytes, frameHeaderBytes) = (32, 24)

    private let path: String
    private let pageBytes: Int
    /// Open as long as the database is: closing it would release SQLite's locks on the file.
    private let file: FileHandle
    /// The checksum of each page; 0 until the first look, and after a checkpoint.
    private var sums: [UInt64] = []
    private var next = 0
    /// Passes over the whole file that have ended.
    private(set) var passes: UInt64 = 0

    init(path: String, pageBytes: Int) throws {
        (self.path, self.pageBytes) = (path, pageBytes)
        file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
    }

    /// Takes the pages of a log, which a checkpoint is about to write, as unknown.
    mutating func forgetPages(ofFrames framesCount: Int) throws {
        guard framesCount > 0, !sums.isEmpty else { return }
        let log = try Data(contentsOf: URL(fileURLWithPath: path + "-wal"), options: .mappedIfSafe)
        log.withUnsafeBytes { bytes in
            for index in 0..<framesCount {
                let offset = Self.logHeaderBytes + index * (Self.frameHeaderBytes + pageBytes)
                guard offset + 4 <= bytes.count else { return }
                let page = Int(UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
                if sums.indices.contains(page - 1) { sums[page - 1] = 0 }
            }
        }
    }

    /// Looks at the next pages. Returns the numbers of those that have changed without a checkpoint.
    mutating func look() throws -> [Int] {
        try file.seek(toOffset: UInt64(next * pageBytes))
        let bytes = try file.read(upToCount: Self.pagesAtOnce * pageBytes) ?? Data()
        let count = bytes.count / pageBytes
        var changed: [Int] = []
        bytes.withUnsafeBytes { bytes in
            for index in 0..<count {
                let sum = Self.sum(UnsafeRawBufferPointer(rebasing: bytes[index * pageBytes..<(index + 1) * pageBytes]))
                let page = next + index
                if page >= sums.count { sums.append(0) }
                if sums[page] != 0, sums[page] != sum { changed.append(page + 1) }
                sums[page] = sum
            }
        }
        next += count
        if count < Self.pagesAtOnce { (next, passes) = (0, passes + 1) }
        return changed
    }

    /// A checksum that is not 0. Every single bit changes it.
    private static func sum(_ page: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 1
        for offset in stride(from: 0, to: page.count, by: 8) {
            hash = StableHash.mix(hash, page.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
        }
        return max(hash, 1)
    }
}
