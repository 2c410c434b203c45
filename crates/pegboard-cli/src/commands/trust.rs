//! `pegboard trust`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::{
    Outcome,
    cli::options::{Format, PlainOutputArgs},
    config::Content,
    error::{CliError, say},
    output,
    source::Source,
    trust::{self, TrustState},
};

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Configuration file [default: `pegboard.json` in this folder or above]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Stop trusting the file
    #[arg(long, conflicts_with = "list")]
    remove: bool,

    /// List the trusted files; those that were changed since are not trusted any more
    #[arg(long)]
    list: bool,

    /// State folder with the list of trusted files [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    state: Option<String>,

    #[command(flatten)]
    output: PlainOutputArgs,
}

pub(crate) fn run(args: &TrustArgs) -> Result<Outcome, CliError> {
    let state = args.state.as_deref();
    if args.list {
        return list(args, state);
    }
    let path = match (&args.file, Source::find(None, false)) {
        (Some(path), _) => path.clone(),
        (None, Source::Folder(path)) => path,
        (None, _) => {
            return Err(CliError::new("no `pegboard.json` in this folder or above")
                .hint("name the file: `pegboard trust FILE`"));
        }
    };
    if args.remove {
        let was_trusted = trust::distrust(&path, state)?;
        say(&format!("`{}` {}", path.display(), if was_trusted { "is no longer trusted" } else { "was not trusted" }));
        return Ok(if was_trusted { Outcome::Yes } else { Outcome::No });
    }
    let content = Content::load(&path)?;
    let file = trust::Trusted::of(&path, content.bytes())?;
    let programs = trust::programs(&content)?;
    say(&format!("`{}` starts:", file.path.display()));
    programs.iter().for_each(|line| say(&format!("  {line}")));
    trust::trust(&file, state)?;
    say("trusted; you are asked again when the file changes");
    Ok(Outcome::Yes)
}

fn list(args: &TrustArgs, state: Option<&str>) -> Result<Outcome, CliError> {
    let files = trust::list(state)?;
    match args.output.format() {
        Format::Json => {
            let entry = |file: &trust::Trusted| json!({"path": file.path, "sha256": file.sha256, "state": file.state().as_str()});
            output::json(&files.iter().map(entry).collect::<Vec<Value>>())?;
        }
        Format::Text => {
            let line = |file: &trust::Trusted| match file.state() {
                TrustState::Unchanged => format!("{}\n", file.path.display()),
                other => format!("{} ({})\n", file.path.display(), other.as_str()),
            };
            output::text(&files.iter().map(line).collect::<String>())?;
        }
    }
    Ok(if files.is_empty() { Outcome::No } else { Outcome::Yes })
}
