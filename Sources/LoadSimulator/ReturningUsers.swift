/// The users that a node has refused, by the hundredth of a second in which they return.
///
/// A timer for each of some 100,000 refused users would leave no time for anything else.
struct ReturningUsers {
    private var users: [Int: [Int]] = [:]
    private var next = 0

    /// Adds a user that returns at `seconds`.
    mutating func add(_ user: Int, at seconds: Double) { users[max(Int(seconds * 100), next), default: []].append(user) }

    /// Removes and returns the users whose time has come, in the order of their times.
    mutating func take(upTo seconds: Double) -> [Int] {
        var taken: [Int] = []
        while next <= Int(seconds * 100) {
            if let due = users.removeValue(forKey: next) { taken += due }
            next += 1
        }
        return taken
    }
}
