//! A server entry in Pegboard's terms, converted from any client's file.

use serde_json::{Map, Value, json};

/// The transport of a server. Variables in all texts have Pegboard's notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerTransport {
    Program {
        command: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
        env_file: Option<String>,
        cwd: Option<String>,
    },
    Remote {
        url: String,
        headers: Vec<(String, String)>,
        /// Whether it must be HTTP+SSE.
        is_sse: bool,
    },
}

/// A server of a client's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) reach: ServerTransport,
    pub(crate) is_disabled: bool,
    /// The timeout of a call, as in Pegboard's configuration.
    pub(crate) timeout: Option<String>,
    /// The timeout of the start.
    pub(crate) connect_timeout: Option<String>,
    pub(crate) description: Option<String>,
    /// The only tools to use; all if there are none.
    pub(crate) allowed_tools: Vec<String>,
    /// Tools not to use.
    pub(crate) denied_tools: Vec<String>,
    /// Notes for the user about this server.
    pub(crate) notes: Vec<String>,
}

impl Server {
    pub(crate) fn new(reach: ServerTransport) -> Self {
        Self {
            reach,
            is_disabled: false,
            timeout: None,
            connect_timeout: None,
            description: None,
            allowed_tools: Vec::new(),
            denied_tools: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns the entry under `mcpServers`.
    pub(crate) fn to_json(&self) -> Value {
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| _ = entry.insert(key.to_owned(), value);
        match &self.reach {
            ServerTransport::Program { command, args, env, env_file, cwd } => {
                put("command", json!(command));
                if !args.is_empty() {
                    put("args", json!(args));
                }
                if !env.is_empty() {
                    put("env", object(env));
                }
                env_file.iter().for_each(|file| put("envFile", json!(file)));
                cwd.iter().for_each(|folder| put("cwd", json!(folder)));
            }
            ServerTransport::Remote { url, headers, is_sse } => {
                if *is_sse {
                    put("type", json!("sse"));
                }
                put("url", json!(url));
                if !headers.is_empty() {
                    put("headers", object(headers));
                }
            }
        }
        self.timeout.iter().for_each(|time| put("timeout", json!(time)));
        self.connect_timeout.iter().for_each(|time| put("connectTimeout", json!(time)));
        self.description.iter().for_each(|text| put("description", json!(text)));
        if self.is_disabled {
            put("disabled", json!(true));
        }
        for (key, tools) in [("includeTools", &self.allowed_tools), ("excludeTools", &self.denied_tools)] {
            if !tools.is_empty() {
                put(key, json!(tools));
            }
        }
        Value::Object(entry)
    }

    /// Returns whether both are the same server: the same program with the same arguments and
    /// variables, or the same address. Two accounts at one address are two servers.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.matches(other, |ours, theirs| ours == theirs)
    }

    /// [`Self::is_same`] where `self` is in Pegboard's configuration, whose values may have become
    /// variables.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.matches(other, |ours, theirs| ours == theirs || super::variables::has_variables(ours))
    }

    fn matches(&self, other: &Self, is_value: fn(&str, &str) -> bool) -> bool {
        match (&self.reach, &other.reach) {
            (
                ServerTransport::Program { command, args, env, env_file, cwd },
                ServerTransport::Program { command: c, args: a, env: e, env_file: f, cwd: d },
            ) => {
                let is_args = args.len() == a.len() && args.iter().zip(a).all(|(ours, theirs)| is_value(ours, theirs));
                command == c && is_args && is_map(env, e, is_value) && env_file == f && cwd == d
            }
            (ServerTransport::Remote { url, headers, .. }, ServerTransport::Remote { url: u, headers: h, .. }) => {
                let is_url = normal(url) == normal(u) || is_value(url, u) && url != u && host(url) == host(u);
                // An entry without headers authenticates in another way, at the same server.
                is_url && (headers.is_empty() || h.is_empty() || is_map(headers, h, is_value))
            }
            _ => false,
        }
    }

    /// Returns whether the server is Pegboard itself.
    pub(crate) fn is_pegboard(&self, name: &str) -> bool {
        match &self.reach {
            ServerTransport::Program { command, args, .. } => {
                let words: Vec<&str> =
                    std::iter::once(command.as_str()).chain(args.iter().map(String::as_str)).collect();
                let program = words.iter().take(4).position(|word| crate::nesting::is_our_program(word));
                program.is_some_and(|at| words.get(at + 1) == Some(&"serve"))
            }
            ServerTransport::Remote { url, .. } => {
                let is_ours = ["http://127.0.0.1:8080/mcp", "http://localhost:8080/mcp"];
                name == super::pegboard_entry::NAME || is_ours.contains(&normal(url).as_str())
            }
        }
    }

    /// Returns all texts that may contain variables.
    pub(crate) fn texts(&self) -> Vec<&str> {
        match &self.reach {
            ServerTransport::Program { command, args, env, env_file, cwd } => {
                let values = env.iter().map(|(_, value)| value);
                [command].into_iter().chain(args).chain(values).chain(env_file).chain(cwd).map(String::as_str).collect()
            }
            ServerTransport::Remote { url, headers, .. } => {
                [url].into_iter().chain(headers.iter().map(|(_, value)| value)).map(String::as_str).collect()
            }
        }
    }
}

fn object(pairs: &[(String, String)]) -> Value {
    pairs.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect::<Map<_, _>>().into()
}

/// Returns whether both have the same names, in any order, with matching values.
fn is_map(ours: &[(String, String)], theirs: &[(String, String)], is_value: fn(&str, &str) -> bool) -> bool {
    let fits =
        |(name, value): &(String, String)| ours.iter().any(|(n, v)| n.eq_ignore_ascii_case(name) && is_value(v, value));
    ours.len() == theirs.len() && theirs.iter().all(fits)
}

/// Normalizes an address for comparison: scheme and host in lower case, no trailing slash.
fn normal(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let path = url.find("://").and_then(|at| Some(at + 3 + url.get(at + 3..)?.find('/')?)).unwrap_or(url.len());
    let (server, path) = url.split_at(path);
    format!("{}{path}", server.to_ascii_lowercase())
}

/// Returns everything before the path.
fn host(url: &str) -> String {
    normal(url).splitn(4, '/').take(3).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(words: &[&str], env: &[(&str, &str)]) -> Server {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
        Server::new(ServerTransport::Program {
            command: words[0].to_owned(),
            args: texts(&words[1..]),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            env_file: None,
            cwd: None,
        })
    }

    fn remote(url: &str, token: Option<&str>) -> Server {
        let headers = token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
        Server::new(ServerTransport::Remote {
            url: url.to_owned(),
            headers: headers.into_iter().collect(),
            is_sse: false,
        })
    }

    #[test]
    fn the_same_server() {
        let one = program(&["npx", "-y", "x"], &[("A", "1"), ("B", "2")]);
        assert!(one.is_same(&program(&["npx", "-y", "x"], &[("B", "2"), ("A", "1")])));
        assert!(!one.is_same(&program(&["npx", "-y", "x"], &[("B", "2"), ("A", "3")])));
        assert!(!one.is_same(&program(&["npx", "-y", "x"], &[("A", "1")])));
        assert!(!one.is_same(&remote("https://a/", None)));
        let one = remote("https://A.example/mcp/", Some("t"));
        assert!(one.is_same(&remote("HTTPS://a.example/mcp", None)));
        assert!(one.is_same(&remote("https://a.example/mcp", Some("t"))));
        assert!(!one.is_same(&remote("https://a.example/mcp", Some("u"))));
        assert!(!one.is_same(&remote("https://a.example/MCP", None)));
    }

    #[test]
    fn values_that_became_variables() {
        let plain = program(&["x"], &[("TOKEN", "s3cret")]);
        assert!(program(&["x"], &[("TOKEN", "${TOKEN}")]).covers(&plain));
        assert!(!program(&["x"], &[("TOKEN", "other")]).covers(&plain));
        assert!(!plain.covers(&program(&["x"], &[("TOKEN", "${TOKEN}")])));
        assert!(remote("https://a/mcp", Some("${T}")).covers(&remote("https://a/mcp", Some("t"))));
        assert!(!remote("https://a/${X}", None).covers(&remote("https://b/mcp", None)));
    }

    #[test]
    fn pegboard_itself() {
        for words in [
            &["pegboard", "serve", "--stdio", "x.json"][..],
            &["/opt/bin/pegboard", "serve"],
            &[r"C:\bin\Pegboard.exe", "serve"],
            &["env", "X=1", "pegboard", "serve"],
        ] {
            assert!(program(words, &[]).is_pegboard("x"), "{words:?}");
        }
        for words in [&["pegboard", "catalog"][..], &["npx", "pegboard-like", "serve"], &["serve", "pegboard"]] {
            assert!(!program(words, &[]).is_pegboard("pegboard"), "{words:?}");
        }
        assert!(remote("http://localhost:8080/mcp/", None).is_pegboard("x"));
        assert!(remote("https://gate.example/mcp", None).is_pegboard("pegboard"));
        assert!(!remote("http://localhost:3000/mcp", None).is_pegboard("x"));
    }

    #[test]
    fn entries() {
        let mut server = program(&["x", "y"], &[("A", "1")]);
        server.timeout = Some("30s".to_owned());
        server.is_disabled = true;
        server.denied_tools = vec!["rm.all".to_owned()];
        assert_eq!(
            server.to_json().to_string(),
            r#"{"command":"x","args":["y"],"env":{"A":"1"},"timeout":"30s","disabled":true,"excludeTools":["rm.all"]}"#
        );
        let sse =
            Server::new(ServerTransport::Remote { url: "https://a".to_owned(), headers: Vec::new(), is_sse: true });
        assert_eq!(sse.to_json().to_string(), r#"{"type":"sse","url":"https://a"}"#);
    }
}
