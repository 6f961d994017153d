import Foundation

/// The place up to which a file was imported, beside the file, so that the next run goes on there.
struct ImportPosition: Codable, Equatable, Sendable {
    /// The size of the file in bytes, and the time of its last change. An import of another file begins anew.
    var fileBytes: UInt64
    var changedAt: Double
    /// The end of the last imported record.
    var offset: UInt64 = 0
    var counts = ImportCounts()
    /// The size of the report. A row that a run has reported, and not counted, is reported again.
    var reportBytes: UInt64 = 0

    /// Reads the attributes of a file.
    init(of path: String) throws {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        fileBytes = (attributes[.size] as? NSNumber)?.uint64Value ?? 0
        changedAt = (attributes[.modificationDate] as? Date)?.timeIntervalSince1970 ?? 0
    }

    static func path(beside file: String) -> String { file + ".progress" }

    /// The position that an earlier run has left; nil for none.
    static func saved(beside file: String) throws -> ImportPosition? {
        guard FileManager.default.fileExists(atPath: path(beside: file)) else { return nil }
        do {
            let data = try Data(contentsOf: URL(fileURLWithPath: path(beside: file)))
            return try JSONDecoder().decode(ImportPosition.self, from: data)
        } catch {
            throw ImportError("\(path(beside: file)): is damaged; --restart begins at the beginning of the file")
        }
    }

    /// The position from which an import of the file goes on; nil for its beginning. Throws if the file has changed since.
    static func resumed(_ file: String, restarts: Bool) throws -> ImportPosition? {
        guard !restarts, let saved = try saved(beside: file) else { return nil }
        guard saved.isOf(try ImportPosition(of: file)) else {
            throw ImportError("\(file): has changed since the import began; --restart begins at its beginning")
        }
        return saved
    }

    func save(beside file: String) throws {
        let content = try JSONEncoder().encode(self)
        do { try content.write(to: URL(fileURLWithPath: Self.path(beside: file)), options: .atomic) } catch {
            throw ImportError("\(Self.path(beside: file)): cannot be written")
        }
    }

    /// Whether the file is the one that the position is about.
    func isOf(_ other: ImportPosition) -> Bool { (fileBytes, changedAt) == (other.fileBytes, other.changedAt) }
}

/// The numbers of rows of an import.
public struct ImportCounts: Codable, Equatable, Sendable {
    /// All rows that were read, without the names of the columns.
    public var rows = 0
    public var imported = 0
    /// Rows whose friend the list had already.
    public var present = 0
    public var refused = 0
}
