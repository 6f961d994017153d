/// An event about the relationship chain, as a node sends it.
enum RelationshipNews: Equatable {
    /// The sequences of a list before and after a change.
    struct Step: Equatable {
        let from: String
        let to: String
    }

    case friendsAdded([Friend], Step)
    case friendsChanged([Friend], Step)
    case friendsDeleted([String], Step)
    case requestsAdded([FriendRequest], Step, unreadCount: Int)
    case requestsDeleted([String], FriendRequest.Kind, Step, unreadCount: Int)
    case requestsRead(upTo: Int64, unreadCount: Int)
    case blocked([String], Step)
    case unblocked([String], Step)
    case groups([FriendGroup], sequence: String)
    case profile(userID: String)
    case state(Sequences, unreadCount: Int)

    /// The newest sequences of all lists.
    struct Sequences: Equatable {
        let friends: String
        let requests: String
        let groups: String
        let blocked: String

        subscript(list: RelationshipMirror.List) -> String {
            switch list {
            case .friends: friends
            case .requests: requests
            case .groups: groups
            case .blocked: blocked
            }
        }
    }

    /// Reads an event; nil for another kind. Throws if the content does not match the name.
    init?(_ event: EventStreamParser.Event) throws {
        switch event.name {
        case "onFriendListAdded":
            let content = try JSON.decode(Friends.self, from: event.data)
            self = .friendsAdded(content.friendList, content.step)
        case "onFriendInfoChanged":
            let content = try JSON.decode(Friends.self, from: event.data)
            self = .friendsChanged(content.friendList, content.step)
        case "onFriendListDeleted":
            let content = try JSON.decode(Users.self, from: event.data)
            self = .friendsDeleted(content.userIDs, content.step)
        case "onFriendApplicationListAdded":
            let content = try JSON.decode(Requests.self, from: event.data)
            self = .requestsAdded(content.pendencyList, content.step, unreadCount: content.unreadCnt)
        case "onFriendApplicationListDeleted":
            let content = try JSON.decode(EndedRequests.self, from: event.data)
            self = .requestsDeleted(content.userIDs, content.type, content.step, unreadCount: content.unreadCnt)
        case "onFriendApplicationListRead":
            let content = try JSON.decode(Read.self, from: event.data)
            self = .requestsRead(upTo: content.timestamp, unreadCount: content.unreadCnt)
        case "onBlackListAdded":
            let content = try JSON.decode(Users.self, from: event.data)
            self = .blocked(content.userIDs, content.step)
        case "onBlackListDeleted":
            let content = try JSON.decode(Users.self, from: event.data)
            self = .unblocked(content.userIDs, content.step)
        case "onFriendGroupsChanged":
            let content = try JSON.decode(Groups.self, from: event.data)
            self = .groups(content.groupList, sequence: content.seq)
        case "onUserProfileChanged": self = .profile(userID: try JSON.decode(Profile.self, from: event.data).userID)
        case "onRelationshipState":
            let content = try JSON.decode(State.self, from: event.data)
            let newest = Sequences(
                friends: content.friendSeq, requests: content.pendencySeq, groups: content.groupsVersion, blocked: content.blockVersion)
            self = .state(newest, unreadCount: content.unreadCnt)
        default: return nil
        }
    }

    /// The change that listeners are told; nil for the mere state of the lists.
    var change: RelationshipChange? {
        switch self {
        case .friendsAdded(let friends, _): .friendsAdded(friends)
        case .friendsChanged(let friends, _): .friendsChanged(friends)
        case .friendsDeleted(let users, _): .friendsDeleted(users)
        case .requestsAdded(let requests, _, _): .requestsAdded(requests)
        case .requestsDeleted(let users, let kind, _, _): .requestsDeleted(users, kind)
        case .requestsRead(let time, _): .requestsRead(upTo: time)
        case .blocked(let users, _): .blocked(users)
        case .unblocked(let users, _): .unblocked(users)
        case .groups(let groups, _): .groupsChanged(groups)
        case .profile(let user): .profileChanged(user)
        case .state: nil
        }
    }

    private struct Friends: Decodable {
        let friendList: [Friend]
        let fromSeq: String
        let seq: String
        var step: Step { Step(from: fromSeq, to: seq) }
    }
    private struct Users: Decodable {
        let userIDs: [String]
        let fromSeq: String
        let seq: String
        var step: Step { Step(from: fromSeq, to: seq) }
    }
    private struct Requests: Decodable {
        let pendencyList: [FriendRequest]
        let fromSeq: String
        let seq: String
        let unreadCnt: Int
        var step: Step { Step(from: fromSeq, to: seq) }
    }
    private struct EndedRequests: Decodable {
        let userIDs: [String]
        let type: FriendRequest.Kind
        let fromSeq: String
        let seq: String
        let unreadCnt: Int
        var step: Step { Step(from: fromSeq, to: seq) }
    }
    private struct Read: Decodable {
        let timestamp: Int64
        let unreadCnt: Int
    }
    private struct Groups: Decodable {
        let groupList: [FriendGroup]
        let seq: String
    }
    private struct Profile: Decodable { let userID: String }
    private struct State: Decodable {
        let friendSeq: String
        let pendencySeq: String
        let groupsVersion: String
        let blockVersion: String
        let unreadCnt: Int
    }
}
