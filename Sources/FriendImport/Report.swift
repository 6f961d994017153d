import Foundation

/// The report about refused rows: a CSV file with their columns, and the number, the code and the reason of each.
///
/// After the reasons are mended, its rows can be imported once the last three columns are removed.
struct Report {
    private let file: FileHandle

    /// Opens the report, or creates it.
    ///
    /// - Parameters:
    ///   - header: the names of the file's columns.
    ///   - bytes: the size that the report had when the position was stored. A run that was stopped has written the rest.
    init(beside path: String, header: String, bytes: UInt64) throws {
        let report = FriendImport.reportPath(beside: path)
        if !FileManager.default.fileExists(atPath: report) || bytes == 0 {
            try Data("\(header),row,code,reason\n".utf8).write(to: URL(fileURLWithPath: report))
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
            text += "\(record.text),\(record.number),\(refusal.code),\"\(refusal.reason.replacing("\"", with: "\"\""))\"\n"
        }
        try file.write(contentsOf: Data(text.utf8))
        return try file.offset()
    }

    func close() throws { try file.close() }
}
