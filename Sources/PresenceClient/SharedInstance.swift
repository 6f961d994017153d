import Synchronization

/// The instance of a façade that an app configures once and finds everywhere.
package final class SharedInstance<Instance: Sendable>: Sendable {
    private let instance = Mutex<Instance?>(nil)

    package init() {}

    /// The instance; nil before it is set.
    package var current: Instance? { instance.withLock { $0 } }

    /// Replaces the instance. An earlier one goes on for those who hold it.
    package func set(_ new: Instance) { instance.withLock { $0 = new } }
}
