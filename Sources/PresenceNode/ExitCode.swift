/// The exit codes of the command, after `sysexits.h`.
public enum ExitCode {
    /// EX_USAGE: a bad setting or flag.
    public static let usage: Int32 = 64
    /// EX_UNAVAILABLE: a port is taken, a target cannot be reached, the cluster refuses the node.
    public static let unavailable: Int32 = 69
    /// EX_IOERR: the data directory is damaged, in use, or of another kind.
    public static let inputOutput: Int32 = 74
}
