//! `pegboard disconnect`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::connect::{self, llm::Program};
use crate::{
    Outcome,
    clients::{
        Client,
        config_files::{ConfigLocation, Os, SystemEnvironment},
        edit, hooks,
        pegboard_entry::{self, NAME},
        read,
        show::printable,
        write,
    },
    error::{CliError, say},
};

#[derive(Debug, Args)]
pub(crate) struct DisconnectArgs {
    /// MCP client, or with `--llm` any program in this list that sends its requests to an LLM API
    #[arg(value_name = "CLIENT")]
    client: Program,

    /// Change the client's file in this project, instead of the user's
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,

    /// Remove the address of the program's LLM API that `connect --llm` with the same URL wrote
    #[arg(
        long,
        value_name = "URL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = crate::clients::llm::DEFAULT_URL,
        conflicts_with = "project"
    )]
    llm: Option<String>,
}

pub(crate) fn run(args: &DisconnectArgs) -> Result<Outcome, CliError> {
    let env = |name: &str| std::env::var(name).ok();
    let surroundings = SystemEnvironment { os: Os::current(), env: &env };
    if let Some(url) = &args.llm {
        return connect::llm::disconnect(args.client.llm()?, url, &surroundings);
    }
    let client = args.client.client()?;
    let place = connect::place(client, args.project.as_deref(), &surroundings)?;
    let (path, title, syntax) = (place.path.display(), client.title(), client.syntax());
    let old = read::text(&place.path).map_err(|error| CliError::new(format!("`{path}` {error}")))?;
    let text = old.as_deref().unwrap_or_default();
    let refused = |error| connect::explain_edit_error(&place.path, &error);
    let had_hook = client == Client::ClaudeCode && remove_hook(args.project.as_deref(), &surroundings)?;
    let Some(entry) = edit::get(text, syntax, place.keys, NAME).map_err(refused)? else {
        if had_hook {
            return Ok(Outcome::Yes);
        }
        say(&format!("{title} does not use Pegboard: `{path}` has no entry `{NAME}`"));
        return Ok(Outcome::No);
    };
    if pegboard_entry::is_as_written(client, &entry)
        && edit::set("", syntax, place.keys, NAME, &entry).is_ok_and(|ours| ours == text)
        && write::remove_created(&place.path, text)?
    {
        say(&format!("removed `{path}`, which `pegboard connect` created and which has nothing else"));
        say(&format!("restart {title}"));
        return Ok(Outcome::Yes);
    }
    let new = edit::remove(text, syntax, place.keys, NAME).map_err(refused)?;
    let backup = write::replace(&place.path, old.as_deref(), &new)?;
    say(&format!("removed `{NAME}` from `{path}`"));
    if let Some(backup) = backup {
        say(&format!("backup of the old file: `{}`", backup.display()));
    }
    say_removed_servers(&place, &new);
    say(&format!("restart {title}"));
    Ok(Outcome::Yes)
}

/// Prints which servers the file had before `connect --replace` removed them, and the newest backup
/// that has them.
fn say_removed_servers(place: &ConfigLocation, text: &str) {
    let (path, title) = (place.path.display(), place.client.title());
    let left = server_names(place, text);
    let removed = write::backups(&place.path).into_iter().find_map(|backup| {
        let mut names = server_names(place, &read::text(&backup).ok()??);
        names.retain(|name| !left.contains(name));
        (!names.is_empty()).then_some((backup, names))
    });
    match removed {
        Some((backup, names)) => {
            let names: Vec<String> = names.iter().map(|name| format!("`{}`", printable(name))).collect();
            say(&format!(
                "servers that `{path}` had before and does not have now: {}; they are in `{}`",
                names.join(", "),
                backup.display()
            ));
        }
        None if left.is_empty() => say(&format!("{title} has no servers now")),
        None => {}
    }
}

/// Returns the names of the servers in the text of a client's file, without Pegboard.
fn server_names(place: &ConfigLocation, text: &str) -> Vec<String> {
    let content = read::content(text, place).unwrap_or_default();
    let is_pegboard =
        |entry: &read::ServerEntry| entry.server.as_ref().is_ok_and(|server| server.is_pegboard(&entry.name));
    let entries = content.entries.into_iter().filter(|entry| entry.project == place.project && !is_pegboard(entry));
    entries.map(|entry| entry.name).collect()
}

/// Removes the prompt hook from Claude Code's settings, and returns whether it was there.
fn remove_hook(project: Option<&Path>, surroundings: &SystemEnvironment<'_>) -> Result<bool, CliError> {
    let Some(path) = hooks::file(surroundings, project) else { return Ok(false) };
    let shown = path.display();
    let old = read::text(&path).map_err(|error| CliError::new(format!("`{shown}` {error}")))?;
    let Some(old) = old else { return Ok(false) };
    let Some(new) = hooks::without(&old).map_err(|error| connect::explain_edit_error(&path, &error))? else {
        return Ok(false);
    };
    let rest: Option<Value> = serde_json::from_str(&new).ok();
    let is_empty = rest.is_some_and(|rest| rest == json!({}) || rest == json!({"hooks": {}}));
    if is_empty && write::remove_created(&path, &old)? {
        say(&format!("removed `{shown}`, which `pegboard connect` created and which has nothing else"));
        return Ok(true);
    }
    write::replace(&path, Some(&old), &new)?;
    say(&format!("removed the hook from `{shown}`"));
    Ok(true)
}
