//! Configurations: our own, files of variables, and what other clients have.
//!
//! The first byte says which: `c` one of ours, `e` variables, any other the file of a client.

#![no_main]

use axum::http::{HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use pegboard_cli::fuzzing::{File, configuration};
use pegboard_config::{
    document::{Document, Problems},
    env_file,
    variables::WORKSPACE_FOLDER,
};
use pegboard_fuzz::{choice, text};
use pegboard_mcp::json::is_unambiguous;
use pegboard_upstream::config::TransportConfig;
use serde_json::{Value, json, value::RawValue};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = choice(bytes) else { return };
    let Some(text) = text(bytes) else { return };
    match kind {
        b'c' => {
            check_document(text);
            check_configuration(text);
        }
        b'e' => check_variables(text),
        client => check_client(&File::new(usize::from(client), text)),
    }
});

/// A value that no message may repeat.
const SECRET: &str = "s3cr3t-of-the-environment";

fn env(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some(SECRET.to_owned()),
        "EMPTY" => Some(String::new()),
        "HOME" => Some("/home/ada".to_owned()),
        WORKSPACE_FOLDER => Some("/nowhere/at/all".to_owned()),
        _ => None,
    }
}

/// What is plain JSON is read as everybody reads it.
fn check_document(text: &str) {
    let mut problems = Problems::new();
    let document = Document::parse(text, &mut problems);
    let Ok(value) = serde_json::from_str::<&RawValue>(text) else { return };
    let (true, Ok(expected)) = (is_unambiguous(value), serde_json::from_str::<Value>(text)) else { return };
    let document = document.expect("JSON is JSON with comments");
    assert!(problems.is_empty(), "{:?}", problems.lines());
    assert_eq!(floats(document.root().to_json()), floats(expected));
}

/// With all numbers alike: `3.0` may be read as `3`.
fn floats(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.into_iter().map(floats).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, floats(value))).collect(),
        value => value,
    }
}

/// Whatever is wrong is told with its place and without secrets; what is right can be used.
fn check_configuration(text: &str) {
    let (servers, problems) = configuration(text, &env);
    let lines = problems.lines();
    assert_eq!(lines, configuration(text, &env).1.lines(), "the same file has the same mistakes");
    let count = 1 + text.matches(['\n', '\r']).count();
    for problem in problems.iter() {
        assert!((1..=count).contains(&problem.line), "a mistake is somewhere in the file");
        assert!(!problem.to_string().contains(char::is_control), "a message does not drive a terminal");
    }
    assert!(lines.iter().all(|line| !line.contains(SECRET)), "a message tells no secrets");
    if !text.starts_with('\u{feff}') {
        let marked = format!("\u{feff}{text}");
        assert_eq!(lines, configuration(&marked, &env).1.lines(), "a byte order mark says nothing");
    }
    if !problems.is_empty() {
        return;
    }
    for (at, server) in servers.iter().enumerate() {
        assert!(!servers[..at].iter().any(|other| other.name == server.name), "a name is one server's");
        match &server.transport {
            TransportConfig::Stdio { command, env, .. } => {
                assert!(!command.is_empty());
                for (name, value) in env {
                    assert!(!name.is_empty() && !name.contains(['=', '\0']) && !value.expose().contains('\0'));
                }
            }
            TransportConfig::Http { headers, .. } => {
                for (name, value) in headers {
                    assert!(
                        HeaderName::try_from(name.as_str()).is_ok() && HeaderValue::try_from(value.expose()).is_ok()
                    );
                }
            }
            TransportConfig::Local(_) => unreachable!("no file configures a server in this process"),
        }
        assert!(!format!("{server:?}").contains(SECRET) || !is_hidden(server), "secrets are not shown");
    }
}

/// Whether a server has all its variables in places that are hidden.
fn is_hidden(server: &pegboard_upstream::config::ServerConfig) -> bool {
    match &server.transport {
        TransportConfig::Stdio { command, args, cwd, .. } => {
            let shown = [command.as_str()].into_iter().chain(args.iter().map(String::as_str));
            let folder = cwd.as_ref().map(|cwd| cwd.display().to_string()).unwrap_or_default();
            !shown.chain([folder.as_str()]).any(|text| text.contains(SECRET))
        }
        TransportConfig::Http { url, .. } => !url.contains(SECRET),
        TransportConfig::Local(_) => true,
    }
}

/// Variables are such that a process can have them.
fn check_variables(text: &str) {
    let Ok(variables) = env_file::parse(text) else { return };
    for (name, value) in &variables {
        assert!(!name.is_empty() && !name.contains(['=', '\0']) && !name.contains(char::is_whitespace), "{name:?}");
        assert!(!value.contains('\0'), "{value:?}");
    }
    // Written with quotes, they are read as they are.
    let quoted = |value: &str| {
        value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
    };
    let written: String =
        variables.iter().map(|(name, value)| format!("export {name}=\"{}\" # note\n", quoted(value))).collect();
    assert_eq!(env_file::parse(&written).ok(), Some(variables), "{written}");
}

/// A client's file is read or refused, and an edit changes one server and nothing else.
fn check_client(file: &File<'_>) {
    let imported = file.import(None);
    let _ = file.import(Some("/nowhere/app"));
    let Ok(before) = file.value() else { return };
    let entry = json!({"command": "/bin/pegboard", "args": ["serve", "--config", "a \"b\"\n.json"]});
    let names = imported.iter().flat_map(|imported| imported.servers.iter().map(|(name, _)| name.as_str()));
    for name in names.take(2).chain(["pegboard"]) {
        let key = file.servers_key();
        let others = |value: &Value| {
            // A file without content becomes an object.
            let mut value = if value.is_null() { json!({}) } else { value.clone() };
            if let Some(servers) = value.get_mut(key).and_then(Value::as_object_mut) {
                servers.shift_remove(name);
            }
            pruned(value)
        };
        if let Ok(edited) = file.set(name, &entry) {
            let edited = file.with(&edited);
            let after = edited.value().expect("an edited file can be read");
            assert_eq!(after.get(key).and_then(|servers| servers.get(name)), Some(&entry), "what is set is there");
            assert_eq!(others(&after), others(&before), "an edit leaves the others alone");
            assert_eq!(edited.set(name, &entry).as_deref(), Ok(edited.text()), "twice is once");
        }
        if let Ok(edited) = file.remove(name) {
            let edited = file.with(&edited);
            let after = edited.value().expect("an edited file can be read");
            // A key that was there twice is there once more.
            assert_eq!(others(&after), others(&before), "a removal leaves the others alone");
        }
    }
}

/// Without objects that have nothing in them: sections come and go with their content.
fn pruned(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let pairs = map.into_iter().map(|(key, value)| (key, pruned(value)));
            let is_something = |value: &Value| value.as_object().is_none_or(|map| !map.is_empty());
            pairs.filter(|(_, value)| is_something(value)).collect::<serde_json::Map<_, _>>().into()
        }
        value => value,
    }
}
