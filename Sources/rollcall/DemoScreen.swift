import Foundation
import LoadSimulator

/// Draws the frames of the demo on a terminal, each over the one before, below lines that stay.
struct DemoScreen {
    private let header: String
    private let isColored: Bool
    private var size: Terminal.Size?
    private var drawnCount = 0

    /// - Parameter header: the lines above the view, each with its line end.
    init(header: String) {
        self.header = header
        isColored = Terminal.isColored
    }

    /// Whether the terminal has another size than at the last frame.
    var isResized: Bool { size != Terminal.size }

    /// Draws a frame. Returns false if nobody reads the output any more.
    mutating func draw(_ state: DemoView.State) -> Bool {
        let present = Terminal.size
        var text = ""
        if size == nil {
            text = Self.hideCursor + header
        } else if size != present {
            // The lines of the last frame may be wrapped now, so that nothing is known of the cursor.
            text = "\u{1B}[H\u{1B}[2J" + header
        } else if drawnCount > 0 {
            text = "\u{1B}[\(drawnCount)A\r"
        }
        let lines = DemoView(columns: present.columns, rows: present.rows, isColored: isColored).lines(state)
        text += lines.map { "\u{1B}[K\($0)\n" }.joined() + "\u{1B}[J"
        (size, drawnCount) = (present, lines.count)
        return Terminal.offer(text)
    }

    /// Shows the cursor again.
    static func restore() { Terminal.offer("\u{1B}[0m\u{1B}[?25h") }

    private static let hideCursor = "\u{1B}[?25l"
}
