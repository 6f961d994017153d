import PresenceWire

/// Devices that vendor push reaches. Their users stay ONLINE without a session (N19).
///
/// The devices are a part of the record from the login on. Gateway and owner may die together, and no other node knows the session.
extension OwnedUser {
    /// The devices that count now: the earlier ones without those of `departed` sessions and without the `replaced` ones, and the reachable
    /// ones of open sessions.
    func pushDevices(
        without departed: [OwnedSession], _ replaced: [PushDevice] = [], by policy: Policy, at now: Now
    ) -> [PushDevice] {
        let old = record.pushDevices
        let reachable = sessions.filter { $0.isPushReachable }
        guard !old.isEmpty || !reachable.isEmpty else { return [] }
        guard policy.pushReachableStaysOnline else { return [] }
        var devices = old.filter { device in !departed.contains { $0.isOf(device) } }
        if !replaced.isEmpty { devices.removeAll { replaced.contains($0) } }
        for session in reachable {
            let index = devices.firstIndex { session.isOf($0) } ?? devices.count
            if index < devices.count, devices[index].until - now.wall > PushDevice.renewBefore { continue }
            let renewed = PushDevice(platform: session.platform, deviceID: session.deviceID, until: now.wall + PushDevice.horizon)
            if index < devices.count { devices[index] = renewed } else { devices.append(renewed) }
        }
        devices.removeAll { $0.until <= now.wall }
        if devices.count > PushDevice.countMax {
            let closed = devices.filter { device in !reachable.contains { $0.isOf(device) } }.sorted { $0.until < $1.until }
            let dropped = closed.prefix(devices.count - PushDevice.countMax)
            devices.removeAll { dropped.contains($0) }
        }
        return devices.sorted { ($0.platform, $0.deviceID) < ($1.platform, $1.deviceID) }
    }

    /// Records whether push reaches the device of a login. The last login of a device decides for all its sessions.
    mutating func recordPush(_ attach: Attach) {
        for index in sessions.indices where sessions[index].platform == attach.platform && sessions[index].deviceID == attach.deviceID {
            sessions[index].isPushReachable = attach.isPushReachable
        }
    }

    /// The devices whose place a login has taken: those of the sessions that it `ended`, and those that the app's policy does not allow
    /// besides it. A device without a session counts as well. Otherwise it would keep its user ONLINE after the newer session.
    func replacedDevices(
        by session: OwnedSession, isLogin: Bool, ended: [OwnedSession], scope: Policy.MultiClient
    ) -> [PushDevice] {
        record.pushDevices.filter { device in
            if sessions.contains(where: { $0.isOf(device) }) { return false }
            return ended.contains { $0.isOf(device) } || (isLogin && scope.excludes(device, besides: session))
        }
    }

    /// Makes a user OFFLINE whose last device does not count any more, however the last session ended.
    mutating func endReachability(at now: Now) {
        if record.pushDevices.contains(where: { $0.until <= now.wall }) { statusAfterLast = .offline }
    }

    /// The next time at which a device must be written again, or does not count any more.
    func nextPushDeadline(at now: Now) -> Instant {
        var next = Instant.farFuture
        for device in record.pushDevices {
            let isOpen = sessions.contains { $0.isPushReachable && $0.isOf(device) }
            next = min(next, now.instant(of: isOpen ? device.until - PushDevice.renewBefore : device.until))
        }
        return next
    }
}

extension Policy.MultiClient {
    /// Whether a login ends the reachability of another device of the user.
    fileprivate func excludes(_ device: PushDevice, besides session: OwnedSession) -> Bool {
        switch self {
        case .single: true
        case .perPlatform: device.platform == session.platform
        case .all: false
        }
    }
}

extension OwnedSession {
    fileprivate func isOf(_ device: PushDevice) -> Bool { platform == device.platform && deviceID == device.deviceID }
}
