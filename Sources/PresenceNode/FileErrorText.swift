import Foundation

/// The reason why a file could not be used, in words for a person at a terminal.
public enum FileErrorText {
    /// The path and the reason, as in "/data: cannot be used: Permission denied".
    ///
    /// - Parameter path: the file, if the error names none.
    public static func text(_ error: CocoaError, path: String? = nil) -> String {
        let named = error.userInfo[NSFilePathErrorKey] as? String ?? path
        return (named.map { "\($0): " } ?? "") + problem(error, "cannot be used")
    }

    /// The reason without the path, as in "cannot be created: Not a directory" and "is a directory".
    ///
    /// - Parameter failure: what failed, as in "cannot be created".
    public static func problem(_ error: any Error, _ failure: String) -> String {
        switch (error as? CocoaError)?.code {
        case CocoaError.Code.fileReadCorruptFile?, CocoaError.Code.fileReadInapplicableStringEncoding?: return "is not UTF-8"
        default: break
        }
        guard let number = systemError(error) else { return failure }
        return number == EISDIR ? "is a directory" : "\(failure): \(String(cString: strerror(number)))"
    }

    /// The number of the system's error; nil if Foundation does not tell it.
    public static func systemError(_ error: any Error) -> Int32? {
        let failure = error as NSError
        let cause = failure.userInfo[NSUnderlyingErrorKey] as? any Error
        let system = cause.map { $0 as NSError } ?? failure
        return system.domain == NSPOSIXErrorDomain ? Int32(system.code) : nil
    }
}
