/// The version of Rollcall. No other file states the current version.
public enum Release {
    /// Semantic version. `CHANGELOG.md` has a section for it.
    public static let version = "0.1.0"
}
