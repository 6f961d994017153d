import Foundation
import PresenceWire

/// The report about refused rows: a CSV file with their columns, and the number, the code and the reason of each.
///
/// An import of the mended report ignores the last three columns.
struct Report {
    private let file: FileHandle
    private let columns: FriendColumns

    /// Opens the report, or creates it.
    ///
    /// - Parameter bytes: the size that the report had when the position was stored. A run that was stopped has written the rest.
    init(beside path: String, _ columns: FriendColumns, bytes: UInt64) throws {
        let report = FriendImport.reportPath(beside: path)
        self.columns = columns
        if !FileManager.default.fileExists(atPath: report) || bytes == 0 {
            let header = Data(Self.line(columns.kept(columns.names) + FriendColumns.reportNames).utf8)
            do { try header.write(to: URL(fileURLWithPath: report)) } catch { throw ImportError("\(report): cannot be written") }
        }
        guard let file = FileHandle(forUpdatingAtPath: report) else { throw ImportError("\(report): cannot be written") }
        self.file = file
        if bytes > 0 { try file.truncate(atOffset: bytes) }
        try file.seekToEnd()
    }

    /// Adds rows. Returns the size of the report in bytes.
    func append(_ rows: [(record: CSVRecords.Record, refusal: RowRefusal)]) throws -> UInt64 {
        var text = ""
        for (record, refusal) in rows {
            text += Self.line(columns.kept(record.fields) + ["\(record.number)", "\(refusal.code)", PrintableText.escaped(refusal.reason)])
        }
        do { try file.write(contentsOf: Data(text.utf8)) } catch { throw ImportError("the report of refused rows cannot be written") }
        return try file.offset()
    }

    private static func line(_ fields: [String]) -> String { fields.map(CSVRecords.field).joined(separator: ",") + "\n" }

    func close() throws { try file.close() }
}
