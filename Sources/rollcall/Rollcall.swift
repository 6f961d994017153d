@main
struct Rollcall { static func main() {} }
