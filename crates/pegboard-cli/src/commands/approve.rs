//! `pegboard approve`.

mod show;

use std::{
    io::{self, BufRead, IsTerminal, Write},
    path::PathBuf,
};

use clap::Args;
use pegboard_core::naming;
use pegboard_upstream::{PinReport, Pins, WaitingPin};

use crate::{
    Outcome,
    cli::options::{Format, OutputArgs},
    config::state,
    error::{CliError, say},
    output,
    source::Source,
};

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// Approve tools of this server, including a new server that is held [default: ask about all servers]
    #[arg(value_name = "SERVER")]
    server: Option<String>,

    /// Approve only these tools of the server [default: all pending tools]
    #[arg(value_name = "TOOL", requires = "server")]
    tools: Vec<String>,

    /// Approve the tools of all servers
    #[arg(long, conflicts_with = "server")]
    all: bool,

    /// Only list pending tools
    #[arg(long, conflicts_with_all = ["all", "yes"])]
    list: bool,

    /// Approve without asking
    #[arg(long, short)]
    yes: bool,

    /// Configuration file; its `pegboard` section can set the state folder
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    config: Option<PathBuf>,

    /// State folder [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    state: Option<String>,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &ApproveArgs) -> Result<Outcome, CliError> {
    let state = Source::find(args.config.as_deref(), false).read_offline(args.state.as_deref())?.state;
    let Some(folder) = state.resolve(args.state.as_deref()) else {
        return Err(CliError::new("no state folder, so there are no approvals")
            .hint("name the state folder of `pegboard serve` with `--state FOLDER`"));
    };
    let pins = Pins::at(state::pins(&folder));
    let failed = |error: pegboard_upstream::PinsError| CliError::new(pegboard_upstream::with_causes(&error));
    let waiting = pins.waiting().map_err(failed)?;
    let chosen = choose(args, &waiting)?;
    let is_json = args.output.format() == Format::Json;
    let reports = |pins: &[&WaitingPin]| pins.iter().map(|pin| pin.report.clone()).collect::<Vec<PinReport>>();
    // With nothing to ask about it is said what `--list` says.
    if args.list || chosen.is_empty() {
        return print(&reports(&chosen), is_json, &show::waiting);
    }
    let approved = match args.yes {
        true if args.server.is_none() && !args.all => {
            return Err(CliError::new("`--yes` alone would approve everything").hint("name a server, or add `--all`"));
        }
        true => chosen,
        false => ask(&chosen)?,
    };
    pins.approve(&approved).map_err(failed)?;
    print(&reports(&approved), is_json, &show::approved)
}

fn print(reports: &[PinReport], is_json: bool, text: &dyn Fn(&[PinReport]) -> String) -> Result<Outcome, CliError> {
    if is_json {
        output::json(&reports)?;
    } else {
        output::text(&text(reports))?;
    }
    Ok(Outcome::Yes)
}

/// Returns the pending tools that the arguments select.
fn choose<'a>(args: &ApproveArgs, waiting: &'a [WaitingPin]) -> Result<Vec<&'a WaitingPin>, CliError> {
    let Some(server) = &args.server else { return Ok(waiting.iter().collect()) };
    let of_server: Vec<&WaitingPin> = waiting.iter().filter(|pin| pin.report.server == *server).collect();
    if of_server.is_empty() {
        let near = naming::nearest(server, waiting.iter().map(|pin| pin.report.server.as_str()), 3);
        return missing(format!("no tool of a server `{server}` is waiting for approval"), &near);
    }
    for tool in &args.tools {
        if !of_server.iter().any(|pin| pin.report.tool == *tool) {
            let near = naming::nearest(tool, of_server.iter().map(|pin| pin.report.tool.as_str()), 3);
            return missing(format!("no tool `{tool}` of the server `{server}` is waiting for approval"), &near);
        }
    }
    let is_chosen = |pin: &&WaitingPin| args.tools.is_empty() || args.tools.contains(&pin.report.tool);
    Ok(of_server.into_iter().filter(is_chosen).collect())
}

fn missing<T>(message: String, near: &[&str]) -> Result<T, CliError> {
    let hint = match near {
        [] => "`pegboard approve --list` shows the pending tools".to_owned(),
        near => {
            format!("did you mean {}?", near.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or "))
        }
    };
    Err(CliError::new(message).hint(hint))
}

/// Shows each tool and asks the user to approve it.
fn ask<'a>(chosen: &[&'a WaitingPin]) -> Result<Vec<&'a WaitingPin>, CliError> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        for pin in chosen {
            say(&show::one(&pin.report));
        }
        return Err(
            CliError::new("nothing was approved: no terminal to ask on").hint("`--yes` approves without asking")
        );
    }
    let mut approved = Vec::new();
    let mut is_all = false;
    for pin in chosen {
        say(&show::one(&pin.report));
        if is_all {
            approved.push(*pin);
            continue;
        }
        match answer()? {
            UserChoice::Yes => approved.push(*pin),
            UserChoice::All => {
                is_all = true;
                approved.push(*pin);
            }
            UserChoice::No => {}
            UserChoice::Quit => break,
        }
    }
    Ok(approved)
}

enum UserChoice {
    Yes,
    No,
    All,
    Quit,
}

fn answer() -> Result<UserChoice, CliError> {
    loop {
        let mut out = anstream::stderr();
        write!(out, "Approve it? [y]es, [n]o, [a]ll remaining, [q]uit: ")?;
        out.flush()?;
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let length = read.map_err(|error| CliError::new("cannot read the answer").because(error))?;
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(UserChoice::Yes),
            "n" | "no" => return Ok(UserChoice::No),
            "a" | "all" => return Ok(UserChoice::All),
            "q" | "quit" => return Ok(UserChoice::Quit),
            // The end of the input is not an approval.
            _ if length == 0 => return Ok(UserChoice::Quit),
            _ => {}
        }
    }
}
