//! `pegboard connect --llm`: the base URL of a program's LLM API.

use std::path::Path;

use clap::{ValueEnum, builder::PossibleValue};

use crate::{
    Outcome,
    clients::{
        Client,
        config_files::SystemEnvironment,
        llm::{self, LlmProgram},
        read, write,
    },
    error::{CliError, say},
    output,
};

/// A program that can be connected: as an MCP client, by its LLM API, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// An MCP client.
    Client(Client),
    /// A program that is only connected by its LLM API.
    Llm(LlmProgram),
}

const PROGRAMS: [Program; 12] = [
    Program::Client(Client::ClaudeDesktop),
    Program::Client(Client::ClaudeCode),
    Program::Client(Client::Cursor),
    Program::Client(Client::Vscode),
    Program::Client(Client::Windsurf),
    Program::Client(Client::Codex),
    Program::Client(Client::Gemini),
    Program::Client(Client::Zed),
    Program::Llm(LlmProgram::Cline),
    Program::Llm(LlmProgram::Continue),
    Program::Llm(LlmProgram::Opencode),
    Program::Llm(LlmProgram::Aider),
];

impl ValueEnum for Program {
    fn value_variants<'a>() -> &'a [Self] {
        &PROGRAMS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Client(client) => client.to_possible_value(),
            Self::Llm(program) => {
                Some(PossibleValue::new(program.id()).help(format!("{} (only with `--llm`)", program.title())))
            }
        }
    }
}

impl Program {
    /// Returns the MCP client.
    pub(crate) fn client(self) -> Result<Client, CliError> {
        match self {
            Self::Client(client) => Ok(client),
            Self::Llm(program) => {
                Err(CliError::new(format!("{} is connected only by its LLM API", program.title())).hint("add `--llm`"))
            }
        }
    }

    /// Returns the program whose LLM API is set.
    pub(crate) fn llm(self) -> Result<LlmProgram, CliError> {
        let client = match self {
            Self::Llm(program) => return Ok(program),
            Self::Client(client) => client,
        };
        LlmProgram::of_client(client).ok_or_else(|| {
            let reason = match client {
                Client::Cursor => "Cursor calls models from its own servers, which do not reach this machine",
                Client::Gemini => "set GOOGLE_GEMINI_BASE_URL to the proxy's `/gemini` where you start Gemini CLI",
                _ => "it has no setting for the address of its LLM API",
            };
            let names = LlmProgram::ALL.map(LlmProgram::id).join(", ");
            CliError::new(format!("`--llm` does not work with {}: {reason}", client.title()))
                .hint(format!("it works with {names}"))
        })
    }
}

/// Prints or writes the settings of `program` for the proxy at `url`.
pub(super) fn connect(
    program: LlmProgram,
    url: &str,
    is_written: bool,
    is_forced: bool,
    surroundings: &SystemEnvironment<'_>,
) -> Result<Outcome, CliError> {
    let url = parse_url(url)?;
    if let Some((text, place)) = program.instructions(url) {
        if is_written {
            return Err(CliError::new(format!("{}'s settings cannot be written by another program", program.title()))
                .hint("omit `--write` to see what to set"));
        }
        output::text(&text)?;
        say(place);
        say_proxy();
        return Ok(Outcome::Yes);
    }
    let path = settings_file(program, surroundings)?;
    if !is_written {
        let text = program.render(url).map_err(|error| super::explain_edit_error(&path, &error))?;
        output::text(&text)?;
        say(&format!("add this to `{}`, or let `--write` do it", path.display()));
        say_proxy();
        return Ok(Outcome::Yes);
    }
    if !is_forced && !path.exists() && !path.parent().is_some_and(Path::is_dir) {
        let title = program.title();
        return Err(CliError::new(format!(
            "{title} is not installed: neither `{}` nor a folder for it exists",
            path.display()
        ))
        .hint(format!("start {title} once, or use `--force` to create the file anyway")));
    }
    write_settings(program, url, &path)
}

/// Writes the settings into the program's file.
fn write_settings(program: LlmProgram, url: &str, path: &Path) -> Result<Outcome, CliError> {
    let (title, shown) = (program.title(), path.display());
    let old = read::text(path).map_err(|error| super::unreadable(path, &error))?;
    let settings = program.settings(url);
    let new = llm::apply(old.as_deref().unwrap_or_default(), program.syntax(), &settings)
        .map_err(|error| super::explain_edit_error(path, &error))?;
    if old.as_deref() == Some(new.as_str()) {
        say(&format!("{title} already uses the proxy: nothing to change in `{shown}`"));
        return Ok(Outcome::Yes);
    }
    let backup = write::replace(path, old.as_deref(), &new)?;
    say(&format!("wrote `{shown}`"));
    if let Some(backup) = backup {
        say(&format!("backup of the old file: `{}`", backup.display()));
    }
    say(&format!("restart {title} to use the proxy"));
    say_proxy();
    Ok(Outcome::Yes)
}

/// Takes the settings for the proxy at `url` out of the program's file again.
pub(crate) fn disconnect(
    program: LlmProgram,
    url: &str,
    surroundings: &SystemEnvironment<'_>,
) -> Result<Outcome, CliError> {
    let url = parse_url(url)?;
    let title = program.title();
    if program.instructions(url).is_some() {
        return Err(CliError::new(format!("{title}'s settings cannot be written by another program"))
            .hint(format!("`pegboard connect {} --llm` shows what was set", program.id())));
    }
    let path = settings_file(program, surroundings)?;
    let shown = path.display();
    let old = read::text(&path).map_err(|error| super::unreadable(&path, &error))?;
    let refused = |error| super::explain_edit_error(&path, &error);
    let text = old.as_deref().unwrap_or_default();
    if program.render(url).is_ok_and(|ours| ours == text) && write::remove_created(&path, text)? {
        say(&format!("removed `{shown}`, which `pegboard connect` created and which has nothing else"));
        return Ok(Outcome::Yes);
    }
    let earlier: Vec<String> =
        write::backups(&path).iter().filter_map(|backup| read::text(backup).ok().flatten()).collect();
    let new = llm::revert(text, program.syntax(), &program.settings(url), &earlier).map_err(refused)?;
    if new == text {
        say(&format!("{title} does not use the proxy at `{url}`: `{shown}` has none of its settings"));
        return Ok(Outcome::No);
    }
    let backup = write::replace(&path, old.as_deref(), &new)?;
    say(&format!("removed the proxy's settings from `{shown}`"));
    if let Some(backup) = backup {
        say(&format!("backup of the old file: `{}`", backup.display()));
    }
    say(&format!("restart {title}"));
    Ok(Outcome::Yes)
}

fn settings_file(program: LlmProgram, surroundings: &SystemEnvironment<'_>) -> Result<std::path::PathBuf, CliError> {
    program.file(surroundings).ok_or_else(|| CliError::new("cannot find your home folder"))
}

fn parse_url(url: &str) -> Result<&str, CliError> {
    llm::base_url(url).ok_or_else(|| {
        CliError::new(format!("`{url}` is not the address of a proxy"))
            .hint(format!("for example `{}`", llm::DEFAULT_URL))
    })
}

fn say_proxy() {
    say("the proxy must be running: `pegboard proxy`");
}
