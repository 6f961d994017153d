import Testing

@testable import FriendImport

/// The rows of a file of friends, as `importFriends` takes them.
@Suite struct FriendRowTests {
    private func row(_ header: String, _ fields: String) throws -> FriendRow {
        let columns = try FriendColumns(header.split(separator: ",").map(String.init))
        return try FriendRow(record(fields), columns)
    }

    private func record(_ fields: String) -> CSVRecords.Record {
        let fields = fields.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        return CSVRecords.Record(number: 1, fields: fields, fault: nil, end: 0)
    }

    @Test("A row has all fields of a friend, in the types that the API takes") func all() throws {
        let row = try row(
            "friendID,userID,remark,groups,addWording,addSource,addTime,Custom_Blood,Custom_Level:integer",
            "ben,ann,Benny,work;home,hi,AddSource_Type_old,1000,A,7")
        #expect(row.user == "ann" && row.groups == ["work", "home"])
        #expect(
            String(decoding: row.json, as: UTF8.self)
                == #"{"userID":"ben","remark":"Benny","addWording":"hi","addSource":"AddSource_Type_old","groups":["work","home"],"#
                + #""addTime":1000,"custom":{"Blood":"A","Level":7}}"#)
    }

    @Test("An empty field is absent") func empty() throws {
        let row = try row("userID,friendID,remark,groups,addTime,Custom_Blood", "ann,ben,,,,")
        #expect(String(decoding: row.json, as: UTF8.self) == #"{"userID":"ben"}"# && row.groups == [])
    }

    @Test(
        "A bad row is refused with its field",
        arguments: [
            ("ann", 0, "has 1 fields; 3 are right"), (",ben,1", 7003, "userID: "), ("ann,,1", 7003, "friendID: "),
            ("ann,ben,1,x", 0, "has 4 fields; 3 are right"), ("ann,ben,x", 6017, "addTime: \"x\" is not"),
            ("ann,b\u{1}n,1", 7003, "friendID: "),
        ])
    func refused(fields: String, code: Int, words: String) throws {
        let refusal = try #require(throws: RowRefusal.self) { try row("userID,friendID,addTime", fields) }
        #expect(refusal.code == code && refusal.reason.hasPrefix(words))
    }

    @Test(
        "A file whose columns are wrong is refused before the first row",
        arguments: [
            ("userID", "row 0: the column \"friendID\" is missing"), ("friendID,remark", "row 0: the column \"userID\" is missing"),
            ("userID,friendID,nick", "row 0: \"nick\" is no column; the columns are userID, friendID,"),
            ("userID,friendID,userID", "row 0: the column \"userID\" occurs twice"),
            ("userID;friendID;remark", "row 0: the delimiter is a semicolon; a comma is right"),
            ("userID\tfriendID", "row 0: the delimiter is a tab; a comma is right"),
        ])
    func columns(header: String, words: String) throws {
        let error = try #require(throws: ImportError.self) { try FriendColumns(header.split(separator: ",").map(String.init)) }
        #expect(error.description.hasPrefix(words))
    }

    @Test("Blanks around IDs and names of columns, and empty fields behind the last column, change nothing") func blanks() throws {
        let row = try row(" userID,friendID ,remark,", " ann ,\u{A0}ben\t, b ,,")
        #expect(
            row.user == "ann" && row.friend == "ben" && String(decoding: row.json, as: UTF8.self) == #"{"userID":"ben","remark":" b "}"#)
    }

    @Test("A report has the columns of its file, whatever number of fields a row has")
    func kept() throws {
        let columns = try FriendColumns(["userID", "friendID", "remark", "row", "code", "reason"])
        #expect(columns.kept(["a", "b", "c", "7", "0", "why"]) == ["a", "b", "c"])
        #expect(columns.kept(["a", "b", "c", "d", "7", "0", "why"]) == ["a", "b", "c,d"])
        #expect(columns.kept(["a"]) == ["a", "", ""])
        let plain = try FriendColumns(["userID", "friendID", "remark"])
        #expect(plain.kept(["a", "b", "c", "d", ""]) == ["a", "b", "c,d"])
    }

    @Test("A report's row with U+FFFD is refused, because bytes of the file were lost there") func replacement() throws {
        let fields = "ann,ben,M\u{FFFD}ller"
        #expect(try row("userID,friendID,remark", fields).user == "ann")
        let refusal = try #require(throws: RowRefusal.self) { try row("userID,friendID,remark,row,code,reason", fields + ",1,0,why") }
        #expect(refusal.reason.hasPrefix("remark: U+FFFD stands for bytes"))
    }
}
