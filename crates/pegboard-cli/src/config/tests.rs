use pegboard_discovery::policy::Middleware;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn env(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("t0p".to_owned()),
        "EMPTY" => Some(String::new()),
        WORKSPACE_FOLDER => Some("/work/app".to_owned()),
        _ => None,
    }
}

/// Checks what `show` returns for the configuration in `text`, or its mistakes.
#[track_caller]
fn check(text: &str, show: fn(&Config) -> String, expected: &str) {
    let (config, problems) = parse(text, &env);
    let found = if problems.is_empty() { show(&config) } else { problems.lines().join("; ") };
    assert_eq!(found.replace("line 1: ", ""), expected, "{text}");
}

#[test]
fn restrictions_of_other_clients_and_unknown_servers_count() {
    let text = r#"{
        "mcpServers": {
            "time": {"command": "x", "includeTools": ["now(zone)"], "excludeTools": ["later"]},
            "git": {"command": "y"}
        },
        "pegboard": {"selection": {"deny": ["gti:*", "git:push", "later"]}}
    }"#;
    let (config, problems) = parse(text, &|_| None);
    let lines = problems.lines();
    assert_eq!(
        lines,
        ["line 6: `pegboard.selection.deny[0]` names a server that is not configured (did you mean `git`?)"]
    );
    let (server, steps) = &config.gateway.policies.by_server[0];
    assert_eq!((server.as_str(), steps.len()), ("time", 2));
    let is_shown = |tool: &str| steps.iter().all(|step| step.shows(tool));
    assert_eq!(["now", "later", "other"].map(is_shown), [true, false, false]);
}

#[test]
fn a_dozen_mistakes_are_told_at_once() {
    let text = include_str!("tests/mistakes.jsonc");
    let (_, problems) = parse(text, &env);
    let lines = problems.lines().join("\n");
    assert!(!lines.contains("s3cr3t"));
    insta::assert_snapshot!(lines);
}

#[test]
fn an_embeddings_endpoint() {
    let show = |config: &Config| match &config.embeddings {
        Some(settings) => {
            assert!(!format!("{settings:?}").contains("t0p"));
            let key = settings.key.as_ref().map(|key| key.expose());
            let times = [settings.timeout, settings.query_timeout].map(|time| time.as_millis());
            format!(
                "{} {} {key:?} {:?} {times:?} {}",
                settings.url, settings.model, settings.dimensions, settings.query_prefix
            )
        }
        None => "none".to_owned(),
    };
    let with = |section: &str| format!(r#"{{"pegboard": {{"embeddings": {section}}}}}"#);
    check(&with(r#"{"url": "http://h/v1", "model": "m"}"#), show, "http://h/v1 m None None [60000, 2000] ");
    let all = r#"{"url": "http://h/v1", "model": "m", "key": "${TOKEN}", "dimensions": 256, "timeout": 5,
        "queryTimeout": "300ms", "connectTimeout": 1, "queryPrefix": "q: ", "documentPrefix": "d: "}"#;
    check(&with(all), show, "http://h/v1 m Some(\"t0p\") Some(256) [5000, 300] q: ");
    check("{}", show, "none");
    check(&with(r#"{"model": "m"}"#), show, "`pegboard.embeddings` needs `url`");
    let wrong = r#"{"url": "http://h/v1", "model": "m", "key": "a b"}"#;
    check(&with(wrong), show, "`pegboard.embeddings.key` must be a key of ASCII characters without spaces");
}

#[test]
fn comments_and_trailing_commas_are_fine() {
    let limit = |config: &Config| format!("{:?}", config.limit);
    check("{/* a */ \"pegboard\": {\"limit\": 3,}, // b\n}", limit, "Some(3)");
    check("{}", limit, "None");
    check("[]", limit, "the file must be an object");
}

#[test]
fn files_of_other_programs_are_fine() {
    let names =
        |config: &Config| config.servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>().join(" ");
    let file = r#"{"globalShortcut": "", "theme": 1, "mcpServers": {"b": {"command": "b"}, "a": {"url": "http://a"}}}"#;
    check(file, names, "b a");
    check(r#"{"servers": {"a": {"type": "http", "url": "http://a"}}, "inputs": []}"#, names, "a");
    check(r#"{"editor.fontSize": 12, "mcp": {"servers": {"a": {"command": "a"}}}}"#, names, "a");
    check(r#"{"mcpServer": {}}"#, names, "`mcpServer` is not known (did you mean `mcpServers`?)");
}

#[test]
fn a_named_dialect_applies_always() {
    let shown = |config: &Config| {
        let gateway = &config.gateway;
        format!("{:?} {:?}", gateway.profile, gateway.exposure).replace("Dialect", "")
    };
    let search = r#""middleware": [{"type": "tool_search"}]"#;
    check("{}", shown, "(Bridge) Auto { max_tools: 30, max_tokens: 10000 }");
    check(r#"{"pegboard": {"dialect": "select"}}"#, shown, "(Select) Always");
    check(r#"{"pegboard": {"dialect": "passthrough"}}"#, shown, "Passthrough Always");
    check(r#"{"pegboard": {"dialect": "ranked", "exposure": "never"}}"#, shown, "(Ranked) Never");
    check(&format!("{{{search}}}"), shown, "(Gateway) Always");
    check(&format!(r#"{{"pegboard": {{"dialect": "bridge"}}, {search}}}"#), shown, "(Bridge) Always");
    let by_size = r#""pegboard": {"exposure": {"maxTools": 5}}"#;
    check(&format!("{{{by_size}, {search}}}"), shown, "(Gateway) Auto { max_tools: 5, max_tokens: 10000 }");
    let off = r#"{"middleware": [{"type": "tool_search", "enabled": false, "config": {"maxToolsLimit": 1}}]}"#;
    check(off, shown, "(Bridge) Never");
    let off = r#"{"middleware": [{"type": "tool_search", "config": {"enabled": false}}]}"#;
    check(off, shown, "(Bridge) Never");
    let off = r#"{"pegboard": {"dialect": "select"}, "middleware": [{"type": "tool_search", "enabled": false}]}"#;
    check(off, shown, "(Select) Always");
}

#[test]
fn limits_of_callers_servers_and_lists() {
    let shown = |config: &Config| {
        let gateway = &config.gateway;
        let validation = &gateway.discovery.validation;
        let servers: Vec<_> = config.servers.iter().map(|server| server.limits).collect();
        format!(
            "{:?} {} {} {:?} {:?} {servers:?}",
            gateway.limits, gateway.page_size, gateway.max_sessions, validation.is_on, validation.servers
        )
    };
    check("{}", shown, "CallLimits { concurrent: 0, per_minute: 0 } 0 1000 Some(true) {} []");
    let section = r#""pegboard": {
        "limits": {"maxConcurrent": 3, "callsPerMinute": 2}, "pageSize": 40, "maxSessions": 5, "validateArguments": false
    }"#;
    let expected = "CallLimits { concurrent: 3, per_minute: 2 } 40 5 Some(false) {} []";
    check(&format!("{{{section}}}"), shown, expected);
    let server = r#"{"mcpServers": {"one": {
        "command": "x", "maxConcurrent": 1, "maxArgumentBytes": 1000, "maxResultBytes": 2000, "validateArguments": false
    }}}"#;
    let limits = "ServerLimits { concurrent: 1, argument_bytes: 1000, result_bytes: 2000 }";
    let expected =
        format!("CallLimits {{ concurrent: 0, per_minute: 0 }} 0 1000 Some(true) {{\"one\": false}} [{limits}]");
    check(server, shown, &expected);
}

#[test]
fn a_search_sets_the_options_of_its_dialect() {
    let options = |config: &Config| {
        let gateway = &config.gateway;
        let discovery = &gateway.discovery;
        let orders = &discovery.tool_selection_order;
        format!("{} {:?} {orders:?} {}", discovery.max_tools_limit, config.threshold, gateway.is_search_logged)
    };
    check("{}", options, "50 None [ServerPriority, Alphabetical] false");
    let search = r#""middleware": [{"type": "tool_search", "config":
        {"maxToolsLimit": 0, "searchThreshold": 0.5, "toolSelectionOrder": ["random"], "debug": true}}]"#;
    check(&format!("{{{search}}}"), options, "0 Some(0.5) [Random] true");
    let own = r#""pegboard": {"settings": {"maxToolsLimit": 7}}"#;
    check(&format!("{{{own}, {search}}}"), options, "7 Some(0.5) [Random] true");
}

#[test]
fn middleware_for_all_and_for_some() {
    let shown = |config: &Config| {
        let name = |step: &Middleware| match step {
            Middleware::ToolFilter { allow, deny } => format!("filter {} {}", allow.len(), deny.len()),
            Middleware::Logging { has_arguments, .. } => format!("log {has_arguments}"),
            Middleware::Security { rules, .. } => {
                rules.iter().map(|rule| format!("{}: {}", rule.name, rule.message)).collect::<Vec<_>>().join(", ")
            }
            Middleware::DescriptionEnricher { prefix, suffix } => format!("{prefix}|{suffix}"),
        };
        let list = |list: &[Middleware]| format!("[{}]", list.iter().map(name).collect::<Vec<_>>().join(", "));
        let own = config.gateway.policies.by_server.iter().map(|(server, steps)| format!(" {server} {}", list(steps)));
        list(&config.gateway.policies.general) + &own.collect::<String>()
    };
    let steps = |steps: &str, expected: &str| check(&format!("{{\"middleware\": {steps}}}"), shown, expected);
    steps(r#"[{"type": "logging"}, {"type": "logging", "enabled": false}]"#, "[log false]");
    steps(r#"[{"type": "tool_filter", "config": {"allow": "*_file", "disallow": ["a", "^b"]}}]"#, "[filter 1 2]");
    steps(r#"[{"type": "description_enricher"}]"#, "[| (via pegboard)]");
    steps(r#"[{"type": "description_enricher", "config": {"prefix": "> "}}]"#, "[> |]");
    let rules = r#"[{"pattern": "rm", "block_message": "no"}, {"name": "b", "pattern": "x"}]"#;
    steps(
        &format!(r#"[{{"type": "security", "config": {{"rules": {rules}}}}}]"#),
        "[rule 1: no, b: this call is not allowed (b)]",
    );
    let server = r#""mcpServers": {"a": {"command": "x", "middleware": [{"type": "logging"}]}, "b": {"command": "y"}}"#;
    check(&format!("{{{server}}}"), shown, "[] a [log false]");
    let groups = r#"{"default": [{"type": "logging"}], "servers": {"b": []}}"#;
    check(&format!("{{{server}, \"middleware\": {groups}}}"), shown, "[log false] b [] a [log false]");
    let again = r#"{"servers": {"a": []}}"#;
    let message = "`mcpServers.a.middleware` is a duplicate list for this server (keep one of them)";
    check(&format!("{{{server}, \"middleware\": {again}}}"), shown, message);
}

#[test]
fn tokens_are_secrets_that_can_be_sent() {
    let shown = |config: &Config| {
        let tokens = config.gateway.tokens.iter();
        tokens.map(|token| format!("{} {} ", token.name, token.secret.expose())).collect()
    };
    let tokens = |tokens: &str, expected: &str| {
        check(
            &format!("{{\"pegboard\": {{\"tokens\": {tokens}}}}}"),
            shown,
            &expected.replace('@', "`pegboard.tokens"),
        );
    };
    let long = r#"[{"name": "a", "token": "${TOKEN}-0123456789abc"}, {"name": "b", "token": "0123456789abcdef"}]"#;
    tokens(long, "a t0p-0123456789abc b 0123456789abcdef ");
    let sendable = "must be a token of at least 16 printable ASCII characters without spaces \
                    (`openssl rand -hex 32` makes one; if it is a variable, check its value)";
    tokens(r#"[{"name": "a", "token": "0123456789abcde"}]"#, &format!("@[0].token` {sendable}"));
    tokens(r#"[{"name": "a", "token": "${EMPTY}"}]"#, &format!("@[0].token` {sendable}"));
    tokens(r#"[{"name": "a", "token": "0123456789abcdef x"}]"#, &format!("@[0].token` {sendable}"));
    let again = "@[1]` has the same name or token as another entry";
    tokens(r#"[{"name": "a", "token": "0123456789abcdef"}, {"name": "b", "token": "0123456789abcdef"}]"#, again);
    tokens(r#"[{"token": "0123456789abcdef"}]"#, "@[0]` needs `name`");
}

#[test]
fn selections_clients_and_names() {
    let shown = |config: &Config| {
        let gateway = &config.gateway;
        format!(
            "{} {:?} {:?} {}",
            gateway.selection.is_everything(),
            gateway.clients,
            gateway.prefixes,
            gateway.names.separator
        )
    };
    let pegboard = |section: &str, expected: &str| check(&format!("{{\"pegboard\": {section}}}"), shown, expected);
    pegboard("{}", "true [] Auto ___");
    pegboard(
        r#"{"selection": {"servers": ["a"], "deny": ["a:b"]}, "prefix": "never", "separator": "__"}"#,
        "false [] Never __",
    );
    pegboard(r#"{"selection": {"servers": []}}"#, "`pegboard.selection.servers` must be a non-empty list of strings");
    pegboard(
        r#"{"clients": {"cursor*": "gateway"}}"#,
        "true [ClientProfile { client: \"cursor*\", profile: Dialect(Gateway) }] Auto ___",
    );
    pegboard(r#"{"separator": "::"}"#, "`pegboard.separator` must be one to eight letters, digits, `_` or `-`");
}

/// A file with every key of a section at its default changes nothing.
#[test]
fn defaults_are_what_they_are_said_to_be() {
    let shown =
        |config: &Config| format!("{:#?}", (&config.gateway, &config.listen, &config.catalogs, &config.telemetry));
    let defaults = |shape: &Shape| -> Value {
        let parse = |default: &str| serde_json::from_str::<Value>(default).expect("a default is JSON");
        shape.keys.iter().filter_map(|key| Some((key.name.to_owned(), parse(key.default?)))).collect()
    };
    let expected = shown(&Config::default());
    for place in places().into_iter().filter(|place| place.shape.name != "server") {
        // A step changes the configuration by being there, a dialect by being named.
        let is_step = place.shape.name == "step" || middleware::TYPE_NAMES.contains(&place.shape.name);
        let (config, problems) = parse(&place.file(defaults(&place.shape)).to_string(), &env);
        assert_eq!(problems.lines(), Vec::<String>::new(), "{}", place.shape.name);
        // Being there switches it on.
        if place.shape.name == "offload" {
            let (on, _) = parse(r#"{"pegboard": {"offload": true}}"#, &env);
            assert_eq!(shown(&config), shown(&on));
        } else if !is_step && !["token", "rule"].contains(&place.shape.name) {
            assert_eq!(shown(&config), expected, "{}", place.shape.name);
        }
    }
    let mut server = defaults(&servers::shape());
    server["command"] = json!("x");
    let (config, problems) = parse(&json!({"mcpServers": {"s": server}}).to_string(), &env);
    assert_eq!(problems.lines(), Vec::<String>::new());
    let plain = parse(r#"{"mcpServers": {"s": {"command": "x"}}}"#, &env).0;
    assert_eq!(format!("{:?}", config.servers), format!("{:?}", plain.servers));
}

/// A section, its required keys, and its place in the file.
struct SectionCase {
    shape: Shape,
    base: Value,
    wrap: fn(Value) -> Value,
}

impl SectionCase {
    /// Returns a file with the section, its required keys and `more`.
    fn file(&self, more: Value) -> Value {
        let mut section = self.base.clone();
        if let (Some(section), Value::Object(more)) = (section.as_object_mut(), more) {
            section.extend(more);
        }
        (self.wrap)(section)
    }
}

/// Returns all sections.
fn places() -> Vec<SectionCase> {
    let place = |shape, base, wrap: fn(Value) -> Value| SectionCase { shape, base, wrap };
    let child = |name: &str, parent: &Shape| -> Shape {
        let kind = parent.keys.iter().find(|key| key.name == name).expect("a key").kind;
        match kind {
            Kind::Object(shape)
            | Kind::List(&Kind::Object(shape))
            | Kind::Map(&Kind::Object(shape))
            | Kind::Either(&[_, Kind::Object(shape)]) => shape(),
            _ => panic!("`{name}` is not an object"),
        }
    };
    let pegboard = gateway::SECTION.shape();
    let step =
        |name: &str| -> Shape { (middleware::TYPES.iter().find(|step| step.name == name).expect("a type").shape)() };
    let security = step("security");
    let proxy = child("proxy", &pegboard);
    let http = http_server::shape();
    let stages = child("middleware", &http);
    vec![
        place(root_shape(), json!({}), |it| it),
        place(vscode_shape(), json!({}), |it| json!({"mcp": it})),
        place(servers::shape(), json!({"command": "x"}), |it| json!({"mcpServers": {"s": it}})),
        place(servers::shape(), json!({"url": "http://x"}), |it| json!({"servers": {"s": it}})),
        place(pegboard.clone(), json!({}), |it| json!({"pegboard": it})),
        place(child("exposure", &pegboard), json!({}), |it| json!({"pegboard": {"exposure": it}})),
        place(child("selection", &pegboard), json!({}), |it| json!({"pegboard": {"selection": it}})),
        place(child("settings", &pegboard), json!({}), |it| json!({"pegboard": {"settings": it}})),
        place(child("limits", &pegboard), json!({}), |it| json!({"pegboard": {"limits": it}})),
        place(child("offload", &pegboard), json!({}), |it| json!({"pegboard": {"offload": it}})),
        place(child("console", &pegboard), json!({}), |it| json!({"pegboard": {"console": it}})),
        place(
            child("activity", &child("console", &pegboard)),
            json!({}),
            |it| json!({"pegboard": {"console": {"activity": it}}}),
        ),
        place(
            child("prices", &child("console", &pegboard)),
            json!({}),
            |it| json!({"pegboard": {"console": {"prices": it}}}),
        ),
        place(child("usageLearning", &pegboard), json!({}), |it| json!({"pegboard": {"usageLearning": it}})),
        place(child("telemetry", &pegboard), json!({}), |it| json!({"pegboard": {"telemetry": it}})),
        place(
            child("embeddings", &pegboard),
            json!({"url": "http://x", "model": "m"}),
            |it| json!({"pegboard": {"embeddings": it}}),
        ),
        place(child("lint", &pegboard), json!({}), |it| json!({"pegboard": {"lint": it}})),
        place(child("circuitBreaker", &pegboard), json!({}), |it| json!({"pegboard": {"circuitBreaker": it}})),
        place(
            child("circuitBreaker", &servers::shape()),
            json!({}),
            |it| json!({"mcpServers": {"s": {"command": "x", "circuitBreaker": it}}}),
        ),
        place(
            child("oauth", &servers::shape()),
            json!({"clientId": "a"}),
            |it| json!({"mcpServers": {"s": {"url": "http://x", "oauth": it}}}),
        ),
        place(child("connections", &pegboard), json!({}), |it| json!({"pegboard": {"connections": it}})),
        place(
            child("pegboard", &servers::shape()),
            json!({}),
            |it| json!({"mcpServers": {"s": {"command": "x", "pegboard": it}}}),
        ),
        place(
            child("tools", &child("pegboard", &servers::shape())),
            json!({}),
            |it| json!({"mcpServers": {"s": {"command": "x", "pegboard": {"tools": {"t": it}}}}}),
        ),
        place(
            child("annotations", &child("tools", &child("pegboard", &servers::shape()))),
            json!({}),
            |it| json!({"mcpServers": {"s": {"command": "x", "pegboard": {"tools": {"t": {"annotations": it}}}}}}),
        ),
        place(
            child("tokens", &pegboard),
            json!({"name": "a", "token": "0123456789abcdef"}),
            |it| json!({"pegboard": {"tokens": [it]}}),
        ),
        place(proxy.clone(), json!({}), |it| json!({"pegboard": {"proxy": it}})),
        place(child("upstreams", &proxy), json!({}), |it| json!({"pegboard": {"proxy": {"upstreams": it}}})),
        place(
            child("tokens", &proxy),
            json!({"name": "a", "token": "0123456789abcdef"}),
            |it| json!({"pegboard": {"proxy": {"tokens": [it]}}}),
        ),
        place(child("rules", &proxy), json!({"mode": "pass"}), |it| json!({"pegboard": {"proxy": {"rules": [it]}}})),
        place(child("middleware", &root_shape()), json!({}), |it| json!({"middleware": it})),
        place(http, json!({}), |it| json!({"httpServer": it})),
        place(stages.clone(), json!({}), |it| json!({"httpServer": {"middleware": it}})),
        place(child("client", &stages), json!({}), |it| json!({"httpServer": {"middleware": {"client": it}}})),
        place(middleware::entry_shape(), json!({"type": "logging"}), |it| json!({"middleware": [it]})),
        place(step("tool_search"), json!({}), |it| json!({"middleware": [{"type": "tool_search", "config": it}]})),
        place(step("tool_filter"), json!({}), |it| json!({"middleware": [{"type": "tool_filter", "config": it}]})),
        place(step("logging"), json!({}), |it| json!({"middleware": [{"type": "logging", "config": it}]})),
        place(
            step("description_enricher"),
            json!({}),
            |it| json!({"middleware": {"default": [{"type": "description_enricher", "config": it}]}}),
        ),
        place(
            security.clone(),
            json!({"rules": []}),
            |it| json!({"mcpServers": {"s": {"command": "x", "middleware": [{"type": "security", "config": it}]}}}),
        ),
        place(
            child("rules", &security),
            json!({"pattern": "x"}),
            |it| json!({"middleware": [{"type": "security", "config": {"rules": [it]}}]}),
        ),
    ]
}

fn samples() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(0.5),
        json!(3),
        json!(3.0),
        json!(1e12),
        json!(""),
        json!(" "),
        json!("zz!"),
        json!("http://a"),
        json!("127.0.0.1:80"),
        json!("0s"),
        json!("1.5 h"),
        json!("5 weeks"),
        json!("bridge"),
        json!("auto"),
        json!("replace"),
        json!([]),
        json!([1]),
        json!(["a"]),
        json!(["random"]),
        json!({}),
        json!({"a": 1}),
        json!({"a": {}}),
        json!({"a": "b"}),
        json!({"a": "bridge"}),
        json!({"_note": 1}),
        json!([{"type": "logging"}]),
        json!([{"type": "tool_search"}]),
        json!([{"type": "other"}]),
        json!([{"type": "security"}]),
        json!([{"name": "a", "token": "0123456789abcdef"}]),
        json!({"a": {"command": "x"}}),
    ]
}

/// The reader and the schema agree about every key with every sample.
#[test]
fn the_schema_and_the_reader_agree() {
    let schema = schema();
    assert!(jsonschema::meta::is_valid(&schema), "the schema is a schema");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let mut differences = Vec::new();
    for place in places() {
        let unknown = KeyDoc::new("qqqqqqqq", Kind::Any, "Nobody knows it.");
        let is_open = ["configuration", "vscode"].contains(&place.shape.name);
        for key in place.shape.keys.iter().chain((!is_open).then_some(&unknown)) {
            let default = key.default.map(|default| serde_json::from_str(default).expect("a default is JSON"));
            let names = if let Kind::OneOf(names) = key.kind { names } else { &[] };
            let own = default.into_iter().chain(names.iter().map(|name| json!(name)));
            for value in samples().into_iter().chain(own) {
                let more: Value = [(key.name.to_owned(), value.clone())].into_iter().collect();
                let file = place.file(more);
                let (_, problems) = parse(&file.to_string(), &|_| Some("value".to_owned()));
                let by_reader = problems.is_empty();
                if validator.is_valid(&file) != by_reader && !is_between_keys(&problems) {
                    differences.push(format!("{file}: {:?}", problems.lines()));
                }
            }
        }
    }
    assert_eq!(differences, Vec::<String>::new());
}

/// Returns whether mistakes concern two keys together, or something outside the file; only the
/// reader sees those.
fn is_between_keys(problems: &Problems) -> bool {
    let alone = [
        "has both a program and an address",
        "but the type of a",
        "contradicts another key",
        "is for remote servers",
        "is for servers that are programs",
        "supplies a token in `pegboard.tokens`",
        "cannot be read",
        "is not a server of this file",
    ];
    let is_alone = |line: &String| alone.iter().any(|words| line.contains(words));
    !problems.is_empty() && problems.lines().iter().all(is_alone)
}

/// Every key of the reader is in the schema, and the reverse.
#[test]
fn the_schema_has_the_keys_of_the_reader() {
    let schema = schema();
    for place in places() {
        let name = place.shape.name;
        let object = match name {
            "configuration" => &schema,
            "step" => &schema["$defs"]["middleware"]["items"],
            name => &schema["$defs"][name],
        };
        let keys: Vec<&str> = object["properties"].as_object().expect("an object").keys().map(String::as_str).collect();
        let known = place.shape.keys.iter().map(|key| key.name).chain(place.shape.ignored.iter().copied());
        assert_eq!(keys, known.collect::<Vec<_>>(), "{name}");
    }
    // `middleware` and `serverMiddleware` are lists; everything else is a section above.
    let definitions = schema["$defs"].as_object().expect("definitions");
    let known: Vec<&str> = places().iter().map(|place| place.shape.name).collect();
    for name in definitions.keys().filter(|name| !name.ends_with("iddleware")) {
        assert!(known.contains(&name.as_str()), "`{name}` has no place");
    }
}

#[test]
fn servers_take_over_what_they_do_not_say() {
    let text = r#"{
        "mcpServers": {
            "a": {"command": "x"},
            "b": {"command": "x", "lazy": false, "circuitBreaker": {"failures": 9}}
        },
        "pegboard": {"lazy": true, "circuitBreaker": {"pause": 7}}
    }"#;
    let (config, problems) = parse(text, &env);
    assert!(problems.is_empty(), "{:?}", problems.lines());
    let shown: Vec<(bool, u32, u64)> = config
        .servers
        .iter()
        .map(|server| {
            let breaker = server.breaker.expect("it is said");
            (server.is_lazy(), breaker.failures, breaker.pause.as_secs())
        })
        .collect();
    assert_eq!(shown, [(true, 5, 7), (false, 9, 30)]);
}

#[test]
fn files_are_read_with_their_folder() {
    let folder = std::env::temp_dir().join(format!("pegboard-config-{}", std::process::id()));
    std::fs::create_dir_all(folder.join(".vscode")).expect("a folder");
    let file = folder.join(".vscode/mcp.json");
    let server =
        r#"{"command": "x", "cwd": "sub", "args": ["${workspaceFolder}"], "env": {"A": "${PEGBOARD_NOT_SET}"}}"#;
    std::fs::write(&file, format!(r#"{{"servers": {{"a": {server}}}, "pegboard": {{"catalogs": ["t.json"]}}}}"#))
        .expect("a file");
    let config = Content::load(&file).and_then(|content| content.read()).expect("a configuration");
    let missing = config.servers[0].missing.as_deref().unwrap_or_default();
    assert!(missing.starts_with("`servers.a.env.A` needs the environment variable `PEGBOARD_NOT_SET`"), "{missing}");
    let config = read_offline(&file).expect("a configuration");
    std::fs::remove_dir_all(&folder).expect("a folder");
    let shown = format!("{:?}", config.servers[0].transport);
    assert!(
        shown.contains(&format!("args: [{folder:?}]")) && shown.contains(&format!("{:?}", folder.join("sub"))),
        "{shown}"
    );
    assert_eq!(config.catalogs, [folder.join(".vscode/t.json")]);
}

proptest! {
    #[test]
    fn any_text_is_a_configuration_or_an_error(text in "(?s).{0,80}") {
        parse(&text, &env);
    }

    #[test]
    fn any_json_like_text_is_a_configuration_or_an_error(
        text in r#"[\[\]{}":,a-z0-9 /*\n]{0,40}("mcpServers"|"pegboard"|"middleware"|"limit"|"tokens")?[\[\]{}":,a-z0-9\n]{0,40}"#
    ) {
        parse(&text, &env);
    }

    #[test]
    fn any_value_anywhere_is_a_configuration_or_an_error(
        place in any::<prop::sample::Index>(),
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..5),
    ) {
        let places = places();
        let place = place.get(&places);
        let samples = samples();
        let pick = |(key, value): &(prop::sample::Index, prop::sample::Index)| {
            (key.get(&place.shape.keys).name.to_owned(), value.get(&samples).clone())
        };
        let file = place.file(picks.iter().map(pick).collect());
        parse(&serde_json::to_string_pretty(&file).expect("JSON"), &env);
    }
}

/// Returns the lists of the general middleware and of single servers, by the types of their steps.
fn step_types(config: &Config) -> String {
    let name = |step: &Middleware| match step {
        Middleware::ToolFilter { .. } => "filter".to_owned(),
        Middleware::Logging { level, .. } => format!("log {level:?}"),
        Middleware::Security { rules, is_logged } => {
            let names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
            format!("security {names:?} {is_logged}")
        }
        Middleware::DescriptionEnricher { .. } => "enrich".to_owned(),
    };
    let list = |list: &[Middleware]| format!("[{}]", list.iter().map(name).collect::<Vec<_>>().join(", "));
    let own = config.gateway.policies.by_server.iter().map(|(server, steps)| format!(" {server} {}", list(steps)));
    list(&config.gateway.policies.general) + &own.collect::<String>()
}

#[test]
fn steps_under_http_server_apply_as_in_mcproxy() {
    let servers = r#""mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}"#;
    let http = |middleware: &str| format!(r#"{{{servers}, "httpServer": {{"middleware": {middleware}}}}}"#);
    let steps = |middleware: &str, expected: &str| check(&http(middleware), step_types, expected);
    let proxy = r#""proxy": [{"type": "description_enricher"}, {"type": "tool_search"}]"#;
    steps(&format!("{{{proxy}}}"), "[enrich]");
    let default = r#""default": [{"type": "logging", "config": {"level": "debug"}}]"#;
    let filter = r#""servers": {"a": [{"type": "tool_filter", "config": {"allow": "*_file"}}]}"#;
    steps(&format!("{{{proxy}, \"client\": {{{default}, {filter}}}}}"), "[log Debug, enrich] a [filter, enrich]");
    let rules = r#"[{"name": "on", "description": "d", "pattern": "x", "block_message": "m", "enabled": true},
        {"name": "off", "pattern": "y", "enabled": false}]"#;
    let security = |more: &str| {
        format!(r#"{{"client": {{"default": [{{"type": "security", "config": {{"rules": {rules}{more}}}}}]}}}}"#)
    };
    steps(&security(""), r#"[security ["on"] true]"#);
    steps(&security(r#", "log_blocked": false"#), r#"[security ["on"] false]"#);

    let at = "`httpServer.middleware";
    steps(
        r#"{"proxy": [{"type": "rate_limit"}]}"#,
        &format!(
            "{at}.proxy[0].type` must be `tool_search`, `tool_filter`, `logging`, `security` or `description_enricher`"
        ),
    );
    steps(
        r#"{"client": {"default": [{"type": "tool_search"}]}}"#,
        &format!(
            "{at}.client.default[0]` is not supported per server: a search covers all servers (move it to \
         `httpServer.middleware.proxy`)"
        ),
    );
    steps(
        r#"{"client": {"servers": {"other": []}}}"#,
        &format!("{at}.client.servers.other` is not a server of this file"),
    );
    let both = format!(r#"{{{servers}, "middleware": [], "httpServer": {{"middleware": {{}}}}}}"#);
    let message = "cannot be combined with the top-level `middleware` (keep all steps in one of them)";
    check(&both, step_types, &format!("{at}` {message}"));
    let own = r#"{"mcpServers": {"a": {"command": "x", "middleware": [{"type": "logging"}]}},
        "httpServer": {"middleware": {"proxy": [{"type": "description_enricher"}], "client": {"servers": {}}}}}"#;
    check(own, step_types, "[enrich] a [log Info, enrich]");
}

#[test]
fn a_search_under_http_server_sets_the_dialect() {
    let shown = |config: &Config| {
        format!("{:?} {} {:?}", config.gateway.profile, config.gateway.discovery.max_tools_limit, config.threshold)
    };
    let search = |config: &str| {
        format!(r#"{{"httpServer": {{"middleware": {{"proxy": [{{"type": "tool_search", "config": {config}}}]}}}}}}"#)
    };
    let options = r#"{"enabled": true, "maxToolsLimit": 7, "searchThreshold": 0.3}"#;
    check(&search(options), shown, "Dialect(Gateway) 7 Some(0.3)");
    check(&search(r#"{"enabled": false, "maxToolsLimit": 7}"#), shown, "Dialect(Bridge) 50 None");
}

#[test]
fn the_listener_of_http_server() {
    let shown = |config: &Config| {
        let listen = &config.listen;
        let notices: Vec<&str> = config.notices.iter().map(|notice| notice.path.as_str()).collect();
        format!("{:?} {:?} {:?} {notices:?}", listen.address, listen.allowed_origins, listen.shutdown_deadline)
    };
    let http = |keys: &str, expected: &str| check(&format!("{{\"httpServer\": {keys}}}"), shown, expected);
    http("{}", "None [] 5s []");
    http(r#"{"host": "localhost", "port": 9000}"#, r#"Some("127.0.0.1:9000") [] 5s []"#);
    http(r#"{"host": "0.0.0.0", "shutdownTimeout": 9}"#, r#"Some("0.0.0.0:8080") [] 9s []"#);
    http(r#"{"port": 70000}"#, "`httpServer.port` must be a port, 1 to 65535");
    http(r#"{"corsOrigins": ["https://a.example"]}"#, r#"None ["https://a.example"] 5s []"#);
    http(r#"{"corsOrigins": ["*", "https://a"]}"#, r#"None ["https://a"] 5s ["httpServer.corsOrigins"]"#);
    http(r#"{"corsEnabled": false, "corsOrigins": ["https://a"]}"#, r#"None [] 5s ["httpServer.corsEnabled"]"#);
    let own = r#"{"httpServer": {"port": 1, "corsOrigins": ["https://a"]},
        "pegboard": {"listen": "2", "allowedOrigins": ["https://b"]}}"#;
    check(own, shown, r#"Some("2") ["https://b"] 5s []"#);
}

#[test]
fn misplaced_restrictions_are_errors() {
    let nothing = |_: &Config| "fine".to_owned();
    let hints = [
        ("security", "rules are read from a step"),
        ("Security", "rules are read from a step"),
        ("filter", "tools are filtered by `pegboard.selection`"),
        ("filters", "tools are filtered by `pegboard.selection`"),
        ("tool_filter", "tools are filtered by `pegboard.selection`"),
        ("auth", "callers of the gateway are listed in `pegboard.tokens`"),
        ("authentication", "callers of the gateway are listed in `pegboard.tokens`"),
        ("middlewares", "steps are read from the top-level `middleware`"),
        ("Middleware", "steps are read from the top-level `middleware`"),
    ];
    for (key, value) in [("tokens", json!([])), ("Selection", json!({})), ("pinning", json!("hold"))] {
        let (_, problems) = parse(&json!({key: value}).to_string(), &env);
        let expected = format!("line 1: `{key}` is not known (move it to `pegboard.{key}`)");
        assert_eq!(problems.lines(), [expected]);
    }
    for place in ["", "httpServer.", "pegboard."] {
        let file = |key: &str| match place.strip_suffix('.') {
            Some(section) => json!({section: {key: {}}}).to_string(),
            None => json!({key: {}}).to_string(),
        };
        for (key, hint) in hints {
            let (_, problems) = parse(&file(key), &env);
            let lines = problems.lines();
            assert!(
                lines.len() == 1 && lines[0].contains(&format!("`{place}{key}` is not known ({hint}")),
                "{lines:?}"
            );
        }
        check(&file("_filter"), nothing, "fine");
    }
    check(r#"{"pegboard": {"middleware": []}}"#, nothing, &{
        let hint = "steps are read from the top-level `middleware`, from `httpServer.middleware` and from a server's \
                    own `middleware`";
        format!("`pegboard.middleware` is not known ({hint})")
    });
    check(r#"{"httpserver": {}}"#, nothing, "`httpserver` is not known (did you mean `httpServer`?)");
    // Keys of other programs.
    check(r#"{"author": "x", "server": 1, "permissions": {}, "theme": 1, "security.workspace": 1}"#, nothing, "fine");
    check(r#"{"mcpServers": {"a": {"command": "x", "auth": {}, "trust": true}}}"#, nothing, "fine");
}

#[test]
fn tool_lists_of_other_clients_restrict() {
    let shown = |config: &Config| {
        let is_shown = |tool: &str| config.gateway.policies.of("a").iter().all(|step| step.shows(tool));
        ["x", "y", "z"].into_iter().filter(|tool| is_shown(tool)).collect()
    };
    let entry = |keys: &str, expected: &str| {
        check(&format!(r#"{{"mcpServers": {{"a": {{"command": "c", {keys}}}}}}}"#), shown, expected);
    };
    entry(r#""includeTools": ["x", "y"]"#, "xy");
    entry(r#""includeTools": []"#, "");
    entry(r#""excludeTools": ["x"], "disabledTools": ["y"]"#, "z");
    entry(r#""includeTools": ["x", "y"], "disabledTools": ["y"]"#, "x");
    entry(r#""tools": ["z"]"#, "z");
    entry(r#""tools": ["x", "z"], "includeTools": ["x", "y"]"#, "x");
    entry(r#""tools": []"#, "");
    entry(r#""tools": ["*"]"#, "xyz");
    entry(r#""tools": {"x": {"enabled": true}}"#, "xyz");
    entry(r#""disabledTools": "x""#, "`mcpServers.a.disabledTools` must be a list of strings");
}

#[test]
fn protections_that_are_not_applied_are_noticed() {
    let shown = |config: &Config| {
        let notices = config.notices.iter().map(|notice| (notice.path.clone(), notice.server.clone()));
        format!("{:?}", notices.collect::<Vec<_>>())
    };
    let file = r#"{"mcpServers": {"a": {"command": "c", "sandboxEnabled": true, "auth": null, "sandbox": false},
        "b": {"command": "c", "disabled": true, "sandboxEnabled": true}, "c": {"url": "http://c", "auth": "t"}}}"#;
    let expected = r#"[("mcpServers.a.sandboxEnabled", Some("a")), ("mcpServers.c.auth", Some("c"))]"#;
    check(file, shown, expected);
}
