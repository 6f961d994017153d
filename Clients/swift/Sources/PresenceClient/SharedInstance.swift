/// The instance of a façade, which an app configures once and uses everywhere.
package final class SharedInstance<Instance: Sendable>: Sendable {
    private let instance = Locked<Instance?>(nil)

    package init() {}

    /// The instance; nil before it is set.
    package var current: Instance? { instance.withLock { $0 } }

    /// Replaces the instance. Holders of the earlier one keep it.
    package func set(_ new: Instance) { instance.withLock { $0 = new } }
}
