//! `pegboard add`, `remove`, `enable` and `disable`: edits of the configuration file.

use std::path::PathBuf;

use clap::Args;
use pegboard_config::keys::did_you_mean;
use pegboard_gateway::control;
use serde_json::{Map, Value, json};

use super::serve::runtime;
use crate::{
    Outcome,
    clients::{edit, read, sections, write},
    config,
    error::{CliError, say, warn},
    gateway_client, nesting,
    source::{self, Source},
    trust,
};

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name of the server
    #[arg(value_name = "NAME")]
    name: String,

    /// URL of a remote server
    #[arg(value_name = "URL", conflicts_with = "command")]
    url: Option<String>,

    /// Program to start as the server, and its arguments
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<String>,

    /// Environment variable for the program; `KEY=${VAR}` takes the value from your environment
    #[arg(long, short, value_name = "KEY=VALUE")]
    env: Vec<String>,

    /// Header to send with every request to a remote server
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    header: Vec<String>,

    /// Replace an existing server of this name
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    file: FileArgs,
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Name of the server
    #[arg(value_name = "SERVER")]
    server: String,

    #[command(flatten)]
    file: FileArgs,
}

/// Flags that select the file to edit.
#[derive(Debug, Args)]
struct FileArgs {
    /// Configuration file [default: `pegboard.json` in this folder or above, else your user configuration]
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    config: Option<PathBuf>,

    /// State folder with the list of trusted files [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    state: Option<String>,
}

pub(crate) fn add(args: &AddArgs) -> Result<Outcome, CliError> {
    if args.name.trim().is_empty() {
        return Err(CliError::new("the name of the server is blank"));
    }
    let server = entry(args)?;
    let file = File::open(&args.file, true)?;
    refuse_itself(args, &file)?;
    if sections::find_server(&file.value, &args.name).is_some() && !args.force {
        return Err(CliError::new(format!("`{}` already has a server `{}`", file.path.display(), args.name))
            .hint("`--force` replaces it"));
    }
    let section = sections::find_server(&file.value, &args.name).map(|(section, _)| section);
    let section = section.unwrap_or_else(|| sections::section_for_new(&file.value));
    let text = edit::json::set(&file.text(), section, &args.name, &server);
    let has_values = [&args.env, &args.header].into_iter().flatten().any(|pair| !is_reference(pair));
    let outcome = file.write(text, &format!("added `{}` to", args.name), has_values)?;
    if let Some(program) = args.command.first().filter(|program| !is_program(program)) {
        warn(&format!("no program `{program}` on this machine; `pegboard doctor` checks the configuration"));
    }
    Ok(outcome)
}

/// Rejects a server that would start the gateway of this very file.
fn refuse_itself(args: &AddArgs, file: &File<'_>) -> Result<(), CliError> {
    let Some((command, rest)) = args.command.split_first() else { return Ok(()) };
    let named = args.env.iter().find_map(|pair| pair.strip_prefix("PEGBOARD_CONFIG="));
    match nesting::serves(command, rest, named, None, &file.path) {
        true => Err(CliError::new(format!("`{}` was not added: {}", args.name, nesting::SERVES_ITSELF))
            .hint("name another configuration after `serve`, or add the servers themselves")),
        false => Ok(()),
    }
}

/// Returns whether the value of a `KEY=VALUE` or a `NAME: VALUE` is only a variable without a
/// default.
fn is_reference(pair: &str) -> bool {
    let value = pair.split_once(['=', ':']).map_or(pair, |(_, value)| value).trim();
    let name = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.contains(['$', '{', '}']) && !name.contains(":-"))
}

/// Returns whether a command is a file, or a program in a folder of `PATH`. Variables may name
/// anything.
fn is_program(command: &str) -> bool {
    if command.contains("${") {
        return true;
    }
    let is_file =
        |path: PathBuf| path.is_file() || path.with_extension("exe").is_file() || path.with_extension("cmd").is_file();
    match command.contains(['/', '\\']) {
        true => is_file(PathBuf::from(command)),
        false => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| is_file(folder.join(command)))
        }
    }
}

pub(crate) fn remove(args: &NameArgs) -> Result<Outcome, CliError> {
    let file = File::open(&args.file, false)?;
    let Some((section, _)) = sections::find_server(&file.value, &args.server) else {
        return Err(file.missing(&args.server));
    };
    let text = edit::json::remove(&file.text(), section, &args.server);
    file.write(text, &format!("removed `{}` from", args.server), false)
}

pub(crate) fn enable(args: &NameArgs) -> Result<Outcome, CliError> {
    switch(args, true)
}

pub(crate) fn disable(args: &NameArgs) -> Result<Outcome, CliError> {
    switch(args, false)
}

fn switch(args: &NameArgs, is_on: bool) -> Result<Outcome, CliError> {
    let file = File::open(&args.file, false)?;
    let text = switched(&file, &args.server, is_on)?;
    file.write(text, &format!("{} `{}` in", if is_on { "enabled" } else { "disabled" }, args.server), false)
}

/// Enables or disables a server in the configuration of a running gateway, which reads it afterwards.
pub(crate) fn switch_server(source: &Source, state: Option<&str>, server: &str, is_on: bool) -> Result<(), CliError> {
    let file = File::of(source.clone(), state, false)?;
    let text = switched(&file, server, is_on)?;
    file.store(text, false).map(drop)
}

/// Hides tools of a server, by their names at the server, in the configuration of a running gateway.
pub(crate) fn hide_tools(source: &Source, state: Option<&str>, server: &str, tools: &[String]) -> Result<(), CliError> {
    let file = File::of(source.clone(), state, false)?;
    let Some((section, _)) = sections::find_server(&file.value, server) else { return Err(file.missing(server)) };
    let hide = |text: String, tool: &String| {
        let keys = [section, &[server, "pegboard", "tools", tool.as_str()]].concat();
        edit::json::set(&text, &keys, "hidden", &json!(true))
    };
    file.store(tools.iter().try_fold(file.text(), hide), false).map(drop)
}

/// Returns the text of a file in which a server is enabled or disabled.
fn switched(file: &File<'_>, name: &str, is_on: bool) -> Result<Result<String, edit::EditError>, CliError> {
    let Some((section, server)) = sections::find_server(&file.value, name) else {
        return Err(file.missing(name));
    };
    let keys = [section, &[name]].concat();
    let has = |key: &str| server.get(key).is_some();
    let text = file.text();
    // Some clients write `enabled`; what is not written is not needed to switch a server on.
    let text = match (has("enabled"), is_on) {
        (true, _) => edit::json::set(&text, &keys, "enabled", &json!(is_on)),
        (false, false) => Ok(text),
        (false, true) => edit::json::remove(&text, &keys, "disabled"),
    };
    Ok(text.and_then(|text| match is_on || has("enabled") && !has("disabled") {
        true if has("disabled") => edit::json::remove(&text, &keys, "disabled"),
        true => Ok(text),
        false => edit::json::set(&text, &keys, "disabled", &json!(true)),
    }))
}

/// Returns the entry of the server for the configuration.
fn entry(args: &AddArgs) -> Result<Value, CliError> {
    if args.url.is_none() && args.command.is_empty() {
        return Err(CliError::new(format!("nothing says where the server `{}` is", args.name)).hint(format!(
            "`pegboard add {0} -- COMMAND` for a program, `pegboard add {0} URL` for a remote server",
            args.name
        )));
    }
    let mut server = Map::new();
    if let Some(url) = &args.url {
        let is_address = ["http://", "https://"].iter().any(|scheme| url.to_lowercase().starts_with(scheme));
        if !is_address {
            return Err(CliError::new(format!("`{url}` is not an http or https URL"))
                .hint(format!("to add a program, put `--` before it: `pegboard add {} -- {url}`", args.name)));
        }
        server.insert("url".to_owned(), json!(url));
    }
    if let Some((program, rest)) = args.command.split_first() {
        server.insert("command".to_owned(), json!(program));
        if !rest.is_empty() {
            server.insert("args".to_owned(), json!(rest));
        }
    }
    let pairs = |texts: &[String], sign: char, form: &str| {
        let pair = |text: &String| match text.split_once(sign) {
            Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), json!(value.trim()))),
            _ => Err(CliError::new(format!("`{text}` is not in the form {form}"))),
        };
        texts.iter().map(pair).collect::<Result<Map<String, Value>, CliError>>()
    };
    let (env, headers) = (pairs(&args.env, '=', "KEY=VALUE")?, pairs(&args.header, ':', "NAME: VALUE")?);
    for (key, values) in [("env", env), ("headers", headers)] {
        if !values.is_empty() {
            server.insert(key.to_owned(), Value::Object(values));
        }
    }
    Ok(Value::Object(server))
}

/// A configuration file to edit.
struct File<'a> {
    path: PathBuf,
    source: Source,
    state: Option<&'a str>,
    old: Option<String>,
    value: Value,
}

impl<'a> File<'a> {
    /// Opens the selected file; if there is none, the user configuration if it `may_be_new`.
    fn open(args: &'a FileArgs, may_be_new: bool) -> Result<Self, CliError> {
        Self::of(Source::find(args.config.as_deref(), false), args.state.as_deref(), may_be_new)
    }

    /// Opens the file of a source.
    fn of(source: Source, state: Option<&'a str>, may_be_new: bool) -> Result<Self, CliError> {
        let path = match source.path() {
            Some(path) => path.to_owned(),
            None if may_be_new => source::own_file()?,
            None => source.file()?.to_owned(),
        };
        let unreadable = |error: &dyn std::fmt::Display| CliError::new(format!("`{}` {error}", path.display()));
        let old = read::text(&path).map_err(|error| unreadable(&error))?;
        let value = edit::json::to_json(old.as_deref().unwrap_or_default()).map_err(|error| unreadable(&error))?;
        Ok(Self { path, source, state, old, value })
    }

    fn text(&self) -> String {
        self.old.clone().unwrap_or_default()
    }

    /// Returns the error that the file has no server of this name.
    fn missing(&self, name: &str) -> CliError {
        let names = sections::server_names(&self.value);
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let error = CliError::new(format!("`{}` has no server `{name}`", self.path.display()));
        match did_you_mean(name, known.iter().copied()) {
            Some(near) => error.hint(near),
            None if known.is_empty() => error.hint("it has no servers; `pegboard add` adds one"),
            None => error.hint(format!("its servers: {}", known.join(", "))),
        }
    }

    /// Writes the changed text, if it is still a valid configuration, and prints `done` before the
    /// name of the file. A file that `becomes_private` can afterwards only be read by its owner.
    fn write(
        self,
        new: Result<String, edit::EditError>,
        done: &str,
        becomes_private: bool,
    ) -> Result<Outcome, CliError> {
        let shown = self.path.display().to_string();
        let before = self.store(new, becomes_private)?;
        say(&format!("{done} {shown}"));
        if self.source.needs_trust() && !before {
            say("the file is not trusted, so no server in it is started: `pegboard trust` shows what it starts");
        }
        self.reload();
        Ok(Outcome::Yes)
    }

    /// Writes the changed text, if it is still a valid configuration; returns whether the file was trusted
    /// before and still is.
    fn store(&self, new: Result<String, edit::EditError>, becomes_private: bool) -> Result<bool, CliError> {
        let shown = self.path.display();
        let new = new.map_err(|error| CliError::new(format!("cannot change `{shown}`: {error}")))?;
        config::check(&new, &self.path)?;
        // A trusted file stays trusted: the user makes the change. It is trusted before it is
        // written, so that a running gateway does not see it untrusted.
        let before = self.trusted_before()?;
        if before.is_some() {
            trust::trust(&trust::Trusted::of(&self.path, new.as_bytes())?, self.state)?;
        }
        let written = match self.old.as_deref() {
            Some(old) => write::update(&self.path, old, &new, becomes_private),
            None => write::write_private(&self.path, None, &new).map(|_| ()),
        };
        if let (Err(_), Some(before)) = (&written, &before) {
            trust::trust(before, self.state)?;
        }
        written?;
        Ok(before.is_some())
    }

    /// Returns the trust of the file before the change, if it needs trust and has it.
    fn trusted_before(&self) -> Result<Option<trust::Trusted>, CliError> {
        if !self.source.needs_trust() {
            return Ok(None);
        }
        let before = trust::Trusted::of(&self.path, self.text().as_bytes())?;
        Ok(trust::is_trusted(&before, self.state).then_some(before))
    }

    /// Makes a running gateway reload the file now. It would notice the change by itself, so errors
    /// are ignored.
    fn reload(&self) {
        let Ok(Some(endpoint)) = gateway_client::running_endpoint(&self.source, self.state) else { return };
        let Ok(runtime) = runtime() else { return };
        match runtime.block_on(endpoint.post(control::RELOAD, &[], "{}".to_owned())) {
            Ok(_) => say("the running gateway has read the change"),
            Err(error) => warn(&format!("the running gateway has not read the change: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn servers_in(path: &Path) -> Value {
        let text = fs::read_to_string(path).expect("a file");
        let root = edit::json::to_json(&text).expect("JSON");
        let servers = sections::sections(&root).flat_map(|(_, servers)| servers.clone());
        servers.collect::<Map<String, Value>>().into()
    }

    /// Checks the text of a file after a change.
    fn check(name: &str, text: &str, change: impl FnOnce(FileArgs) -> Result<Outcome, CliError>, expected: &Value) {
        let root = std::env::temp_dir().join(format!("pegboard-servers-{name}-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a folder");
        let path = root.join("x.json");
        fs::write(&path, text).expect("a file");
        let args = FileArgs { config: Some(path.clone()), state: Some("none".to_owned()) };
        assert_eq!(change(args).map_err(|error| error.to_string()), Ok(Outcome::Yes), "{name}");
        assert_eq!(&servers_in(&path), expected, "{name}");
        let now = fs::read_to_string(&path).expect("a file");
        assert!(now.contains("// mine"), "{name}: {now}");
        let _ = fs::remove_dir_all(root);
    }

    #[test]
    fn changes_keep_comments() {
        let text = "{\n  // mine\n  \"mcpServers\": {\"a\": {\"command\": \"x\"}}\n}\n";
        let off = "{\n  // mine\n  \"mcpServers\": {\"a\": {\"command\": \"x\", \"disabled\": true}}\n}\n";
        let named = |file| NameArgs { server: "a".to_owned(), file };
        let one = json!({"a": {"command": "x"}});
        check("disable", text, |file| disable(&named(file)), &json!({"a": {"command": "x", "disabled": true}}));
        check("enable", off, |file| enable(&named(file)), &one);
        check("again", text, |file| enable(&named(file)), &one);
        check("remove", text, |file| remove(&named(file)), &json!({}));
        let several = "{\n  // mine\n  \"mcpServers\": {\"b\": {\"command\": \"y\"}},\n  \"mcp\": {\"servers\": {\"a\": \
                       {\"command\": \"x\"}}}\n}\n";
        let both = json!({"b": {"command": "y"}, "a": {"command": "x", "disabled": true}});
        check("several-disable", several, |file| disable(&named(file)), &both);
        check("several-remove", several, |file| remove(&named(file)), &json!({"b": {"command": "y"}}));
        let enabled = "{\n  // mine\n  \"mcpServers\": {\"a\": {\"command\": \"x\", \"enabled\": true}}\n}\n";
        check("enabled", enabled, |file| disable(&named(file)), &json!({"a": {"command": "x", "enabled": false}}));
        let added = |file| {
            add(&AddArgs {
                name: "b".to_owned(),
                url: None,
                command: vec!["run".to_owned(), "-y".to_owned()],
                env: vec!["K=${V:-x=y}".to_owned()],
                header: Vec::new(),
                force: false,
                file,
            })
        };
        let both = json!({"a": {"command": "x"}, "b": {"command": "run", "args": ["-y"], "env": {"K": "${V:-x=y}"}}});
        check("add", text, added, &both);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_with_a_new_secret_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = std::env::temp_dir().join(format!("pegboard-servers-private-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a folder");
        let path = root.join("x.json");
        let check = |env: &[&str], header: &[&str], mode: u32| {
            fs::write(&path, "{}").expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("rights");
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            let added = add(&AddArgs {
                name: "b".to_owned(),
                url: (!header.is_empty()).then(|| "https://b.example".to_owned()),
                command: if header.is_empty() { texts(&["run"]) } else { Vec::new() },
                env: texts(env),
                header: texts(header),
                force: false,
                file: FileArgs { config: Some(path.clone()), state: Some("none".to_owned()) },
            });
            assert_eq!(added.map_err(|error| error.to_string()), Ok(Outcome::Yes));
            let found = fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
            assert_eq!(found, mode, "{env:?} {header:?}");
        };
        check(&[], &[], 0o644);
        check(&["K=${V}"], &[], 0o644);
        check(&["K=secret"], &[], 0o600);
        check(&["K=${V:-secret}"], &[], 0o600);
        check(&[], &["Authorization: ${V}"], 0o644);
        check(&[], &["Authorization: Bearer secret"], 0o600);
        let _ = fs::remove_dir_all(root);
    }
}
