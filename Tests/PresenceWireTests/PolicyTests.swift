import PresenceWire
import Testing

@Suite struct PolicyTests {
    func changed(_ policy: AppPolicy = AppPolicy(), json: String) throws -> AppPolicy {
        try policy.changed(by: try JSONReader.read(Array(json.utf8)))
    }

    @Test("A preset has the numbers of its document") func presets() {
        let quotas = Policy.Preset.allCases.map { Policy($0).subscriptionsMax }
        #expect(quotas == [3_000, 200, 1_000, 3_000, 3_000])  // T21, R5, N18, Z11
        #expect(Policy.Preset.allCases.map { Policy($0).queryUsersMax } == [500, 500, 500, 100, 200])  // T18, N16, Z17
        #expect(Policy.Preset.allCases.map { Policy($0).subscribeUsersMax } == [200, 100, 200, 100, 100])  // T23, R4, N5, Z9
        #expect(Policy.Preset.allCases.map { Policy($0).customStatusBytesMax } == [256, 100, 256, 256, 64])  // T12, Z4
        #expect(Policy(.tencent).offlineGrace == .zero)  // T5
        #expect(Policy.Preset.allCases.map { Policy($0).unsubscribeUsersMax } == [200, 100, 200, 100, 100])  // T24, R4, N9, Z16
        #expect(Policy(.zim).customStatusSeconds == 86_400 && Policy(.zim).customStatusSecondsMax == 86_400)  // Z5
        #expect(Policy.Preset.allCases.map { Policy($0).customStatusSecondsMax }.filter { $0 != 2_592_000 } == [86_400])
    }

    @Test("Only the presets rollcall and tencent limit calls, zim those of setSelfStatus, and rollcall paces pushes") func rates() {
        let limited: [Policy.Preset] = [.rollcall, .tencent]
        for preset in Policy.Preset.allCases {
            let (policy, rate) = (Policy(preset), limited.contains(preset) ? Policy.Rate(calls: 20, seconds: 5) : nil)
            #expect(policy.queryRate == rate && policy.subscribeRate == rate, "\(preset)")  // T17, T22, T24, R10, N5
            #expect(policy.changesRate == (preset == .rollcall ? Policy.Rate(calls: 20, seconds: 5) : nil), "\(preset)")
            #expect(policy.setStatusRate == (preset == .zim ? Policy.Rate(calls: 1, seconds: 1) : nil), "\(preset)")  // Z6
        }
    }

    @Test("A preset has the plan matrix, the registration and the sessions of its document") func scopes() {
        func presets(_ isSo: (Policy) -> Bool) -> [Policy.Preset] { Policy.Preset.allCases.filter { isSo(Policy($0)) } }
        #expect(presets { $0.planScope == .all } == [.rongcloud, .zim])  // R1, Z1
        #expect(presets { $0.mustBeRegistered } == [.zim])  // Z9
        #expect(presets { $0.customStatusNeedsSession } == [.tencent])  // T11
        #expect(presets { !$0.chain.autoNotifiesFriends } == [.rongcloud, .commsease])  // R3, N23
        #expect(presets { $0.multiClient == .all } == Policy.Preset.allCases)  // T34
        var basic = Policy(.zim)
        basic.plan = .basic
        #expect(!basic.coversOwnStatus && !basic.publishesOthers)
        basic.planScope = .others
        #expect(basic.coversOwnStatus && !basic.publishesOthers)
    }

    @Test("A setting overrides its preset until it is removed or the preset changes") func overrides() throws {
        let tencent = try changed(json: #"{"preset":"tencent","settings":{"query.batchMax":7,"offlineGrace":3}}"#)
        #expect(tencent.policy.queryUsersMax == 7)
        #expect(tencent.policy.subscriptionsMax == 200)
        #expect(try changed(tencent, json: #"{"settings":{"query.batchMax":null}}"#).policy.queryUsersMax == 500)
        #expect(try changed(tencent, json: #"{"settings":{"query.batchMax":null}}"#).policy.offlineGrace == .seconds(3))
        #expect(try changed(tencent, json: #"{"preset":"zim"}"#).policy == Policy(.zim))
    }

    @Test("customStatus.ttlMax bounds customStatus.ttl") func longestCustomStatus() throws {
        let app = try changed(json: #"{"preset":"zim","settings":{"customStatus.ttl":86401}}"#)
        #expect(app.policy.customStatusSeconds == 86_400)
        #expect(try AppPolicy(try JSONReader.read(app.json)).policy == app.policy)
        #expect(try changed(app, json: #"{"settings":{"customStatus.ttlMax":86401}}"#).policy.customStatusSeconds == 86_401)
        #expect(try changed(app, json: #"{"settings":{"customStatus.ttl":0}}"#).policy.customStatusSeconds == 86_400)
        #expect(try changed(json: #"{"settings":{"customStatus.ttlMax":3600}}"#).policy.customStatusSeconds == 3_600)
        #expect(try changed(json: #"{"preset":"rollcall"}"#).policy.customStatusSeconds == 0, "until it is cleared")
    }

    @Test(
        "The patterns of the API's description allow the URLs and secrets that a policy allows",
        arguments: [
            ("https://app.example.com/rollcall?a=b", true), ("http://127.0.0.1:9000/x", true), ("https://[2001:db8::1]:8443", true),
            ("https://a", true), ("https://a_b.example/", true), ("https://a.example:65535", true), ("https://", false),
            ("https:///x", false), ("https://-a.example", false), ("https://a.example.", false), ("https://a.example:", false),
            ("https://a.example:x", false), ("https://a.example:123456", false), ("https://user@a.example", false),
            ("https://a.example/#x", false), ("https://a.example/ x", false), ("https://[]", false), ("https://[::1", false),
            ("https://[::1]x", false), ("https://[x]", false), ("ftp://a.example", false), ("https://ä.example", false),
            ("https://a\\b", false), ("HTTPS://a.example", false),
        ])
    func url(_ url: String, isValid: Bool) throws {
        #expect(WebhookPolicy.isValid(url: url) == isValid)
        #expect(try (Regex(WebhookPolicy.urlPattern).wholeMatch(in: url) != nil) == isValid)
    }

    @Test(
        "A port beyond 65,535 and a URL of more than 1,024 bytes are refused beside the pattern",
        arguments: ["https://a.example:65536", "https://a.example:0", "https://a.example/" + String(repeating: "x", count: 1_024)])
    func urlBeyondPattern(_ url: String) { #expect(!WebhookPolicy.isValid(url: url)) }

    @Test(
        "A secret is 16 to 256 printable ASCII characters",
        arguments: [
            (15, "x", false), (16, "x", true), (256, "~", true), (257, "x", false), (16, " ", true), (16, "é", false), (32, "\n", false),
        ])
    func secret(_ count: Int, of character: String, isValid: Bool) throws {
        let secret = String(repeating: character, count: count)
        #expect(WebhookPolicy.isValid(secret: secret) == isValid)
        #expect(try (Regex(WebhookPolicy.secretPattern).wholeMatch(in: secret) != nil) == isValid)
    }

    @Test("A node stores the secret of a webhook, and no answer shows it") func secret() throws {
        let secret = "0123456789abcdef"
        let policy = try changed(
            json:
                #"{"settings":{"webhook.url":"https://a.example/x","webhook.secret":"\#(secret)","webhook.events":["profile","friends"]}}"#)
        let stored = try AppPolicy(try JSONReader.read(policy.json))
        #expect(
            stored.policy == policy.policy && stored.policy.webhook.secret == secret
                && stored.policy.webhook.events == [.friends, .profile])
        var json = JSONWriter(reserving: 1_024)
        json.object { policy.writeAll(into: &$0) }
        let shown = String(decoding: json.bytes, as: UTF8.self)
        #expect(!shown.contains(secret) && shown.contains(#""webhook.secret":"(set)""#))
        #expect(try !policy.changed(by: try JSONReader.read(#"{"settings":{"webhook.url":null}}"#.utf8.map { $0 })).policy.hasWebhook)
    }

    @Test("A stored policy is read back") func stored() throws {
        let policy = try changed(
            json: #"{"preset":"zim","settings":{"rate.query":false,"rate.setStatus":{"calls":2,"seconds":3},"plan":"basic"}}"#)
        #expect(try AppPolicy(try JSONReader.read(policy.json)) == policy)
    }

    @Test(
        "The error names an invalid setting",
        arguments: [
            (#"{"preset":"skype"}"#, "preset"), (#"{"settings":{"query.max":1}}"#, "query.max"),
            (#"{"settings":{"query.max":null}}"#, "query.max"),
            (#"{"settings":{"query.batchMax":501}}"#, "query.batchMax"), (#"{"settings":{"query.batchMax":0}}"#, "query.batchMax"),
            (#"{"settings":{"query.batchMax":"5"}}"#, "query.batchMax"), (#"{"settings":{"plan":"free"}}"#, "plan"),
            (#"{"settings":{"rate.query":{"calls":0,"seconds":5}}}"#, "rate.query"),
            (#"{"settings":{"userStatus.enabled":1}}"#, "userStatus.enabled"),
            (#"{"settings":{"liveness.timeout":14}}"#, "liveness.timeout"),
            (#"{"settings":{"liveness.timeout":3601}}"#, "liveness.timeout"),
            (#"{"settings":{"liveness.timeoutByPlatform":{"web":14}}}"#, "liveness.timeoutByPlatform"),
            (#"{"settings":{"liveness.timeoutByPlatform":{"web":3601}}}"#, "liveness.timeoutByPlatform"),
            (#"{"settings":{"liveness.timeoutByPlatform":{"a b":60}}}"#, "liveness.timeoutByPlatform"),
            (#"{"settings":{"liveness.timeoutByPlatform":60}}"#, "liveness.timeoutByPlatform"),
            (#"{"settings":{"state.pushReachableStaysOnline":1}}"#, "state.pushReachableStaysOnline"),
            (#"{"settings":{"self.reportStatus":"none"}}"#, "self.reportStatus"),
            (#"{"settings":{"users.mustBeRegistered":0}}"#, "users.mustBeRegistered"),
            (#"{"settings":{"users.forgetAfter":86399}}"#, "users.forgetAfter"),
            (#"{"settings":{"users.forgetAfter":-1}}"#, "users.forgetAfter"),
            (#"{"settings":{"users.forgetAfter":315360001}}"#, "users.forgetAfter"),
            (#"{"settings":{"login.multiClient":"many"}}"#, "login.multiClient"), (#"{"settings":{"plan.covers":"some"}}"#, "plan.covers"),
            (#"{"settings":{"customStatus.ttlMax":0}}"#, "customStatus.ttlMax"),
            (#"{"settings":{"customStatus.needsSession":1}}"#, "customStatus.needsSession"),
            (#"{"settings":{"subscription.notifyExpiry":"yes"}}"#, "subscription.notifyExpiry"),
            (#"{"settings":{"subscription.ttlMin":90,"subscription.ttlMax":80}}"#, "subscription.ttlMin"),
            (#"{"settings":{"webhook.url":"https://a.example"}}"#, "webhook.url"),
            (#"{"settings":{"webhook.url":"ftp://a.example","webhook.secret":"0123456789abcdef"}}"#, "webhook.url"),
            (#"{"settings":{"webhook.url":"https://u:p@a.example","webhook.secret":"0123456789abcdef"}}"#, "webhook.url"),
            (#"{"settings":{"webhook.url":"https://","webhook.secret":"0123456789abcdef"}}"#, "webhook.url"),
            (#"{"settings":{"webhook.url":"https://a.example/#x","webhook.secret":"0123456789abcdef"}}"#, "webhook.url"),
            (#"{"settings":{"webhook.secret":"0123456789abcde"}}"#, "webhook.secret"),
            (#"{"settings":{"webhook.events":[]}}"#, "webhook.events"), (#"{"settings":{"webhook.events":["logins"]}}"#, "webhook.events"),
            (#"{"settings":{"webhook.events":["friends","friends"]}}"#, "webhook.events"),
            (#"{"settings":[]}"#, "settings"),
        ])
    func invalidSetting(json: String, setting: String) throws {
        #expect { try changed(json: json) } throws: { ($0 as? PolicyError)?.setting == setting }
    }

    @Test("Liveness timeouts are read up to their bounds, and platforms may differ") func livenessTimeouts() throws {
        let text = #"{"settings":{"liveness.timeout":15,"liveness.timeoutByPlatform":{"web":60,"tv":3600.0}}}"#
        let app = try changed(json: text)
        #expect(app.policy.livenessTimeout == .seconds(15))
        #expect(["ios", "tv", "web"].map(app.policy.livenessTimeout) == [.seconds(15), .seconds(3_600), .seconds(60)])
        let read = try AppPolicy(try JSONReader.read(app.json))
        #expect(read.policy == app.policy && read.json == app.json)
        #expect(try changed(json: #"{"settings":{"liveness.timeout":3600}}"#).policy.livenessTimeout == .seconds(3_600))
        #expect(try changed(app, json: #"{"settings":{"liveness.timeoutByPlatform":{}}}"#).policy.platformTimeouts.isEmpty)
        let many = (0..<33).map { "\"p\($0)\":60" }
        func platforms(_ count: Int) throws -> AppPolicy {
            try changed(json: "{\"settings\":{\"liveness.timeoutByPlatform\":{\(many.prefix(count).joined(separator: ","))}}}")
        }
        #expect(try platforms(32).policy.platformTimeouts.count == 32)
        #expect(throws: PolicyError.self) { try platforms(33) }
        #expect(Policy.Preset.allCases.allSatisfy { Policy($0).livenessTimeout(of: "ios") == .seconds(400) })  // T6
        #expect(Policy(.tencent).livenessTimeout(of: "web") == .seconds(60))  // X3
        #expect(Policy.Preset.allCases.filter { Policy($0).pushReachableStaysOnline } == [.commsease])  // N19
        #expect(Policy.Preset.allCases.allSatisfy { !Policy($0).notifiesExpiry })  // R12
        #expect(Policy.Preset.allCases.filter { Policy($0).selfReport == .unknown } == [.zim])  // Z22
    }
}
