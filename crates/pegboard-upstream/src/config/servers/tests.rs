use std::fmt::Write;

use pegboard_config::{document::Document, keys::Kind};
use pegboard_core::{Annotations, Secret};
use proptest::prelude::*;

use super::*;
use crate::config::{AlwaysLoad, OAuthConfig, Timeouts, ToolOverride, TransportConfig};

fn env(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("t0p".to_owned()),
        "EMPTY" => Some(String::new()),
        "HOME" => Some("/home/ada".to_owned()),
        "workspaceFolder" => Some("/srv/app".to_owned()),
        _ => None,
    }
}

fn read(text: &str) -> (Vec<ServerConfig>, Problems) {
    let mut problems = Problems::new();
    let Some(document) = Document::parse(text, &mut problems) else { return (Vec::new(), problems) };
    let servers = read_servers(&document.root(), &env, &mut problems);
    (servers, problems)
}

/// What is understood of a server, on one line, or the mistakes.
#[track_caller]
fn check(server: &str, expected: &str) {
    let (servers, problems) = read(&format!("{{\"mcpServers\": {{\"s\": {server}}}}}"));
    let found = match servers.first() {
        Some(server) if problems.is_empty() => show(server),
        _ => problems.lines().join("; ").replace("line 1: ", "").replace("mcpServers.s", "s"),
    };
    assert_eq!(found, expected, "{server}");
}

fn show(server: &ServerConfig) -> String {
    let mut text = String::new();
    let secrets = |secrets: &[(String, Secret)]| -> String {
        secrets.iter().map(|(name, value)| format!(" {name}={}", value.expose())).collect()
    };
    let _ = match &server.transport {
        TransportConfig::Stdio { command, args, env, cwd } => {
            let cwd = cwd.as_ref().map(|cwd| format!(" in {}", cwd.display())).unwrap_or_default();
            write!(text, "{command} {args:?}{}{cwd}", secrets(env))
        }
        TransportConfig::Http { url, headers, kind } => write!(text, "{kind:?} {url}{}", secrets(headers)),
        TransportConfig::Local(_) => write!(text, "local"),
    };
    if server.timeouts != Timeouts::default() {
        let Timeouts { connect, call, idle } = server.timeouts;
        let _ = write!(text, " {connect:?}/{call:?}/{idle:?}");
    }
    let era = server.era.map(|era| format!(" {era:?}")).unwrap_or_default();
    let state = if server.is_enabled { "" } else { " off" };
    let lazy = if server.is_lazy() { " lazy" } else { "" };
    let breaker =
        server.breaker.map(|breaker| format!(" {} in {:?}, {:?}", breaker.failures, breaker.window, breaker.pause));
    let OAuthConfig { client_id, client_secret, scopes, callback_port, .. } = &server.oauth;
    if server.oauth != OAuthConfig::default() {
        let secret = client_secret.as_ref().map(Secret::expose);
        let _ = write!(text, " oauth {client_id:?} {secret:?} {scopes:?} {callback_port:?}");
    }
    text + &era + state + lazy + &breaker.unwrap_or_default()
}

#[test]
fn connections_of_clients_are_bounded_in_number_and_time() {
    let connections = |settings: &str| {
        let (servers, problems) = read(&format!(r#"{{"mcpServers": {{"s": {{"command": "x", {settings}}}}}}}"#));
        assert!(problems.is_empty(), "{settings}: {:?}", problems.lines());
        (servers[0].connections, servers[0].connection_idle_limit().as_secs())
    };
    let (defaults, idle) = connections(r#""args": []"#);
    assert_eq!((defaults.mode.as_str(), defaults.max, idle), ("auto", 32, 600));
    let own = r#""pegboard": {"connections": "own", "maxConnections": 2, "connectionIdleTimeout": 0}"#;
    let (own, idle) = connections(own);
    assert_eq!((own.mode.as_str(), own.max, idle), ("own", 2, 0));
    assert_eq!(connections(r#""idleTimeout": 30"#).1, 30);
    assert_eq!(connections(r#""lazy": true, "pegboard": {"connectionIdleTimeout": 20}"#).1, 20);
    check(
        r#"{"command": "x", "pegboard": {"connections": "any"}}"#,
        "`s.pegboard.connections` must be `auto`, `shared` or `own`",
    );
}

#[test]
fn variables_to_inherit() {
    let check = |setting: &str, expected: &str| {
        let text = format!("{{\"mcpServers\": {{\"s\": {{\"command\": \"x\", \"pegboard\": {setting}}}}}}}");
        let (servers, problems) = read(&text);
        let found = match problems.is_empty() {
            true => format!("{:?}", servers[0].inherit_env),
            false => problems.lines().join("; ").replace("line 1: `mcpServers.s.pegboard", "`s"),
        };
        assert_eq!(found, expected, "{setting}");
    };
    check("{}", "None");
    check(r#"{"inheritEnv": true}"#, "Some(All)");
    check(r#"{"inheritEnv": false}"#, "Some(Matching([]))");
    check(r#"{"inheritEnv": ["A", "B_*"]}"#, "Some(Matching([\"A\", \"B_*\"]))");
    check(r#"{"inheritEnv": "A"}"#, "`s.inheritEnv` must be true or false or a list of strings");
    let name = "must be a variable name of at most 256 characters, in which `*` matches any text";
    check(r#"{"inheritEnv": ["A=b", 3]}"#, &format!("`s.inheritEnv[0]` {name}; `s.inheritEnv[1]` {name}"));
    check(r#"{"inheritEnvs": []}"#, "`s.inheritEnvs` is not known (did you mean `inheritEnv`?)");
    check("3", "`s` must be an object");
    let (_, problems) = read(r#"{"mcpServers": {"s": {"url": "http://x", "pegboard": {"inheritEnv": []}}}}"#);
    let lines = problems.lines();
    assert!(lines.len() == 1 && lines[0].contains("a remote server has no environment"), "{lines:?}");
    check(
        r#"{"allowPrivateIssuers": true}"#,
        "`s.allowPrivateIssuers` is for remote servers; a program needs no login",
    );
    let (servers, problems) =
        read(r#"{"mcpServers": {"s": {"url": "http://x", "pegboard": {"allowPrivateIssuers": true}}}}"#);
    assert_eq!((servers[0].oauth.allow_private_issuers, problems.len()), (Some(true), 0));
}

#[test]
fn variables_of_tokens_are_reserved() {
    let tokens = r#"[{"token": "${A}"}, {"token": "${env:B:-x}-${C}"}, {"token": "plain $${D}"}, 3]"#;
    let text = format!("{{\"mcpServers\": {{\"s\": {{\"command\": \"x\"}}}}, \"pegboard\": {{\"tokens\": {tokens}}}}}");
    let (servers, _) = read(&text);
    let found: Vec<&str> =
        ["A", "B", "C", "D", "PEGBOARD_TOKEN"].into_iter().filter(|name| servers[0].reserved.contains(name)).collect();
    assert_eq!(found, ["A", "B", "C", "PEGBOARD_TOKEN"]);
}

#[test]
fn how_long_a_server_stays() {
    let check = |server: &str, expected: Option<u64>| {
        let (servers, _) = read(&format!("{{\"mcpServers\": {{\"s\": {server}}}}}"));
        let limit = servers.first().and_then(ServerConfig::idle_limit);
        assert_eq!(limit.map(|limit| limit.as_secs()), expected, "{server}");
    };
    check(r#"{"command": "x"}"#, None);
    check(r#"{"command": "x", "idleTimeout": 7}"#, Some(7));
    check(r#"{"command": "x", "lazy": true}"#, Some(300));
    check(r#"{"command": "x", "lazy": true, "idleTimeout": 7}"#, Some(7));
    check(r#"{"command": "x", "lazy": true, "idleTimeout": 0}"#, None);
}

#[test]
fn programs() {
    check(r#"{"command": "npx"}"#, "npx []");
    check(
        r#"{"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"A": "1", "B": 2, "C": true, "D": null}}"#,
        r#"npx ["-y", "x"] A=1 B=2 C=true"#,
    );
    check(r#"{"command": "x", "cwd": "sub", "args": null}"#, "x [] in /srv/app/sub");
    check(r#"{"command": "x", "cwd": "/abs"}"#, "x [] in /abs");
    check(
        r#"{"command": "${userHome}/x", "args": ["${TOKEN}", "${NONE:-n}"], "env": {"A": "${env:TOKEN}"}}"#,
        r#"/home/ada/x ["t0p", "n"] A=t0p"#,
    );
}

#[test]
fn remote_servers() {
    check(r#"{"url": "https://a.example/mcp"}"#, "Auto https://a.example/mcp");
    check(r#"{"serverUrl": "http://a"}"#, "Auto http://a");
    check(r#"{"httpUrl": "http://a"}"#, "Streamable http://a");
    check(r#"{"url": "http://a", "type": "http"}"#, "Auto http://a");
    check(r#"{"url": "http://a", "type": "sse"}"#, "Sse http://a");
    check(r#"{"url": "http://a", "type": "streamable-http"}"#, "Streamable http://a");
    check(r#"{"url": "http://a", "transport": "streamableHttp"}"#, "Streamable http://a");
    check(r#"{"url": "HTTPS://${TOKEN}.x/"}"#, "Auto HTTPS://t0p.x/");
    check(r#"{"url": "http://a", "headers": {"X-Key": "${TOKEN}"}}"#, "Auto http://a X-Key=t0p");
}

#[test]
fn tokens_are_sent_as_bearer_once() {
    let token = |value: &str, expected: &str| {
        let server = format!("{{\"url\": \"http://a\", \"authorizationToken\": \"{value}\"}}");
        check(&server, &format!("Auto http://a Authorization={expected}"));
    };
    token("abc", "Bearer abc");
    token("Bearer abc", "Bearer abc");
    token("bearer abc", "bearer abc");
    token("${TOKEN}", "Bearer t0p");
    check(r#"{"url": "http://a", "bearerToken": "x"}"#, "Auto http://a Authorization=Bearer x");
    let with_header = r#"{"url": "http://a", "bearerToken": "x", "headers": {"authorization": "y"}}"#;
    check(with_header, "`s` has a token, and an `Authorization` header as well (keep one of them)");
}

#[test]
fn logins() {
    let oauth = |value: &str, expected: &str| {
        check(&format!("{{\"url\": \"http://a\", \"oauth\": {value}}}"), expected);
    };
    oauth("{}", "Auto http://a");
    oauth("false", "Auto http://a");
    oauth("null", "Auto http://a");
    oauth(
        r#"{"clientId": "me", "clientSecret": "${TOKEN}", "scopes": ["a", "b c"], "callbackPort": 8081, "enabled": true}"#,
        r#"Auto http://a oauth Some("me") Some("t0p") ["a", "b", "c"] Some(8081)"#,
    );
    oauth(r#"{"scopes": "a b"}"#, r#"Auto http://a oauth None None ["a", "b"] None"#);
    oauth(
        r#"{"clientSecret": "x"}"#,
        "`s.oauth` has a `clientSecret`, but no `clientId` (add the `clientId` of the registered client)",
    );
    oauth(r#"{"callbackPort": 70000}"#, "`s.oauth.callbackPort` must be a port, 1 to 65535");
    oauth("7", "`s.oauth` must be true or false or an object");
}

#[test]
fn settings_of_ours() {
    check(r#"{"command": "x", "disabled": true}"#, "x [] off");
    check(r#"{"command": "x", "enabled": false, "disabled": true}"#, "x [] off");
    check(r#"{"command": "x", "timeout": 30}"#, "x [] 60s/30s/None");
    check(r#"{"command": "x", "timeout": 30000}"#, "x [] 60s/30s/None");
    check(r#"{"command": "x", "connectTimeout": "2m", "idleTimeout": 1800}"#, "x [] 120s/300s/Some(1800s)");
    check(r#"{"command": "x", "idleTimeout": 0, "protocol": "auto"}"#, "x [] 60s/300s/Some(0ns)");
    check(r#"{"command": "x", "lazy": true}"#, "x [] lazy");
    check(r#"{"command": "x", "lazy": false}"#, "x []");
    check(r#"{"command": "x", "circuitBreaker": {"failures": 2}}"#, "x [] 2 in 60s, 30s");
    check(r#"{"command": "x", "circuitBreaker": {"pause": "1m", "window": 5}}"#, "x [] 5 in 5s, 60s");
    check(
        r#"{"command": "x", "circuitBreaker": {"pause": 0}}"#,
        "`s.circuitBreaker.pause` must be a number of \
           seconds above 0, or a string such as `30s` or `5m`",
    );
    check(r#"{"command": "x", "protocol": "modern"}"#, "x [] Modern");
    check(r#"{"url": "http://a", "protocol": "legacy", "autoApprove": ["*"], "trust": true}"#, "Auto http://a Legacy");
}

#[test]
fn mistakes() {
    check("[]", "`s` must be an object");
    check("{}", "`s` needs `command`, `url`, `serverUrl` or `httpUrl`");
    check(
        r#"{"comand": "x"}"#,
        "`s.comand` is not known (did you mean `command`?); `s` needs `command`, `url`, `serverUrl` or `httpUrl`",
    );
    check(
        r#"{"command": " ", "args": "-y"}"#,
        "`s.command` must be a non-empty string; `s.args` must be a list of strings",
    );
    check(r#"{"command": "x", "args": ["a", 1]}"#, "`s.args[1]` must be a string");
    check(
        r#"{"command": "x", "url": "http://a"}"#,
        "`s` has both a program and an address (split it into two servers, or remove one of them)",
    );
    check(r#"{"command": "x", "type": "sse"}"#, "`s` has a program, but the type of a remote server");
    check(r#"{"url": "http://a", "type": "stdio"}"#, "`s` has an address, but the type of a program");
    check(
        r#"{"url": "http://a", "type": "htpp"}"#,
        "`s.type` must be `stdio`, `http`, `streamable-http`, `streamableHttp` or `sse` (did you mean `http`?)",
    );
    check(
        r#"{"command": "x", "disabled": true, "enabled": true}"#,
        "`s.enabled` contradicts another key of the server (keep one of them)",
    );
    check(
        r#"{"command": "x", "bearerToken": "secret"}"#,
        "`s.bearerToken` is for remote servers; a program has no headers (pass credentials in `env`)",
    );
    let url = "`s.url` must be a URL that begins with `http://` or `https://`";
    for wrong in ["ws://a", "https://", "https:///x", "a b", ""] {
        check(&format!("{{\"url\": \"{wrong}\"}}"), url);
    }
    check(
        r#"{"url": "http://a", "headers": {"X Key": "secret"}}"#,
        r#"`s.headers["X Key"]` is not a valid header name"#,
    );
    check(
        r#"{"url": "http://a", "headers": {"X": "secret\r\nY: 1"}}"#,
        "`s.headers.X` has a character that is not allowed in a header value",
    );
    check(
        r#"{"url": "http://a", "authorizationToken": "${EMPTY}"}"#,
        "`s.authorizationToken` must be a token without line breaks (the variable may be empty)",
    );
    check(r#"{"command": "x", "timeout": -5}"#, &format!("`s.timeout` must be {}", Kind::Timeout.describe()));
}

#[test]
fn variables_matter_only_to_servers_that_are_used() {
    let unset = "needs the environment variable `NONE`, which is not set (set it, or write `${NONE:-default}`)";
    check(r#"{"url": "${NONE}/mcp"}"#, &format!("`s.url` {unset}"));
    check(r#"{"command": "x", "env": {"A": "${NONE}"}}"#, &format!("`s.env.A` {unset}"));
    check(r#"{"command": "x", "env": {"A": "${NONE}"}, "disabled": true}"#, "x [] A= off");
    check(r#"{"command": "x", "disabled": true, "args": ["${input:key}"], "envFile": "/none"}"#, "x [\"\"] off");
}

#[test]
fn files_with_variables() {
    let folder = std::env::temp_dir().join(format!("pegboard-env-file-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("vars.env");
    std::fs::write(&file, "A=file\nB=file\n").expect("a file");
    let server = serde_json::json!({"command": "x", "envFile": &file, "env": {"B": "own"}});
    check(&server.to_string(), "x [] A=file B=own");
    std::fs::remove_dir_all(&folder).expect("a folder");
    check(&server.to_string(), "`s.envFile` names a file that cannot be read: entity not found");
}

#[test]
fn every_place_and_the_order_of_the_file() {
    let text = r#"{
        "mcpServers": {"zeta": {"command": "z"}, "alpha": {"command": "a"}},
        "servers": {"beta": {"type": "http", "url": "http://b"}, "zeta": {"command": "again"}},
        "mcp": {"inputs": [], "servers": {"gamma": {"command": "g"}, "": {"command": "g"}}},
    }"#;
    let (servers, problems) = read(text);
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["zeta", "alpha", "beta", "gamma"]);
    assert_eq!(
        problems.lines(),
        ["line 3: `servers.zeta` is a duplicate server name", "line 4: `mcp.servers[\"\"]` has an empty server name"]
    );
    assert_eq!(read("{\"mcpServers\": []}").1.lines(), ["line 1: `mcpServers` must be an object"]);
}

#[test]
fn values_are_in_no_message() {
    let secret = "s3cr3t";
    for doc in shape().keys {
        for value in [format!("\"{secret}\""), format!("[\"{secret}\", 1]"), format!("{{\"a b\": \"{secret}\\n\"}}")] {
            let (_, problems) = read(&format!("{{\"mcpServers\": {{\"s\": {{\"{}\": {value}}}}}}}", doc.name));
            assert!(!problems.lines().join("\n").contains(secret), "{}: {:?}", doc.name, problems.lines());
        }
    }
}

proptest! {
    #[test]
    fn any_entry_is_a_server_or_a_problem(
        entries in prop::collection::vec((0..40_usize, 0..12_usize), 0..6),
    ) {
        const VALUES: [&str; 12] = [
            "null", "true", "-1", "1e400", "\"\"", "\"${A}\"", "\"http://a\"", "[]", "[\"a\", 1]", "{}",
            "{\"a\": \"b\"}", "\"stdio\"",
        ];
        let keys = shape().keys;
        let pairs: Vec<String> = entries
            .into_iter()
            .map(|(key, value)| format!("\"{}\": {}", keys[key % keys.len()].name, VALUES[value]))
            .collect();
        let (servers, problems) = read(&format!("{{\"servers\": {{\"s\": {{{}}}}}}}", pairs.join(", ")));
        prop_assert!(servers.len() == 1 || !problems.is_empty());
    }
}

#[test]
fn settings_of_single_tools() {
    let with =
        |settings: &str| read(&format!(r#"{{"mcpServers": {{"s": {{"command": "x", "pegboard": {settings}}}}}}}"#));
    let check = |settings: &str, expected: &str| {
        let (_, problems) = with(settings);
        let found = problems.lines().join("; ").replace("line 1: ", "").replace("mcpServers.s.pegboard", "s");
        assert_eq!(found, expected, "{settings}");
    };
    let name = "must be a name of 1 to 128 letters, digits, `_`, `-`, `.` or `/`";
    check(r#"{"tools": {"a": {"name": "b c"}}}"#, &format!("`s.tools.a.name` {name}"));
    check(
        r#"{"tools": {"a": {"name": "x"}, "b": {"name": "x"}}}"#,
        "`s.tools.b` has the name `x`, which `a` has too (choose another `name` for one of them)",
    );
    check(r#"{"summary": "two\nlines"}"#, "`s.summary` must be a line of 1 to 120 characters");
    check(
        r#"{"tools": {"a": {"annotations": {"readOnly": true}}}}"#,
        "`s.tools.a.annotations.readOnly` is not known (did you mean `readOnlyHint`?)",
    );
    let (servers, problems) = with(
        r#"{"tools": {"a": {"name": "b", "title": "B", "description": "", "hidden": true, "alwaysShow": false,
            "annotations": {"idempotentHint": true, "openWorldHint": false}}, "c": {"promptInstructions": "now"}},
            "summary": "notes", "trustAlwaysLoad": true, "alwaysLoadTokens": 7}"#,
    );
    assert!(problems.is_empty(), "{:?}", problems.lines());
    let server = &servers[0];
    let annotations = Annotations { idempotent: Some(true), open_world: Some(false), ..Annotations::default() };
    let expected = ToolOverride {
        name: Some("b".to_owned()),
        title: Some("B".to_owned()),
        description: Some(String::new()),
        annotations,
        is_hidden: true,
        always_show: Some(false),
    };
    assert_eq!(server.overrides, [("a".to_owned(), expected)].into());
    assert_eq!(server.prompt_instructions.of("c"), Some("now"));
    assert_eq!(server.summary.as_deref(), Some("notes"));
    assert_eq!(server.always_load, AlwaysLoad { is_trusted: true, max_tokens: 7 });
}
