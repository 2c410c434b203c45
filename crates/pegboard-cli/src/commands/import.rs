//! `pegboard import`.

mod merge;
mod show;
mod survey;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::{Map, Value};

use self::{
    merge::{Existing, Plan},
    survey::Survey,
};
use crate::{
    Outcome,
    cli::options::{Format, OutputArgs},
    clients::{
        Client,
        config_files::{Os, SystemEnvironment, project_of},
        edit,
        edit::json::render,
        read,
        secrets::{self, MovedSecret},
        sections,
        show::{printable, printable_line, quote_path, shorten_path},
        variables, write,
    },
    config,
    error::{CliError, say, warn},
    output, trust,
};

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Import from this client only
    #[arg(long, value_name = "CLIENT", value_delimiter = ',')]
    from: Vec<Client>,

    /// Include the servers in the client files of this project [default: on a terminal, ask whether to
    /// include those of the project of the current folder; otherwise leave them out]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,

    /// Write the configuration to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write the configuration to your user configuration, which all commands use by default
    #[arg(long, conflicts_with = "output")]
    write: bool,

    /// Only show what would be written (the default)
    #[arg(long, conflicts_with_all = ["output", "write"])]
    dry_run: bool,

    /// Replace an existing file instead of adding the servers that it lacks; a backup is kept next to it
    #[arg(long)]
    force: bool,

    /// Replace plain-text secrets with variables, and list the variables to set
    #[arg(long)]
    secrets_to_env: bool,

    #[command(flatten)]
    format: OutputArgs,
}

pub(crate) fn run(args: &ImportArgs) -> Result<Outcome, CliError> {
    let env = |name: &str| std::env::var(name).ok();
    let surroundings = SystemEnvironment { os: Os::current(), env: &env };
    let target = target(args, &surroundings)?;
    let target = target.map(|path| ImportTarget::open(path, args.force)).transpose()?;

    let project = match &args.project {
        Some(folder) => std::path::absolute(folder).map_err(|error| CliError::read(folder, error))?,
        None => project_of(&std::env::current_dir().map_err(|error| CliError::read(Path::new("."), error))?),
    };
    let clients = if args.from.is_empty() { Client::ALL.to_vec() } else { args.from.clone() };
    let mut survey = Survey::take(&surroundings, &clients, &project, args.project.is_some());
    if target.is_some() {
        ask_for_trust(&mut survey)?;
    }
    let existing = target.as_ref().map(ImportTarget::existing).transpose()?.unwrap_or_default();
    let known = existing.names.len();
    let mut report = Report::new(Plan::of(&survey, existing), survey, &surroundings, args.secrets_to_env);
    if report.plan.servers.is_empty() {
        report.print(args.format.format())?;
        report.warn();
        let has_left_out = report.say_left_out();
        if known > 0 {
            say(&format!("nothing to add: the configuration has {}", output::pluralize(known, "server")));
            return Ok(Outcome::Yes);
        }
        if !has_left_out {
            say("no servers found; `pegboard connect --list` shows the files that were searched");
        }
        return Ok(Outcome::No);
    }
    if let Some(target) = target {
        report.dropped = target.dropped(&report.plan);
        report.backup = target.write(&report)?;
        report.written = Some(target.path);
    }
    report.print(args.format.format())?;
    report.warn();
    report.say(&surroundings);
    Ok(Outcome::Yes)
}

/// Asks on a terminal whether to import the servers of the project's own files.
fn ask_for_trust(survey: &mut Survey) -> Result<(), CliError> {
    let servers = survey.untrusted();
    if servers.is_empty() || !trust::can_ask() {
        return Ok(());
    }
    say("files of this project have servers, which start or connect to:");
    for (name, line) in servers {
        say(&format!("  {}: {}", printable(name), printable_line(&line)));
    }
    if trust::ask("Import these servers too?")? {
        survey.trust();
    }
    Ok(())
}

/// Returns the file to write, if any.
fn target(args: &ImportArgs, surroundings: &SystemEnvironment<'_>) -> Result<Option<PathBuf>, CliError> {
    if !args.write {
        return Ok(args.output.clone());
    }
    match surroundings.own_configuration() {
        Some(path) => Ok(Some(path)),
        None => Err(CliError::new("cannot find your home folder").hint("name a file with `--output`")),
    }
}

/// The file to write.
struct ImportTarget {
    path: PathBuf,
    /// The present text of the file, if it exists.
    old: Option<String>,
    /// Whether the file is replaced instead of extended.
    is_replaced: bool,
}

impl ImportTarget {
    fn open(path: PathBuf, is_replaced: bool) -> Result<Self, CliError> {
        let old = read::text(&path).map_err(|error| CliError::new(format!("`{}` {error}", path.display())))?;
        let is_blank = old.as_deref().is_none_or(|text| text.trim().is_empty());
        Ok(Self { path, old, is_replaced: is_replaced || is_blank })
    }

    /// Returns the servers that stay.
    fn existing(&self) -> Result<Existing, CliError> {
        if self.is_replaced {
            return Ok(Existing::default());
        }
        let unusable = |error: &dyn std::fmt::Display| {
            CliError::new(format!("cannot add to `{}`: {error}", self.path.display()))
                .hint("`--force` replaces the file and keeps a backup next to it")
        };
        let servers = read::read_own(&self.path).map_err(|error| unusable(&error))?.unwrap_or_default();
        Ok(Existing { servers, names: self.names() })
    }

    /// Returns the names of the servers in the file.
    fn names(&self) -> Vec<String> {
        sections::server_names(&self.value())
    }

    /// Returns the content of the file, as far as it can be parsed.
    fn value(&self) -> Value {
        edit::json::to_json(self.old.as_deref().unwrap_or_default()).unwrap_or_default()
    }

    /// Returns the servers that a replaced file loses.
    fn dropped(&self, plan: &Plan) -> Vec<String> {
        let is_kept = |name: &String| !self.is_replaced || plan.servers.iter().any(|(kept, _)| kept == name);
        self.names().into_iter().filter(|name| !is_kept(name)).collect()
    }

    /// Writes the servers of the report, and returns the path of the backup.
    fn write(&self, report: &Report) -> Result<Option<PathBuf>, CliError> {
        let Some(old) = self.old.as_deref().filter(|_| !self.is_replaced) else {
            return Ok(write::write_private(&self.path, self.old.as_deref(), &report.configuration(false))?);
        };
        let (mut text, section) = (old.to_owned(), sections::section_for_new(&self.value()));
        for (name, server) in &report.plan.servers {
            text = edit::json::set(&text, section, name, &server.to_json())
                .map_err(|error| CliError::new(format!("cannot change `{}`: {error}", self.path.display())))?;
        }
        config::check(&text, &self.path)?;
        // A file with secrets that all users could read becomes private.
        let has_secrets = report.plan.servers.iter().any(|(_, server)| !secrets::find(server).is_empty());
        Ok(match has_secrets {
            true => write::write_private(&self.path, Some(old), &text)?,
            false => write::replace(&self.path, Some(old), &text)?,
        })
    }
}

/// The result of an import.
struct Report {
    survey: Survey,
    plan: Plan,
    /// Variables that enabled servers need and that are not set.
    unset: Vec<String>,
    /// Secrets that were moved to variables, with their server.
    moved: Vec<(String, MovedSecret)>,
    written: Option<PathBuf>,
    backup: Option<PathBuf>,
    /// Servers of the old file that are not in the new one.
    dropped: Vec<String>,
    home: Option<PathBuf>,
}

impl Report {
    fn new(mut plan: Plan, survey: Survey, surroundings: &SystemEnvironment<'_>, move_secrets: bool) -> Self {
        let mut moved = Vec::new();
        let mut taken = taken_variables(&plan);
        for (name, server) in &mut plan.servers {
            let found = secrets::find(server);
            if move_secrets {
                let secrets = secrets::move_to_env(server, name, &mut taken);
                moved.extend(secrets.into_iter().map(|secret| (name.clone(), secret)));
            } else if !found.is_empty() {
                let places: Vec<String> = found.into_iter().map(|found| format!("`{}`", found.place)).collect();
                let note = format!("plain-text secret: {}", places.join(", "));
                plan.rows.iter_mut().filter(|row| row.is_written_as(name)).for_each(|row| row.notes.push(note.clone()));
            }
        }
        let mut unset = Vec::new();
        for (name, server) in plan.servers.iter().filter(|(_, server)| !server.is_disabled) {
            let needed = server.texts().into_iter().flat_map(variables::required_variables);
            for variable in needed.filter(|variable| (surroundings.env)(variable).is_none()) {
                // Moved secrets are reported separately.
                if moved.iter().any(|(_, secret)| secret.variable == variable) {
                    continue;
                }
                let note = format!("`{variable}` is not set");
                let rows = plan.rows.iter_mut().filter(|row| row.is_written_as(name) && !row.notes.contains(&note));
                rows.for_each(|row| row.notes.push(note.clone()));
                unset.push(variable.to_owned());
            }
        }
        unset.sort();
        unset.dedup();
        let (written, backup, dropped) = (None, None, Vec::new());
        Self { survey, plan, unset, moved, written, backup, dropped, home: surroundings.home() }
    }

    /// Returns the configuration, masked for output or complete for a file.
    fn configuration(&self, is_masked: bool) -> String {
        format!("{}\n", render(&self.to_configuration(is_masked), "", "  ", "\n"))
    }

    fn to_configuration(&self, is_masked: bool) -> Value {
        let entry = |(name, server): &(String, crate::clients::server::Server)| {
            let server = if is_masked { secrets::mask(server).to_json() } else { server.to_json() };
            (name.clone(), server)
        };
        let servers: Map<String, Value> = self.plan.servers.iter().map(entry).collect();
        Value::from_iter([("mcpServers", Value::Object(servers))])
    }

    fn print(&self, format: Format) -> Result<(), CliError> {
        match format {
            Format::Json => output::json(&show::json(self)),
            Format::Text => output::text(&show::text(self)),
        }
    }

    /// Prints the problems of the files.
    fn warn(&self) {
        for file in &self.survey.files {
            let problems = file.problems();
            problems.iter().for_each(|problem| warn(&format!("`{}`: {problem}", file.place.path.display())));
        }
    }

    /// Prints which servers were left out, if any, and how to include them.
    fn say_left_out(&self) -> bool {
        let names: Vec<String> =
            self.survey.untrusted().iter().map(|(name, _)| format!("`{}`", printable(name))).collect();
        let Some(project) = self.survey.untrusted_project().filter(|_| !names.is_empty()) else { return false };
        say(&format!(
            "left out, because they come from files of this project: {}; read the files, then include the servers \
             with `--project {}`",
            names.join(", "),
            quote_path(project)
        ));
        true
    }

    /// Prints the result, and the next steps.
    fn say(&self, surroundings: &SystemEnvironment<'_>) {
        let servers = output::pluralize(self.plan.servers.len(), "server");
        match &self.written {
            Some(path) => {
                say(&format!("wrote {servers} to `{}`", path.display()));
                if let Some(backup) = &self.backup {
                    say(&format!("backup of the old file: `{}`", backup.display()));
                }
                if !self.dropped.is_empty() {
                    let names: Vec<String> = self.dropped.iter().map(|name| format!("`{}`", printable(name))).collect();
                    warn(&format!("only in the backup now: {}", names.join(", ")));
                }
            }
            None => {
                let place = surroundings.own_configuration();
                let place = place.map(|path| format!(" to `{}`", path.display())).unwrap_or_default();
                say(&format!(
                    "{servers}; nothing was written. `--write` writes them{place}, `--output FILE` elsewhere"
                ));
            }
        }
        self.say_left_out();
        if !self.moved.is_empty() {
            say("before `pegboard serve`, set these variables to the values in the clients' files:");
            for (name, MovedSecret { variable, place }) in &self.moved {
                let row = self.plan.rows.iter().find(|row| row.is_written_as(name));
                let path = row.map(|row| shorten_path(&self.survey.files[row.file].place.path, self.home.as_deref()));
                let path = path.map(|path| format!(" in {path}")).unwrap_or_default();
                say(&format!("  export {variable}=…  # `{}` of `{}`{path}", printable(place), printable(name)));
            }
        }
        if !self.unset.is_empty() {
            say(&format!("variables that `pegboard serve` needs and that are not set: {}", self.unset.join(", ")));
        }
        if let Some(path) = &self.written {
            let is_usual = surroundings.own_configuration().as_ref() == Some(path);
            let config = if is_usual { String::new() } else { format!(" --config {}", quote_path(path)) };
            say(&format!("next: `pegboard connect CLIENT{config}`"));
        }
    }
}

/// Returns the variables that servers use already: none of them can hold a moved secret.
fn taken_variables(plan: &Plan) -> BTreeMap<String, String> {
    let texts = plan.servers.iter().flat_map(|(_, server)| server.texts());
    texts.flat_map(variables::required_variables).map(|name| (name.to_owned(), format!("${{{name}}}"))).collect()
}
