import CBuild

/// The version of Rollcall. No other file states the current version.
public enum Release {
    /// Semantic version. `CHANGELOG.md` has a section for it.
    public static let version = "0.1.0"
    /// The commit that this program was built from, with "-dirty" for a changed work tree; empty for a build without `make`.
    public static let commit = String(cString: rollcall_build_commit())
}
