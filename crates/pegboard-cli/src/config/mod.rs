//! The configuration file: JSON with comments, the `mcpServers` object that every MCP
//! client has, a `pegboard` section, `middleware`, and MCProxy's `httpServer`.

mod access;
mod connections;
mod console;
mod defaults;
mod embeddings;
mod gateway;
mod http_server;
mod limits;
mod lint;
mod markdown;
mod middleware;
mod middleware_types;
mod misplaced_keys;
mod offload;
mod options;
pub(crate) mod proxy;
mod restrictions;
mod schema;
pub(crate) mod state;
pub(crate) mod telemetry;
#[cfg(test)]
mod tests;
mod usage;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use pegboard_config::{
    document::{Document, MAX_BYTES, Node, Problem, Problems},
    keys::{KeyDoc, Kind, Lookup, Scope, Shape},
    variables::WORKSPACE_FOLDER,
};
use pegboard_core::Secret;
use pegboard_engine::usage::HabitSettings;
use pegboard_gateway::GatewaySettings;
use pegboard_http::{ConnectionLimits, TrustedProxies};
use pegboard_llm::{Delivery, embeddings::EndpointSettings};
use pegboard_upstream::config::{
    ServerConfig, TransportConfig,
    file::workspace_of,
    inherit,
    servers::{self, read_servers},
};

pub(crate) use self::{defaults::defaults, markdown::markdown, schema::schema};
use self::{
    gateway::ConfigDraft, middleware::MiddlewareConfig, proxy::ProxyConfig, state::StateFolder,
    telemetry::TelemetryConfig,
};
use crate::{
    catalogs::read_bounded, clients::secrets, commands::lint::LintConfig, error::CliError, nesting, rankers::RankerName,
};

/// All settings of a configuration file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    /// `pegboard.catalogs`, relative to the file that names them.
    pub(crate) catalogs: Vec<PathBuf>,
    /// `pegboard.ranker`.
    pub(crate) ranker: Option<RankerName>,
    /// `pegboard.model`, relative to the file that names it.
    pub(crate) model: Option<PathBuf>,
    /// `pegboard.limit`.
    pub(crate) limit: Option<usize>,
    /// `pegboard.delivery`, for the agent.
    pub(crate) delivery: Option<Delivery>,
    /// `searchThreshold` of an enabled `tool_search` middleware.
    pub(crate) threshold: Option<f64>,
    /// The MCP servers, in the order of the file, including disabled ones.
    pub(crate) servers: Vec<ServerConfig>,
    /// The settings of the gateway.
    pub(crate) gateway: GatewaySettings,
    /// The settings of the listener.
    pub(crate) listen: ListenConfig,
    /// The state folder.
    pub(crate) state: StateFolder,
    /// The settings of telemetry.
    pub(crate) telemetry: TelemetryConfig,
    /// The settings of `pegboard lint`.
    pub(crate) lint: LintConfig,
    /// The settings of usage learning, if it is enabled.
    pub(crate) usage: Option<HabitSettings>,
    /// The external embedding model whose vectors join the ranking.
    pub(crate) embeddings: Option<EndpointSettings>,
    /// The settings of the LLM API proxy.
    pub(crate) proxy: ProxyConfig,
    /// The setting because of which tools may be held, if there is one.
    pub(crate) holding: Option<String>,
    /// Settings that Pegboard reads and does not apply as they are written.
    pub(crate) notices: Vec<Problem>,
}

/// The settings of the listener.
#[derive(Clone, Debug)]
pub(crate) struct ListenConfig {
    /// Host and port; a flag takes precedence.
    pub(crate) address: Option<String>,
    /// Host names that requests may use for the gateway.
    pub(crate) allowed_hosts: Vec<String>,
    /// Web origins that may send requests.
    pub(crate) allowed_origins: Vec<String>,
    /// Proxies whose forwarded client address is trusted.
    pub(crate) trusted_proxies: TrustedProxies,
    /// Connection limits, and their shares.
    pub(crate) connections: ConnectionLimits,
    /// Whether a public address is allowed without tokens.
    pub(crate) allow_public: bool,
    /// Whether the console is served.
    pub(crate) has_console: bool,
    /// Maximum size of a request.
    pub(crate) max_body_bytes: usize,
    /// How long requests may take to finish at shutdown.
    pub(crate) shutdown_deadline: Duration,
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            address: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            trusted_proxies: TrustedProxies::default(),
            connections: ConnectionLimits::default(),
            allow_public: false,
            has_console: true,
            max_body_bytes: 4 << 20,
            shutdown_deadline: Duration::from_secs(5),
        }
    }
}

/// The content of a configuration file, read once, so that the checked content is the content in
/// use.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Content {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read or is too large.
    pub(crate) fn load(path: &Path) -> Result<Self, CliError> {
        let bytes = match path.try_exists() {
            Ok(false) => {
                return Err(CliError::new(format!("no configuration file `{}`", path.display()))
                    .hint("check the path; `pegboard import --write` and `pegboard add` create a configuration"));
            }
            _ => read_bounded(path, MAX_BYTES)?,
        };
        if bytes.len() > MAX_BYTES {
            return Err(CliError::new(format!("`{}` is larger than {MAX_BYTES} bytes", path.display())));
        }
        Ok(Self { path: path.to_owned(), bytes })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Parses the configuration; all mistakes are reported at once. A server with a missing
    /// variable or file is not an error: it is not started, and reported as failed.
    pub(crate) fn read(&self) -> Result<Config, CliError> {
        self.read_with(Problems::remove_missing_of_servers, &mut Vec::new())
    }

    /// [`read`](Self::read) that also returns the other files that the configuration was read from,
    /// to watch them.
    pub(crate) fn read_watching(&self) -> (Result<Config, CliError>, Vec<PathBuf>) {
        let mut files = Vec::new();
        let read = self.read_with(Problems::remove_missing_of_servers, &mut files);
        (read, files)
    }

    /// [`read`](Self::read) for commands that start no server: an unset variable or another missing
    /// file is not an error.
    pub(crate) fn read_offline(&self) -> Result<Config, CliError> {
        self.read_with(Problems::remove_missing, &mut Vec::new())
    }

    fn read_with(&self, forgive: fn(&mut Problems), files: &mut Vec<PathBuf>) -> Result<Config, CliError> {
        let (config, mut problems) = self.examine()?;
        *files = problems.files().to_vec();
        forgive(&mut problems);
        if !problems.is_empty() {
            let problems = problems.lines().join("\n  ");
            return Err(CliError::new(format!("`{}` has errors:\n  {problems}", self.path.display())));
        }
        Ok(config)
    }

    pub(crate) fn text(&self) -> Result<&str, CliError> {
        std::str::from_utf8(&self.bytes)
            .map_err(|error| CliError::new(format!("`{}` is not UTF-8", self.path.display())).because(error))
    }

    /// Parses as much as possible, and returns it with all mistakes.
    pub(crate) fn examine(&self) -> Result<(Config, Problems), CliError> {
        let workspace = workspace_of(&self.path).to_string_lossy().into_owned();
        let env = |name: &str| match name {
            WORKSPACE_FOLDER => Some(workspace.clone()),
            name => std::env::var(name).ok(),
        };
        let (mut config, problems) = parse(self.text()?, &env);
        let folder = self.path.parent().unwrap_or(Path::new(""));
        config.catalogs.iter_mut().for_each(|catalog| *catalog = folder.join(&*catalog));
        config.model = config.model.map(|model| folder.join(model));
        config.state.start_from(folder);
        config.lint.baseline = config.lint.baseline.map(|baseline| folder.join(baseline));
        nesting::refuse_itself(&mut config.servers, &self.path);
        config.servers.iter_mut().for_each(hide_arguments);
        Ok((config, problems))
    }

    /// [`examine`](Self::examine) with variables as they are written instead of their values.
    pub(crate) fn as_written(&self) -> Result<(Config, Problems), CliError> {
        let (config, mut problems) = parse(self.text()?, &|name: &str| Some(format!("${{{name}}}")));
        problems.remove_missing();
        Ok((config, problems))
    }
}

/// Masks arguments of a server that look like secrets.
fn hide_arguments(server: &mut ServerConfig) {
    if let TransportConfig::Stdio { args, .. } = &server.transport {
        server.plain_secrets = secrets::find_in_args(args).into_iter().map(Secret::new).collect();
    }
}

/// Reads the configuration at `path`, for a command that starts no server.
pub(crate) fn read_offline(path: &Path) -> Result<Config, CliError> {
    Content::load(path)?.read_offline()
}

/// Checks a text that is about to be written to `path`; problems outside the file, such as an unset
/// variable, are ignored.
pub(crate) fn check(text: &str, path: &Path) -> Result<(), CliError> {
    let (_, mut problems) = parse(text, &|name: &str| std::env::var(name).ok());
    problems.remove_missing();
    if problems.is_empty() {
        return Ok(());
    }
    let problems = problems.lines().join("\n  ");
    Err(CliError::new(format!("`{}` would have errors and was not changed:\n  {problems}", path.display())))
}

/// Parses the configuration in `text`, and returns it with its mistakes.
pub(crate) fn parse(text: &str, env: Lookup<'_>) -> (Config, Problems) {
    let mut problems = Problems::new();
    let mut draft = ConfigDraft::default();
    if let Some(document) = Document::parse(text, &mut problems) {
        read_root(&document.root(), &mut draft, &mut Scope { env, problems: &mut problems });
    }
    (draft.finish(), problems)
}

fn read_root(root: &Node<'_>, draft: &mut ConfigDraft, scope: &mut Scope<'_>) {
    let Some(entries) = root.as_object(scope.problems) else { return };
    for entry in entries {
        check_root_key(&entry, scope.problems);
    }
    // Before `pegboard`, which takes precedence.
    if let Some(section) = root.get("httpServer") {
        let notices = http_server::read(&section, &mut draft.config.listen, scope);
        draft.config.notices.extend(notices);
    }
    draft.config.servers = read_servers(root, scope.env, scope.problems);
    for entry in servers::entries(root, &mut Problems::new()) {
        let own = entry.get("validateArguments").filter(|own| !own.is_null());
        if let Some(is_on) = own.and_then(|own| own.as_bool(scope.problems)) {
            draft.validation.servers.insert(entry.key().to_owned(), is_on);
        }
    }
    inherit::report_reserved(root, scope.problems);
    let mut found = MiddlewareConfig::default();
    middleware::read(root, &mut found, scope);
    draft.add_middleware(found);
    // Last, because it takes precedence over what follows from middleware.
    if let Some(section) = root.get("pegboard") {
        gateway::SECTION.read(&section, draft, scope);
        let servers: Vec<&str> = draft.config.servers.iter().map(|server| server.name.as_str()).collect();
        restrictions::check_selections(&section, &servers, scope.problems);
        draft.check_new_servers(&section, scope.problems);
    }
    restrictions::apply(root, &mut draft.config.gateway, scope.problems);
    draft.config.notices.extend(restrictions::unused_settings(root));
}

/// Checks a top-level key. Unknown ones are ignored, because the file may be shared with another
/// program; one that looks like a key of Pegboard is an error.
fn check_root_key(entry: &Node<'_>, problems: &mut Problems) {
    match entry.key() {
        "$schema" => _ = entry.as_text(problems),
        "mcp" => _ = entry.as_object(problems),
        key if root_shape().keys.iter().any(|known| known.name == key) => {}
        _ => misplaced_keys::check_root_key(entry, problems),
    }
}

const SERVERS: Kind = Kind::Map(&Kind::Object(servers::shape));

/// Returns the shape of the whole file, for the schema and the reference.
fn root_shape() -> Shape {
    Shape {
        name: "configuration",
        about: "MCP servers in the format of MCP clients, and settings of Pegboard.",
        keys: vec![
            KeyDoc::new("$schema", Kind::Text, "JSON Schema of this file, for editors."),
            KeyDoc::new(
                "mcpServers",
                SERVERS,
                "MCP servers by name, in the format of Claude Desktop, Cursor and others.",
            ),
            KeyDoc::new("servers", SERVERS, "MCP servers by name, in the format of VS Code's `mcp.json`."),
            KeyDoc::new("mcp", Kind::Object(vscode_shape), "MCP servers in the format of VS Code's `settings.json`."),
            KeyDoc::new("pegboard", Kind::Object(|| gateway::SECTION.shape()), "Settings of Pegboard."),
            KeyDoc::new("middleware", middleware::KIND, "Middleware for lists and calls."),
            KeyDoc::new(
                "httpServer",
                Kind::Object(http_server::shape),
                "Listener and middleware in the format of MCProxy.",
            ),
        ],
        ignored: &[],
        required: &[],
        required_one_of: &[],
        is_null_missing: false,
        // The file may be another program's.
        is_open: true,
    }
}

fn vscode_shape() -> Shape {
    Shape {
        name: "vscode",
        about: "The MCP section of VS Code's `settings.json`.",
        keys: vec![KeyDoc::new("servers", SERVERS, "MCP servers by name.")],
        ..root_shape()
    }
}
