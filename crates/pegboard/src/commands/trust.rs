//! `pegboard trust`.

use std::path::PathBuf;

use clap::Args;

use crate::{
    Outcome,
    cli::options::{Format, PlainOutputArgs},
    error::{CliError, say},
    output,
    source::Source,
    trust,
};

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The configuration [default: `pegboard.json` in this folder or above]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Trust the file no longer
    #[arg(long, conflicts_with = "list")]
    remove: bool,

    /// List the files that are trusted
    #[arg(long)]
    list: bool,

    /// Where it is kept which files are trusted
    /// [default: `pegboard` in the user's folder for state]
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
            return Err(CliError::new("there is no `pegboard.json` in this folder or above it")
                .hint("name the file: `pegboard trust FILE`"));
        }
    };
    if args.remove {
        let was_trusted = trust::distrust(&path, state)?;
        say(&format!("`{}` {}", path.display(), if was_trusted { "is no longer trusted" } else { "was not trusted" }));
        return Ok(if was_trusted { Outcome::Yes } else { Outcome::No });
    }
    let file = trust::examine(&path)?;
    say(&format!("`{}` starts:", file.path.display()));
    trust::programs(&path).iter().for_each(|line| say(&format!("  {line}")));
    trust::trust(&file, state)?;
    say("trusted; a change of the file asks again");
    Ok(Outcome::Yes)
}

fn list(args: &TrustArgs, state: Option<&str>) -> Result<Outcome, CliError> {
    let files = trust::list(state)?;
    match args.output.format() {
        Format::Json => output::json(&files)?,
        Format::Text => {
            let lines: Vec<String> = files.iter().map(|file| format!("{}\n", file.path.display())).collect();
            output::text(&lines.concat())?;
        }
    }
    Ok(if files.is_empty() { Outcome::No } else { Outcome::Yes })
}
