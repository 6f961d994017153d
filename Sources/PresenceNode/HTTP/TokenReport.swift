import Foundation
import NIOCore
import PresenceCore
import PresenceWire

/// The answer of a node to a token, claim by claim: `rollcall check-token`.
public struct TokenReport: Sendable {
    /// The result for one part of the token.
    public enum Verdict: String, Sendable {
        case accepted = "ok"
        case refused
        /// The node does not read the claim.
        case unread = "not needed"
        /// The token does not have the claim, and does not need it.
        case absent
        /// Only the node knows the result.
        case undecided = "the node decides"
    }

    /// One part of the token.
    public struct Line: Sendable, Equatable {
        /// The name of the claim, or of the field of the header.
        public let name: String
        /// The value, for people; empty for none.
        public let value: String
        public let verdict: Verdict
        /// The reason, or the meaning of the value; may be empty.
        public let note: String
    }

    /// The parts; none if the bytes are no token.
    public internal(set) var lines: [Line] = []
    /// The reason why a node refuses the token; nil if it accepts the token.
    public internal(set) var refusal: String?
    /// The user whom the token names, and the app; nil if it names none.
    public internal(set) var user: (id: String, app: String)?

    /// The report of a node with this configuration, without the kicks, which only nodes know.
    ///
    /// Throws for a key that is invalid. A key set is fetched over `loop`.
    public static func of(_ token: String, with configuration: NodeConfiguration, on loop: any EventLoop) async throws -> TokenReport {
        let keys = KeySetFetcher(on: loop, logger: nil)
        let authenticator = try await Authenticator(
            apps: configuration.appKeys, isDevelopment: configuration.isDevelopment, keySets: keys)
        await authenticator.fetchKeySets()
        let report = await authenticator.report(Array(token.utf8), at: Clock.now().wall)
        await keys.stop()
        return report
    }

    /// The report as far as the token itself decides, without its signature and without the settings of a node.
    public static func ofClaims(_ token: String) -> TokenReport {
        var report = TokenReport()
        do throws(AuthenticationError) {
            let token = try ParsedToken(Array(token.utf8))
            report.add(token, nil, at: Clock.now().wall)
            report.lines.insert(Line(name: "signature", value: "", verdict: .undecided, note: ""), at: report.keyLinesCount)
        } catch { report.refusal = error.reason }
        return report
    }

    // MARK: Lines

    /// The fields of the header come first.
    private var keyLinesCount: Int { lines.prefix { ["alg", "kid"].contains($0.name) }.count }

    /// Adds a line for each claim, and for the fields of the header that choose the key.
    ///
    /// - Parameter rules: what tokens of the app must say; nil if it is not known.
    fileprivate mutating func add(_ token: ParsedToken, _ rules: TokenRules?, at wall: Milliseconds) {
        let claims = token.claims
        lines.append(Line(name: "alg", value: token.header.alg ?? "", verdict: rules == nil ? .undecided : .accepted, note: ""))
        if let id = token.header.kid {
            lines.append(Line(name: "kid", value: id, verdict: rules == nil ? .undecided : .accepted, note: ""))
        }
        let values = Self.members(of: token)
        add("sub", values, isRead: true) { () throws(AuthenticationError) -> String in "the user \(try claims.user())" }
        add("app", values, isRead: true) { () throws(AuthenticationError) -> String in "the app \(try claims.appID())" }
        add("role", values, isRead: true) { () throws(AuthenticationError) -> String in try claims.isAdmin() ? "a back end" : "a user" }
        add("exp", values, isRead: true, isNeeded: true) { () throws(AuthenticationError) -> String in
            "ends \(Self.time(try claims.end(at: wall), from: wall))"
        }
        add("nbf", values, isRead: true) { () throws(AuthenticationError) -> String in
            try claims.checkStart(at: wall)
            return ""
        }
        add("iat", values, isRead: true) { () throws(AuthenticationError) -> String in
            let time = try claims.issueTime(at: wall)
            return time == 0 ? "" : "made \(Self.time(time, from: wall))"
        }
        let expected = rules ?? TokenRules()
        add("aud", values, isRead: rules.map { !$0.audiences.isEmpty }, isNeeded: !expected.audiences.isEmpty) {
            () throws(AuthenticationError) -> String in
            try claims.checkAudience(expected)
            return ""
        }
        add("iss", values, isRead: rules.map { !$0.issuers.isEmpty }, isNeeded: !expected.issuers.isEmpty) {
            () throws(AuthenticationError) -> String in
            try claims.checkIssuer(expected)
            return ""
        }
        let read: Set = ["sub", "app", "role", "exp", "nbf", "iat", "aud", "iss"]
        for member in values where !read.contains(member.name) {
            lines.append(Line(name: member.name, value: Self.shown(member.value), verdict: .unread, note: ""))
        }
        if let id = try? claims.user(), let app = try? claims.appID() { user = (id, app) }
    }

    /// Adds the line of a claim.
    ///
    /// - Parameters:
    ///   - isRead: whether the node reads the claim; nil if only the node knows.
    ///   - isNeeded: whether a token without the claim is refused. `sub` and `exp` are always needed.
    ///   - check: returns a note, or throws the reason why the claim refuses the token.
    private mutating func add(
        _ name: String, _ values: [JSONValue.Member], isRead: Bool?, isNeeded: Bool = false,
        _ check: () throws(AuthenticationError) -> String
    ) {
        let value = values.first { $0.name == name && $0.value != .null }?.value
        if value == nil, !isNeeded, name != "sub" { return lines.append(Line(name: name, value: "", verdict: .absent, note: "")) }
        let shown = value.map(Self.shown) ?? ""
        guard let isRead else { return lines.append(Line(name: name, value: shown, verdict: .undecided, note: "")) }
        guard isRead else { return lines.append(Line(name: name, value: shown, verdict: .unread, note: "")) }
        do throws(AuthenticationError) {
            lines.append(Line(name: name, value: shown, verdict: .accepted, note: try check()))
        } catch { lines.append(Line(name: name, value: shown, verdict: .refused, note: error.reason)) }
    }

    /// Notes the result for the key of the token.
    fileprivate mutating func sign(_ key: TokenKey?, _ problem: String?) {
        let verdict: Verdict = key == nil ? .refused : .accepted
        let note = problem ?? key.map { "signed by the \($0)" } ?? ""
        let place = keyLinesCount
        for index in 0..<place {
            let line = lines[index]
            guard let problem, problem.hasPrefix("\(line.name): ") || problem.contains("'s \(line.name) ") else { continue }
            lines[index] = Line(name: line.name, value: line.value, verdict: .refused, note: "")
        }
        lines.insert(Line(name: "signature", value: "", verdict: verdict, note: note), at: place)
    }

    // MARK: Values

    /// The claims as the token has them.
    private static func members(of token: ParsedToken) -> [JSONValue.Member] {
        let parts = token.bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = KeySet.bytes(ofBase64URL: String(decoding: parts[1], as: UTF8.self)),
            case .object(let members)? = try? JSONReader.read(bytes)
        else { return [] }
        return members
    }

    /// A value for people, on one line of bounded length.
    private static func shown(_ value: JSONValue) -> String {
        let text =
            switch value {
            case .null: "null"
            case .bool(let value): "\(value)"
            case .integer(let number): "\(number)"
            case .number(let number): "\(number)"
            case .string(let text): "\"\(text)\""
            case .array(let elements): "[" + elements.prefix(10).map(shown).joined(separator: ", ") + (elements.count > 10 ? ", …]" : "]")
            case .object(let members): "{" + members.prefix(10).map(\.name).joined(separator: ", ") + "}"
            }
        return text.count > 100 ? String(text.prefix(99)) + "…" : text
    }

    /// A time for people, absolute and relative.
    private static func time(_ time: Milliseconds, from wall: Milliseconds) -> String {
        // Beyond the year 9999 a date says nothing.
        guard abs(time / 1_000) < 253_402_300_800 else { return time > wall ? "in the far future" : "in the distant past" }
        let seconds = (time - wall) / 1_000
        let date = Date(timeIntervalSince1970: Double(time / 1_000)).ISO8601Format()
        return "\(date), \(seconds < 0 ? "\(-seconds) s ago" : "in \(seconds) s")"
    }
}

extension Authenticator {
    /// The result of ``check(_:at:)``, claim by claim.
    func report(_ token: [UInt8], at wall: Milliseconds) async -> TokenReport {
        var report = TokenReport()
        let result = await check(token, at: wall)
        if case .failure(let error) = result { report.refusal = error.reason }
        guard let parsed = try? ParsedToken(token) else { return report }
        report.add(parsed, rules(of: (try? parsed.claims.appID()) ?? ""), at: wall)
        do throws(AuthenticationError) {
            report.sign(try await signer(of: parsed), nil)
        } catch { report.sign(nil, error.reason) }
        return report
    }
}
