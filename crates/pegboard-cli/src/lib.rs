//! The command line of Pegboard: flags, settings, wiring and output.
//!
//! The work is done by the crates below this one. This crate decides where input comes from, which
//! parts are combined, and how results are printed. The binary calls [`run`]; [`cli::command`] is
//! the one declaration from which parsing, help, completions, the man page and the reference are
//! made.
//!
//! ```
//! let command = pegboard_cli::cli::command();
//! assert!(command.find_subcommand("search").is_some());
//! ```

mod bench;
mod cache;
mod catalogs;
pub mod cli;
mod clients;
mod commands;
mod config;
mod configured_tools;
mod console;
mod embeddings;
mod error;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod gateway_client;
mod logging;
mod models;
mod nesting;
mod output;
mod platform;
mod progress;
mod rankers;
pub mod reference;
mod running_gateways;
mod running_proxies;
mod source;
mod telemetry;
mod terminal_text;
mod trust;
mod usage;

use std::{ffi::OsString, process::ExitCode};

use clap::{FromArgMatches, Parser as _};

use crate::cli::{
    Cli, Command,
    hidden::{Helper, HelperCli, QueryOutputArgs},
};

/// The outcome of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The command succeeded.
    Yes,
    /// The command did its work, and the answer is no.
    No,
    /// The command was interrupted.
    Interrupted,
}

/// Runs one command line and returns the exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if args.get(1).is_some_and(|word| Helper::is_name(word)) {
        return run_helper(args);
    }
    let matches = cli::command().try_get_matches_from(args);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    // Servers run as the same user, and must not read here what they were not given. The
    // helpers hold nothing of that kind, and one of them has to write its own `/proc` files.
    pegboard_process::processes::hide_memory();
    let result = match cli.command {
        Command::Search(args) => commands::search::run(&args),
        Command::Tools(args) => commands::tools::run(&args),
        Command::Call(args) => commands::call::run(&args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Proxy(args) => commands::proxy::run(&args),
        Command::Login(args) => commands::login::run(&args),
        Command::Logout(args) => commands::logout::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Logs(args) => commands::logs::run(&args),
        Command::Console(args) => commands::console::run(&args),
        Command::Restart(args) => commands::restart::run(&args),
        Command::Add(args) => commands::servers::add(&args),
        Command::Remove(args) => commands::servers::remove(&args),
        Command::Enable(args) => commands::servers::enable(&args),
        Command::Disable(args) => commands::servers::disable(&args),
        Command::Trust(args) => commands::trust::run(&args),
        Command::Catalog(args) => commands::catalog::run(&args),
        Command::Approve(args) => commands::approve::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Lint(args) => commands::lint::run(&args),
        Command::Import(args) => commands::import::run(&args),
        Command::Connect(args) => commands::connect::run(&args),
        Command::Disconnect(args) => commands::disconnect::run(&args),
        Command::Hook(args) => commands::hook::run(&args),
        Command::Agent(args) => commands::agent::run(&args),
        Command::Session(args) => commands::session::run(&args),
        Command::Usage(args) => commands::usage::run(&args),
        Command::Tokens(args) => commands::tokens::run(&args),
        Command::Eval(args) => commands::eval::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man => commands::man::run(),
        Command::Schema => commands::schema::run(),
    };
    match result {
        Ok(Outcome::Yes) => ExitCode::SUCCESS,
        Ok(Outcome::No) => ExitCode::from(1),
        Ok(Outcome::Interrupted) => ExitCode::from(commands::agent::INTERRUPTED),
        // The reader has seen enough.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            error.print();
            ExitCode::from(2)
        }
    }
}

/// Prints why the command line cannot be parsed. Help and version arrive here too; clap knows where
/// each belongs.
fn explain(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Runs a hidden command that the program calls itself with.
fn run_helper(args: Vec<OsString>) -> ExitCode {
    match HelperCli::try_parse_from(args).map(|cli| cli.command) {
        Ok(Helper::Supervise(args)) => pegboard_process::supervise::run(args.part(), &args.command),
        #[cfg(feature = "code-execution")]
        Ok(Helper::Confine(args)) => pegboard_agent::shell::confine::run(args.part()),
        Ok(Helper::QueryOutput(args)) => query_output(args),
        Err(error) => explain(&error),
    }
}

/// Runs `pegboard query-output`, in a process that was started for it.
fn query_output(args: QueryOutputArgs) -> ExitCode {
    let QueryOutputArgs { compact, raw, memory_bytes, cpu_seconds, filter } = args;
    pegboard_agent::outputs::worker::run(pegboard_agent::outputs::worker::FilterJob {
        filter,
        compact,
        raw,
        memory_bytes,
        cpu_seconds,
    })
}
