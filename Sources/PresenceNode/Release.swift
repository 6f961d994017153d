/// The version of Rollcall. No other place in the repository states it as the present one.
public enum Release {
    /// Semantic version. `CHANGELOG.md` has a section for it.
    public static let version = "0.1.0"
}
