//! Pegboard's entry in the configuration files of clients.

use std::path::{Component, Path};

use serde_json::{Map, Value, json};

use super::{Client, Syntax, edit};

/// The name of Pegboard's entry.
pub(crate) const NAME: &str = "pegboard";

/// How a client reaches Pegboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GatewayAccess {
    /// The client starts Pegboard.
    Stdio {
        /// Path of the Pegboard program.
        program: String,
        /// Path of the configuration.
        config: String,
        /// Whether the configuration must be trusted at each use.
        checks_trust: bool,
        /// Variables that the configuration needs from the client.
        variables: Vec<String>,
    },
    /// The gateway runs already.
    Http {
        /// URL of the gateway.
        url: String,
    },
}

/// Keys of an entry that describe the transport; all others are the user's.
const REACH: &[&str] = &["type", "command", "args", "url", "serverUrl", "httpUrl", "transport"];

/// Keys for programs only; some clients reject them beside a URL.
const OF_PROGRAMS: &[&str] = &["env", "env_vars", "envFile", "cwd"];

/// Keys for URLs only.
const OF_ADDRESSES: &[&str] = &["headers", "http_headers", "env_http_headers", "bearer_token_env_var"];

/// Returns whether `client` supports servers with a URL in its configuration file.
pub(crate) fn accepts_urls(client: Client) -> bool {
    client != Client::ClaudeDesktop
}

/// Returns whether `client` can forward environment variables to a server by its configuration
/// file, or forwards all of them anyway.
pub(crate) fn forwards_variables(client: Client) -> bool {
    client != Client::ClaudeDesktop
}

/// Returns Pegboard's entry for `client`'s file.
pub(crate) fn entry(client: Client, access: &GatewayAccess) -> Value {
    match access {
        GatewayAccess::Stdio { program, config, checks_trust, variables } => {
            let mut entry = Map::new();
            if matches!(client, Client::ClaudeCode | Client::Vscode) {
                entry.insert("type".to_owned(), json!("stdio"));
            }
            entry.insert("command".to_owned(), json!(program));
            let args = match checks_trust {
                true => json!(["serve", "--stdio", "--check-trust", config]),
                false => json!(["serve", "--stdio", config]),
            };
            entry.insert("args".to_owned(), args);
            entry.extend(forwarded_variables(client, variables).filter(|_| !variables.is_empty()));
            entry.into()
        }
        GatewayAccess::Http { url } => match client {
            Client::ClaudeCode | Client::Vscode => json!({"type": "http", "url": url}),
            Client::Windsurf => json!({"serverUrl": url}),
            Client::Gemini => json!({"httpUrl": url}),
            _ => json!({"url": url}),
        },
    }
}

/// Returns the key that forwards variables. Some clients start servers with few of their own
/// variables, or withhold those with names of secrets.
fn forwarded_variables(client: Client, variables: &[String]) -> Option<(String, Value)> {
    let each = |written: fn(&str) -> String| {
        let pair = |name: &String| (name.clone(), Value::from(written(name)));
        Some(("env".to_owned(), variables.iter().map(pair).collect::<Map<_, _>>().into()))
    };
    match client {
        Client::ClaudeDesktop | Client::Zed => None,
        Client::Codex => Some(("env_vars".to_owned(), json!(variables))),
        Client::ClaudeCode => each(|name| format!("${{{name}}}")),
        Client::Gemini => each(|name| format!("${name}")),
        Client::Cursor | Client::Vscode | Client::Windsurf => each(|name| format!("${{env:{name}}}")),
    }
}

/// Returns whether an entry has only what [`entry`] writes, and nothing that the user added.
pub(crate) fn is_as_written(client: Client, entry: &Value) -> bool {
    let Some(entry) = entry.as_object() else { return false };
    let names = entry.get("env").and_then(Value::as_object).into_iter().flat_map(Map::keys).map(String::as_str);
    let listed = entry.get("env_vars").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let names: Vec<String> = names.chain(listed).map(str::to_owned).collect();
    let handed_on = forwarded_variables(client, &names);
    let is_handed_on = |key: &str, value: &Value| handed_on.as_ref().is_some_and(|(k, v)| k == key && v == value);
    entry.iter().all(|(key, value)| REACH.contains(&key.as_str()) || is_handed_on(key, value))
}

/// Returns `old` with an updated transport and everything else unchanged.
pub(crate) fn merge_entry(old: Option<&Value>, new: &Value) -> Value {
    let Some(old) = old.and_then(Value::as_object) else { return new.clone() };
    let senseless = if new.get("command").is_some() { OF_ADDRESSES } else { OF_PROGRAMS };
    let is_kept = |key: &str| !REACH.contains(&key) && !senseless.contains(&key);
    let mut merged: Map<String, Value> = Map::new();
    for (key, value) in old {
        match new.get(key) {
            Some(new) => merged.insert(key.clone(), merge_value(value, new)),
            None if is_kept(key) => merged.insert(key.clone(), value.clone()),
            None => None,
        };
    }
    for (key, value) in new.as_object().into_iter().flatten() {
        merged.entry(key).or_insert_with(|| value.clone());
    }
    merged.into()
}

/// Merges one value; the user's own forwarded variables stay.
fn merge_value(old: &Value, new: &Value) -> Value {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut joined = old.clone();
            joined.extend(new.clone());
            joined.into()
        }
        _ => new.clone(),
    }
}

/// Renders the entry as a user would write it into the file.
pub(crate) fn render(client: Client, keys: &[&str], entry: &Value) -> String {
    let path: Vec<&str> = keys.iter().copied().chain([NAME]).collect();
    match client.syntax() {
        Syntax::Toml => edit::toml::section("", &path, entry),
        Syntax::Json => {
            let whole = edit::json::nest(&path, entry);
            format!("{}\n", edit::json::render(&whole, "", "  ", "\n"))
        }
    }
}

/// Returns a path that is valid from any working folder.
pub(crate) fn absolute_path(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // Only where it is needed: a link in a home folder is meant to stay one.
    let has_parents = path.components().any(|part| part == Component::ParentDir);
    let path = if has_parents { path.canonicalize().unwrap_or(path) } else { path };
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_added_stays() {
        let old = json!({"autoApprove": ["a"], "url": "https://x", "args": [], "env": {"A": "b"}, "command": "old"});
        let new = json!({"command": "p", "args": ["serve"]});
        let expected = json!({"autoApprove": ["a"], "args": ["serve"], "env": {"A": "b"}, "command": "p"});
        assert_eq!(merge_entry(Some(&old), &new), expected);
        assert_eq!(merge_entry(Some(&merge_entry(Some(&old), &new)), &new), expected);
        assert_eq!(merge_entry(Some(&json!(3)), &new), new);
        assert_eq!(merge_entry(None, &new), new);
        let new = json!({"command": "p", "env": {"T": "${T}"}});
        assert_eq!(merge_entry(Some(&old), &new)["env"], json!({"A": "b", "T": "${T}"}));
        let new = json!({"url": "https://y"});
        assert_eq!(merge_entry(Some(&old), &new), json!({"autoApprove": ["a"], "url": "https://y"}));
    }

    #[test]
    fn variables_are_handed_on_in_the_words_of_each_client() {
        let variables = vec!["A".to_owned()];
        let access =
            GatewayAccess::Stdio { program: "p".to_owned(), config: "c".to_owned(), checks_trust: false, variables };
        let handed = |client| {
            let entry = entry(client, &access);
            entry.get("env").or_else(|| entry.get("env_vars")).map(Value::to_string).unwrap_or_default()
        };
        assert_eq!(
            Client::ALL.map(handed),
            [
                "",
                r#"{"A":"${A}"}"#,
                r#"{"A":"${env:A}"}"#,
                r#"{"A":"${env:A}"}"#,
                r#"{"A":"${env:A}"}"#,
                r#"["A"]"#,
                r#"{"A":"$A"}"#,
                "",
            ]
        );
    }
}
