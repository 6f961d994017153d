import Testing

/// Expects that a condition holds. `#expect` itself cannot expand a call that changes a value, or a call of a value that is never copied.
func expect(_ condition: Bool, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(condition, comment, sourceLocation: sourceLocation)
}
