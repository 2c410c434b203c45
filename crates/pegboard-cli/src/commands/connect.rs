//! `pegboard connect`.

mod list;
pub(super) mod llm;
mod replaced_servers;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use clap::Args;

pub(crate) use self::list::user_clients;
use self::{
    llm::Program,
    replaced_servers::{ReplacedServers, find_replaced_servers},
};
use crate::{
    Outcome,
    cli::options::OutputArgs,
    clients::{
        Client,
        config_files::{ConfigLocation, Os, SystemEnvironment},
        edit,
        edit::EditError,
        hooks,
        pegboard_entry::{self, GatewayAccess, NAME},
        read, variables, write,
    },
    error::{CliError, say, warn},
    output,
    source::Source,
};

#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// MCP client, or with `--llm` any program in this list that sends its requests to an LLM API
    #[arg(value_name = "CLIENT")]
    client: Option<Program>,

    /// Configuration file with the servers [default: `pegboard.json` in this folder or above, else
    /// your user configuration]
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    config: Option<PathBuf>,

    /// Connect the client to the gateway at this address, instead of letting it start one
    #[arg(long, value_name = "URL")]
    http: Option<String>,

    /// Write the client's file; a backup is kept next to it
    #[arg(long)]
    write: bool,

    /// Write the client's file even if the client is not installed
    #[arg(long, requires = "write")]
    force: bool,

    /// Use the client's file in this project, instead of the user's
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,

    /// Remove servers from the client's file that are also in the configuration
    #[arg(long)]
    replace: bool,

    /// State folder with the list of trusted files [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    state: Option<String>,

    /// Also install a hook that suggests tools to the model with each message (Claude Code)
    #[arg(long)]
    hook: bool,

    /// Set the address of the program's LLM API instead, so that it sends its requests through `pegboard proxy`
    #[arg(
        long,
        value_name = "URL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = crate::clients::llm::DEFAULT_URL,
        conflicts_with_all = ["config", "http", "project", "replace", "hook"]
    )]
    llm: Option<String>,

    /// List the clients, and whether they use Pegboard
    #[arg(long, conflicts_with_all = ["client", "http", "write", "replace", "hook", "llm"])]
    list: bool,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &ConnectArgs) -> Result<Outcome, CliError> {
    let env = |name: &str| std::env::var(name).ok();
    let surroundings = SystemEnvironment { os: Os::current(), env: &env };
    if args.client.is_none() && !args.list {
        let names = Client::ALL.map(|client| client.id()).join(", ");
        return Err(CliError::new("no client was named")
            .hint(format!("name one of {names}; `pegboard connect --list` shows which are installed")));
    }
    let Some(program) = args.client.filter(|_| !args.list) else {
        return list::run(&surroundings, args.project.as_deref(), args.output.format());
    };
    if let Some(url) = &args.llm {
        return llm::connect(program.llm()?, url, args.write, args.force, &surroundings);
    }
    let client = program.client()?;
    let source = configuration(args)?;
    let config = source.as_ref().and_then(Source::path);
    let access = access(args.http.as_deref(), client, source.as_ref())?;
    let place = place(client, args.project.as_deref(), &surroundings)?;
    if args.write && !args.force && place.project.is_none() && !list::is_found(&place, &surroundings) {
        return Err(not_installed(&place));
    }
    let edit = PlannedEdit::plan(place, &access, config.filter(|_| args.replace))?;
    let doubled = if args.replace { Vec::new() } else { find_duplicates(&edit.place, args.config.as_deref()) };
    let hook = args.hook.then(|| hook(args, client, source.as_ref(), &surroundings)).transpose()?;
    let outcome = if args.write { edit.write() } else { edit.print() }?;
    if let Some((path, command)) = hook {
        write_hook(&path, &command, args.write)?;
    }
    access.say_variables(client);
    if !doubled.is_empty() {
        let names: Vec<String> = doubled.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
        say(&format!(
            "{} also has these servers of its own, so the model sees their tools twice: {}; `--replace` removes \
             them from its file",
            client.title(),
            names.join(", ")
        ));
    }
    Ok(outcome)
}

/// Returns the error for a client without a file or a folder for it.
fn not_installed(place: &ConfigLocation) -> CliError {
    let title = place.client.title();
    CliError::new(format!("{title} is not installed: neither `{}` nor a folder for it exists", place.path.display()))
        .hint(format!("start {title} once, or use `--force` to create the file anyway"))
}

/// Returns the client's servers that are also in Pegboard's configuration.
fn find_duplicates(place: &ConfigLocation, config: Option<&Path>) -> Vec<String> {
    let source = Source::find(config, false);
    let content = read::read(place).ok().flatten();
    let (Some(config), Some(content)) = (source.path(), content) else { return Vec::new() };
    find_replaced_servers(&content, place.project.as_deref(), config).map(|replaced| replaced.names).unwrap_or_default()
}

/// Returns the file and the command line of the prompt hook.
fn hook(
    args: &ConnectArgs,
    client: Client,
    source: Option<&Source>,
    surroundings: &SystemEnvironment<'_>,
) -> Result<(PathBuf, String), CliError> {
    if client != Client::ClaudeCode {
        return Err(CliError::new(format!("`--hook` works only with Claude Code, not with {}", client.title())));
    }
    if args.http.is_some() {
        return Err(CliError::new(
            "`--hook` cannot be combined with `--http`: the hook finds the gateway by its configuration file",
        )
        .hint("omit `--http` on the machine that has the configuration, or omit `--hook`"));
    }
    let (Some(source), Some(config)) = (source, source.and_then(Source::path)) else {
        return Err(CliError::new("`--hook` needs a configuration file").hint("name it with `--config`"));
    };
    let path = hooks::file(surroundings, args.project.as_deref())
        .ok_or_else(|| CliError::new("no folder for Claude Code's settings: `HOME` is not set"))?;
    let program = std::env::current_exe()
        .map_err(|error| CliError::new("cannot find the path of this program").because(error))?;
    let command = hooks::command(
        &pegboard_entry::absolute_path(&program),
        &pegboard_entry::absolute_path(config),
        source.needs_trust(),
    );
    Ok((path, command))
}

/// Installs the hook in the client's settings, or prints it.
fn write_hook(path: &Path, command: &str, is_written: bool) -> Result<(), CliError> {
    let shown = path.display();
    let old = read::text(path).map_err(|error| unreadable(path, &error))?;
    let new =
        hooks::with(old.as_deref().unwrap_or_default(), command).map_err(|error| explain_edit_error(path, &error))?;
    if !is_written {
        say(&format!("a `UserPromptSubmit` hook with the command `{command}` goes into `{shown}`"));
        return Ok(());
    }
    if old.as_deref() != Some(new.as_str()) {
        write::replace(path, old.as_deref(), &new)?;
    }
    say(&format!("wrote the hook to `{shown}`; it needs a running gateway (`pegboard serve`)"));
    Ok(())
}

/// Returns the configuration to serve; `None` if a gateway has it already.
fn configuration(args: &ConnectArgs) -> Result<Option<Source>, CliError> {
    if args.http.is_some() && !args.replace {
        return Ok(None);
    }
    let source = Source::find(args.config.as_deref(), false);
    source.file()?;
    source.announce();
    // A client would only say that its server has ended.
    source.read_offline(args.state.as_deref())?;
    Ok(Some(source))
}

/// Returns how a client reaches the gateway: at this URL, or by starting one with the configuration.
pub(crate) fn access(url: Option<&str>, client: Client, source: Option<&Source>) -> Result<GatewayAccess, CliError> {
    if let Some(url) = url {
        if !pegboard_entry::accepts_urls(client) {
            return Err(CliError::new(format!("{} can only start local programs", client.title()))
                .hint("omit `--http` to let it start Pegboard itself"));
        }
        return Ok(GatewayAccess::Http { url: endpoint(url)? });
    }
    let program = std::env::current_exe()
        .map_err(|error| CliError::new("cannot find the path of this program").because(error))?;
    let config = source.and_then(Source::path).unwrap_or(Path::new(""));
    let checks_trust = source.is_some_and(Source::needs_trust);
    let variables = needed_variables(config)?;
    Ok(GatewayAccess::Stdio {
        program: pegboard_entry::absolute_path(&program),
        config: pegboard_entry::absolute_path(config),
        checks_trust,
        variables,
    })
}

/// Variables that are always set.
const USUAL: &[&str] = &["HOME", "PATH", "USER"];

/// Returns the variables that `config` needs.
fn needed_variables(config: &Path) -> Result<Vec<String>, CliError> {
    let servers = read::read_own(config).map_err(|error| unreadable(config, &error))?.unwrap_or_default();
    let enabled = servers.iter().filter(|(_, server)| !server.is_disabled);
    let names = enabled.flat_map(|(_, server)| server.texts()).flat_map(variables::required_variables);
    let names: BTreeSet<&str> = names.filter(|name| !USUAL.contains(name)).collect();
    Ok(names.into_iter().map(str::to_owned).collect())
}

fn unreadable(path: &Path, error: &read::ReadError) -> CliError {
    CliError::new(format!("`{}` {error}", path.display()))
}

impl GatewayAccess {
    /// Prints which variables the client must pass on.
    fn say_variables(&self, client: Client) {
        let Self::Stdio { variables, .. } = self else { return };
        if variables.is_empty() {
            return;
        }
        let (title, names) = (client.title(), variables.join(", "));
        if pegboard_entry::forwards_variables(client) {
            say(&format!("the configuration needs environment variables; start {title} with them set: {names}"));
        } else {
            warn(&format!(
                "{title} does not pass environment variables on: set {names} under `env` of the entry, or in a \
                 file named by `envFile` of the servers"
            ));
        }
    }
}

/// Returns the endpoint of a gateway; an address without a path gets the default one.
fn endpoint(url: &str) -> Result<String, CliError> {
    let is_address = |scheme: &str| url.strip_prefix(scheme).filter(|rest| !rest.is_empty() && !rest.starts_with('/'));
    let Some(rest) = is_address("http://").or_else(|| is_address("https://")) else {
        return Err(
            CliError::new(format!("`{url}` is not an HTTP address")).hint("for example `http://127.0.0.1:8080/mcp`")
        );
    };
    let has_path = rest.trim_end_matches('/').contains('/');
    Ok(if has_path { url.to_owned() } else { format!("{}{}", url.trim_end_matches('/'), pegboard_gateway::ENDPOINT) })
}

pub(crate) fn place(
    client: Client,
    project: Option<&Path>,
    surroundings: &SystemEnvironment<'_>,
) -> Result<ConfigLocation, CliError> {
    let project = project.map(std::path::absolute).transpose()?;
    let mut places = surroundings.places(client, project.as_deref());
    places.retain(|place| place.project == project);
    if places.is_empty() {
        return Err(match project {
            Some(_) => {
                CliError::new(format!("{} has no project configuration file", client.title())).hint("omit `--project`")
            }
            None => CliError::new("cannot find your home folder"),
        });
    }
    Ok(places.swap_remove(0))
}

/// A planned change of a client's file.
pub(crate) struct PlannedEdit {
    pub(crate) place: ConfigLocation,
    /// The present text of the file, if it exists.
    pub(crate) old: Option<String>,
    pub(crate) new: String,
    /// Pegboard's entry.
    pub(crate) entry: serde_json::Value,
    /// The name under which the client has the same entry already.
    connected_as: Option<String>,
    /// The client's own servers that are replaced.
    pub(crate) replaced: ReplacedServers,
}

impl PlannedEdit {
    pub(crate) fn plan(
        place: ConfigLocation,
        access: &GatewayAccess,
        replacing: Option<&Path>,
    ) -> Result<Self, CliError> {
        let syntax = place.client.syntax();
        let refused = |error: EditError| explain_edit_error(&place.path, &error);
        let old = read::text(&place.path).map_err(|error| unreadable(&place.path, &error))?;
        let text = old.as_deref().unwrap_or_default();
        let content = read::read(&place).ok().flatten().unwrap_or_default();
        let there = edit::get(text, syntax, place.keys, NAME).map_err(refused)?;
        let fresh = pegboard_entry::entry(place.client, access);
        let entry = pegboard_entry::merge_entry(there.as_ref(), &fresh);
        let mut connected_as = (there.as_ref() == Some(&entry)).then(|| NAME.to_owned());
        if there.is_none() {
            connected_as = other_name(text, &place, &content, &fresh);
        }
        let mut new = match &connected_as {
            Some(_) => text.to_owned(),
            None => edit::set(text, syntax, place.keys, NAME, &entry).map_err(refused)?,
        };
        let replaced = match replacing {
            Some(config) => find_replaced_servers(&content, place.project.as_deref(), config)?,
            None => ReplacedServers::default(),
        };
        for name in &replaced.names {
            new = edit::remove(&new, syntax, place.keys, name).map_err(refused)?;
        }
        Ok(Self { old, new, entry, connected_as, replaced, place })
    }

    /// Prints the change for the user to make.
    fn print(&self) -> Result<Outcome, CliError> {
        output::text(&pegboard_entry::render(self.place.client, self.place.keys, &self.entry))?;
        let path = self.place.path.display();
        match &self.connected_as {
            Some(name) => say(&format!("`{path}` already contains this entry, as `{name}`")),
            None => say(&format!("add this to `{path}`, or let `--write` do it")),
        }
        self.replaced.say("would be removed");
        Ok(Outcome::Yes)
    }

    fn write(&self) -> Result<Outcome, CliError> {
        let path = self.place.path.display();
        let title = self.place.client.title();
        if self.old.as_deref() == Some(self.new.as_str()) {
            say(&format!("{title} already uses Pegboard: nothing to change in `{path}`"));
            self.replaced.say("removed");
            return Ok(Outcome::Yes);
        }
        let backup = write::replace(&self.place.path, self.old.as_deref(), &self.new)?;
        say(&format!("wrote `{path}`"));
        if let Some(backup) = backup {
            say(&format!("backup of the old file: `{}`", backup.display()));
        }
        self.replaced.say("removed");
        say(&format!("restart {title} to use Pegboard"));
        if self.place.project.is_some() && matches!(self.place.client, Client::Codex | Client::ClaudeCode) {
            warn(&format!("{title} asks for permission before it uses a project's servers"));
        }
        Ok(Outcome::Yes)
    }
}

/// Returns the name under which the client has Pegboard's entry already, if that is not the usual
/// one.
fn other_name(
    text: &str,
    place: &ConfigLocation,
    content: &read::ClientServers,
    fresh: &serde_json::Value,
) -> Option<String> {
    let is_same = |name: &str| {
        let entry = edit::get(text, place.client.syntax(), place.keys, name).ok().flatten();
        entry.is_some_and(|entry| pegboard_entry::merge_entry(Some(&entry), fresh) == entry)
    };
    let in_place = content.entries.iter().filter(|entry| entry.project == place.project);
    in_place.map(|entry| entry.name.clone()).find(|name| is_same(name))
}

pub(super) fn explain_edit_error(path: &Path, error: &EditError) -> CliError {
    CliError::new(format!("cannot change `{}`: {error}", path.display()))
        .hint("fix the file, or add the entry that `pegboard connect` prints without `--write` yourself")
}
