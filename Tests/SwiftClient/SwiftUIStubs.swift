// The part of SwiftUI that Clients/swift/Examples uses, without a body: Linux has no SwiftUI. The declarations are those of Apple's
// documentation. `Tests/SwiftClient/run` checks the types of the examples against them.

public typealias CGFloat = Double

@MainActor @preconcurrency public protocol View {
    associatedtype Body: View
    @ViewBuilder @MainActor @preconcurrency var body: Body { get }
}

extension Never: View {
    public var body: Never { preconditionFailure("a stub has no body") }
}

@resultBuilder public struct ViewBuilder {
    public static func buildBlock() -> EmptyView { EmptyView() }
    public static func buildBlock<each Content: View>(_ content: repeat each Content) -> TupleView<(repeat each Content)> { TupleView() }
    public static func buildBlock<Content: View>(_ content: Content) -> Content { content }
    public static func buildIf<Content: View>(_ content: Content?) -> Content? { content }
    public static func buildEither<First: View, Second: View>(first: First) -> ConditionalView<First, Second> { ConditionalView() }
    public static func buildEither<First: View, Second: View>(second: Second) -> ConditionalView<First, Second> { ConditionalView() }
}

public protocol PrimitiveView: View where Body == Never {}

extension PrimitiveView {
    public var body: Never { preconditionFailure("a stub has no body") }
}

public struct EmptyView: PrimitiveView { nonisolated public init() {} }
public struct TupleView<Content>: PrimitiveView { nonisolated init() {} }
public struct ConditionalView<First: View, Second: View>: PrimitiveView { nonisolated init() {} }
public struct ModifiedView<Content: View>: PrimitiveView { init() {} }

extension Optional: View where Wrapped: View {
    public var body: Never { preconditionFailure("a stub has no body") }
}

public struct Text: PrimitiveView {
    @_disfavoredOverload public init<S: StringProtocol>(_ content: S) {}
    public init(_ key: String) {}
    public func font(_ font: Font?) -> Text { self }
}

public struct Font: Sendable { public static let caption = Font() }
public struct VStack<Content: View>: PrimitiveView { public init(@ViewBuilder content: () -> Content) {} }
public struct HStack<Content: View>: PrimitiveView { public init(@ViewBuilder content: () -> Content) {} }
public struct List<Content: View>: PrimitiveView {
    public init<Rows: RandomAccessCollection>(_ rows: Rows, @ViewBuilder rowContent: @escaping (Rows.Element) -> Content)
    where Rows.Element: Identifiable {}
}

public protocol ShapeStyle: Sendable {}
public struct Color: ShapeStyle {
    public static let green = Color()
    public static let gray = Color()
}
public struct HierarchicalShapeStyle: ShapeStyle {}
extension ShapeStyle where Self == HierarchicalShapeStyle {
    public static var secondary: HierarchicalShapeStyle { HierarchicalShapeStyle() }
}
public struct Circle: PrimitiveView {
    public init() {}
    public func fill<S: ShapeStyle>(_ content: S) -> some View { self }
}

extension View {
    public func frame(width: CGFloat? = nil, height: CGFloat? = nil) -> some View { ModifiedView<Self>() }
    public func foregroundStyle<S: ShapeStyle>(_ style: S) -> some View { ModifiedView<Self>() }
    public func opacity(_ opacity: Double) -> some View { ModifiedView<Self>() }
    public func task(@_inheritActorContext _ action: @escaping @Sendable () async -> Void) -> some View { ModifiedView<Self>() }
    public func onChange<V: Equatable>(
        of value: V, initial: Bool = false, _ action: @escaping (_ oldValue: V, _ newValue: V) -> Void
    ) -> some View { ModifiedView<Self>() }
}

public enum ScenePhase: Sendable { case background, inactive, active }
public struct EnvironmentValues { public var scenePhase: ScenePhase { .active } }
@propertyWrapper public struct Environment<Value> {
    private let path: KeyPath<EnvironmentValues, Value>
    public init(_ path: KeyPath<EnvironmentValues, Value>) { self.path = path }
    public var wrappedValue: Value { EnvironmentValues()[keyPath: path] }
}
@propertyWrapper public struct State<Value> {
    private let value: Value
    public init(wrappedValue value: Value) { self.value = value }
    public var wrappedValue: Value {
        get { value }
        nonmutating set {}
    }
}

extension State where Value: ExpressibleByNilLiteral { public init() { self.init(wrappedValue: nil) } }

@MainActor @preconcurrency public protocol Scene {}
public struct WindowGroup<Content: View>: Scene { public init(@ViewBuilder content: () -> Content) {} }
@MainActor @preconcurrency public protocol App {
    associatedtype Body: Scene
    @MainActor @preconcurrency var body: Body { get }
    init()
}

extension App {
    public static func main() {}
}
