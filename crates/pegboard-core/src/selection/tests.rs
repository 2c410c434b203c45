use super::*;
use crate::{Origin, RawTool};

/// A catalog of `server/name`, `server/name=upstream_name` where the name was made for models, and
/// `name@category` for tools of the host program. A `!` behind a server makes it a part of the host.
fn catalog(tools: &[&str]) -> Catalog {
    let raw = |text: &&str| {
        let (text, category) = text.split_once('@').map_or((*text, None), |(text, category)| (text, Some(category)));
        let (server, name) = text.split_once('/').map_or((None, text), |(server, name)| (Some(server), name));
        let (name, upstream_name) = name.split_once('=').map_or((name, None), |(name, other)| (name, Some(other)));
        let is_host = server.is_some_and(|server| server.ends_with('!'));
        RawTool {
            name: name.to_owned(),
            upstream_name: upstream_name.map(str::to_owned),
            server: server.map(|server| server.trim_end_matches('!').to_owned()),
            origin: if is_host { Origin::Host } else { Origin::Mcp },
            category: category.map(str::to_owned),
            ..RawTool::default()
        }
    };
    Catalog::from_tools(tools.iter().map(raw).collect()).0
}

const TOOLS: [&str; 7] = [
    "git-hub/CreateIssue",
    "git-hub/list_issues",
    "mail/send",
    "mail/mail_list=list",
    "chat/send_2=send",
    "clock@time",
    "ask@human_tools",
];

/// Checks which tools of [`TOOLS`] exist for the caller.
#[track_caller]
fn check(selection: &Selection, expected: &[&str]) {
    check_of(&TOOLS, selection, expected);
}

#[track_caller]
fn check_of(tools: &[&str], selection: &Selection, expected: &[&str]) {
    let catalog = catalog(tools);
    assert_eq!(catalog.len(), tools.len());
    let seen: Vec<&str> = catalog.iter().filter(|tool| selection.allows(tool)).map(|tool| tool.name()).collect();
    assert_eq!(seen, expected, "{selection:?}");
    assert_eq!(selection.count(&catalog), expected.len(), "{selection:?}");
    assert_eq!(selection.is_everything(), expected.len() == tools.len(), "{selection:?}");
}

fn all() -> Selection {
    Selection::everything()
}

#[test]
fn without_lists_everything_is_seen() {
    check(&all(), &["CreateIssue", "list_issues", "send", "mail_list", "send_2", "clock", "ask"]);
}

#[test]
fn allow_lists_are_a_union() {
    check(&all().allow_servers(["GitHub"]), &["CreateIssue", "list_issues", "ask"]);
    check(&all().allow_tools(["git_hub:*"]), &["CreateIssue", "list_issues", "ask"]);
    check(&all().allow_tools(["git-hub:create-issue"]), &["CreateIssue", "ask"]);
    check(&all().allow_tools(["create_issue", "send"]), &["CreateIssue", "send", "send_2", "ask"]);
    check(
        &all().allow_servers(["mail"]).allow_tools(["git-hub:list_issues", "clock"]),
        &["list_issues", "send", "mail_list", "clock", "ask"],
    );
    // A bare name is a tool's, and a server's only where something is denied.
    check(&all().allow_tools(["mail"]), &["ask"]);
}

#[test]
fn either_name_of_a_tool_counts() {
    check(&all().allow_tools(["mail:mail_list"]), &["mail_list", "ask"]);
    check(&all().allow_tools(["mail:list"]), &["mail_list", "ask"]);
    check(&all().allow_tools(["chat:send"]), &["send_2", "ask"]);
    check(&all().allow_tools(["send_2"]), &["send_2", "ask"]);
    check(&all().deny(["list"]), &["CreateIssue", "list_issues", "send", "send_2", "clock", "ask"]);
    check(&all().deny(["mail_list"]), &["CreateIssue", "list_issues", "send", "send_2", "clock", "ask"]);
}

#[test]
fn spellings_of_allow_and_deny_patterns() {
    let tools = ["git-hub/git-hub___CreateIssue=CreateIssue", "mail/mail___send=send", "chat/chat___send=send"];
    let catalog = catalog(&tools);
    let seen = |selection: &Selection| {
        let selection = selection.resolved_for(&catalog);
        catalog.iter().filter(|tool| selection.allows(tool)).map(|tool| tool.id().to_owned()).collect::<Vec<_>>()
    };
    let create = catalog.iter().next().expect("a tool").id();
    for pattern in [
        "git-hub___CreateIssue",
        "git-hub__CreateIssue",
        "git-hub/CreateIssue",
        "github:create_issue",
        "git_hub.create-issue",
        "mcp__github__create_issue",
        "CreateIssue",
        "createIssue",
    ] {
        assert_eq!(seen(&all().allow_tools([pattern])), [create], "{pattern}");
        assert_eq!(seen(&all().deny([pattern])).len(), 2, "{pattern}");
    }
    // A bare name that two servers have allows neither, and denies both.
    assert!(seen(&all().allow_tools(["send"])).is_empty());
    assert_eq!(seen(&all().deny(["send"])), [create]);
    assert_eq!(seen(&all().allow_tools(["send", "mail:send"])).len(), 1);
    let told = |pattern: &str| {
        let unmatched = all().allow_tools([pattern]).unmatched(&catalog);
        unmatched.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(told("send"), "`send` is ambiguous: mail___send, chat___send");
    assert_eq!(told("mail:sned"), "`mail:sned` matches no tool; nearest names: mail___send");
    assert_eq!(told("nothing_at_all"), "`nothing_at_all` matches no tool");
    assert_eq!(told("mail:*"), "");
    assert_eq!(told("mail__send"), "");
    // What narrows it is settled too.
    let narrowed = all().allow_tools(["send"]).narrowed_to(all().allow_servers(["mail"]));
    assert!(seen(&narrowed).is_empty());
}

#[test]
fn deny_wins() {
    check(&all().deny(["mail"]), &["CreateIssue", "list_issues", "send_2", "clock", "ask"]);
    check(&all().deny(["mail:*"]), &["CreateIssue", "list_issues", "send_2", "clock", "ask"]);
    check(&all().deny(["mail:send"]), &["CreateIssue", "list_issues", "mail_list", "send_2", "clock", "ask"]);
    check(&all().allow_servers(["mail"]).deny(["send"]), &["mail_list", "ask"]);
    check(&all().allow_servers(["mail"]).deny(["ask"]), &["send", "mail_list"]);
    check(&all().allow_servers(["mail"]).deny(["MAIL"]), &["ask"]);
    // `server:tool` denies that tool, and no server of the tool's name.
    check_of(&["send/a", "mail/send"], &all().deny(["mail:send"]), &["a"]);
}

#[test]
fn the_hosts_own_tools() {
    // By their category instead of a server.
    check(&all().allow_servers(["time"]), &["clock", "ask"]);
    check(&all().allow_tools(["time:clock"]), &["clock", "ask"]);
    check(&all().allow_servers(["mail"]).exempt(["CLOCK"]), &["send", "mail_list", "clock", "ask"]);
    check(&all().allow_servers(["mail"]).exempt(["clock"]).deny(["clock"]), &["send", "mail_list", "ask"]);
    // What a server says of its tools opens no doors.
    let tools = ["evil/clock", "evil/ask@human", "host!/mine@structured_output", "mail/send"];
    check_of(&tools, &all().allow_servers(["mail"]).exempt(["clock"]), &["mine", "send"]);
    check_of(&tools, &all().allow_servers(["human"]), &["mine"]);
}

#[test]
fn categories_that_steer_a_conversation_are_always_on() {
    let tools =
        catalog(&["a@human", "b@Human_Tools", "c@structured_output", "d@structuredOutputTools", "e@tools", "f"]);
    let on: Vec<&str> = tools.iter().filter(|tool| is_always_on(tool)).map(|tool| tool.name()).collect();
    assert_eq!(on, ["a", "b", "c", "d"]);
}

#[test]
fn a_narrowed_selection_shows_what_both_show() {
    let ours = all().allow_servers(["git-hub", "mail"]);
    check(&ours.narrowed_to(all()), &["CreateIssue", "list_issues", "send", "mail_list", "ask"]);
    check(&ours.narrowed_to(all().allow_servers(["mail", "chat"])), &["send", "mail_list", "ask"]);
    check(&all().narrowed_to(ours.clone()), &["CreateIssue", "list_issues", "send", "mail_list", "ask"]);
    check(&all().narrowed_to(all()), &["CreateIssue", "list_issues", "send", "mail_list", "send_2", "clock", "ask"]);
    // What narrows the inner one already goes on doing so, beside the new outer one.
    let inner = all().deny(["mail:send"]).narrowed_to(all().allow_tools(["mail:*", "clock"]));
    check(&inner, &["mail_list", "clock", "ask"]);
    check(&ours.narrowed_to(inner.clone()), &["mail_list", "ask"]);
    check(&all().deny(["clock"]).narrowed_to(inner), &["mail_list", "ask"]);
}

#[test]
fn a_server_is_seen_as_a_whole_or_not() {
    let check = |selection: &Selection, server: &str, expected: bool| {
        assert_eq!(selection.allows_server(server), expected, "{server}: {selection:?}");
    };
    check(&all(), "mail", true);
    check(&all().allow_servers(["Mail"]), "mail", true);
    check(&all().allow_servers(["mail"]), "chat", false);
    check(&all().allow_tools(["mail:*"]), "MAIL", true);
    check(&all().allow_tools(["mail:send"]), "mail", false);
    check(&all().deny(["mail"]), "mail", false);
    check(&all().deny(["mail"]), "chat", true);
    check(&all().allow_servers(["mail"]).deny(["mail"]), "mail", false);
    let ours = all().allow_servers(["mail"]);
    check(&ours.narrowed_to(all()), "mail", true);
    check(&ours.narrowed_to(all()), "chat", false);
    check(&ours.narrowed_to(all().allow_servers(["chat"])), "mail", false);
    check(&all().narrowed_to(ours), "mail", true);
}

#[test]
fn every_tool_of_a_server_is_seen_or_not() {
    let check_of = |tools: &[&str], selection: &Selection, server: &str, expected: bool| {
        let catalog = catalog(tools);
        let of_server = catalog.iter().filter(|tool| tool.server_name() == Some(server)).map(AsRef::as_ref);
        assert_eq!(selection.allows_all_of(server, of_server), expected, "{server}: {selection:?}");
    };
    let check = |selection: &Selection, server: &str, expected: bool| check_of(&TOOLS, selection, server, expected);
    check(&all(), "mail", true);
    check(&all().allow_servers(["mail"]), "mail", true);
    check(&all().allow_servers(["chat"]), "mail", false);
    check(&all().allow_tools(["mail:send", "mail:list"]), "mail", false);
    check(&all().deny(["mail:send"]), "mail", false);
    check(&all().deny(["mail:send"]), "chat", true);
    // Also a tool that the server does not offer at the moment.
    check(&all().deny(["mail:delete"]), "mail", false);
    check(&all().deny(["send"]), "mail", false);
    check(&all().deny(["list_issues"]), "mail", true);
    // Of a server whose tools are unknown, any tool may be the one.
    check_of(&["chat/send"], &all().deny(["list_issues"]), "mail", false);
    check_of(&["chat/send"], &all().deny(["chat:send"]), "mail", true);
    check_of(&["chat/send"], &all(), "mail", true);
    for narrowed in [all().deny(["mail:send"]).narrowed_to(all()), all().narrowed_to(all().deny(["send"]))] {
        check(&narrowed, "mail", false);
        check(&narrowed, "git-hub", true);
    }
}

/// Two tools whose names differ in nothing but their case, and one whose name was made for models.
const TWINS: [&str; 4] = ["a/search", "a/Search", "b/b_find=find", "b/b_Find=Find"];

#[test]
fn a_name_to_the_letter_means_one_of_several_like_it() {
    let check = |pattern: &str, expected: &[&str]| {
        let catalog = catalog(&TWINS);
        let selection = Selection::everything().allow_tools([pattern]).resolved_for(&catalog);
        let names: Vec<&str> = catalog.iter().filter(|tool| selection.allows(tool)).map(|tool| tool.name()).collect();
        assert_eq!(names, expected, "{pattern}");
    };
    check("search", &["search"]);
    check("Search", &["Search"]);
    check("a:Search", &["Search"]);
    check("a/Search", &["Search"]);
    check("b:Find", &["b_Find"]);
    check("b:b_find", &["b_find"]);
    check("SEARCH", &[]);
    check("a__search", &[]);
    check("c:search", &[]);
}

#[test]
fn an_allow_pattern_means_one_of_two_tools_that_exchange_their_names() {
    let tool = |shown: &str, own: &str| RawTool {
        name: format!("git___{shown}"),
        bare_name: Some(shown.into()),
        upstream_name: Some(own.into()),
        server: Some("git".into()),
        ..RawTool::default()
    };
    let (catalog, _) = Catalog::from_tools(vec![tool("drop", "list"), tool("list", "drop"), tool("b", "a")]);
    let seen = |pattern: &str| {
        let selection = Selection::everything().allow_tools([pattern]).resolved_for(&catalog);
        catalog.iter().filter(|tool| selection.allows(tool)).map(|tool| tool.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(seen("git:list"), Vec::<String>::new(), "it could mean either");
    assert_eq!(seen("git___list"), ["git___list"]);
    assert_eq!([seen("git:a"), seen("git:b")], [["git___b"], ["git___b"]]);
    let unmatched = Selection::everything().allow_tools(["git:list"]).unmatched(&catalog);
    assert_eq!(unmatched[0].to_string(), "`git:list` is ambiguous: git___drop, git___list");
    let denied = Selection::everything().deny(["git:list"]).resolved_for(&catalog);
    assert_eq!(denied.count(&catalog), 1, "a deny pattern hides both");
}
