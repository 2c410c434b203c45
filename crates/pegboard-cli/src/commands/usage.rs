//! `pegboard usage`.

use std::{borrow::Cow, path::PathBuf};

use clap::Args;
use pegboard_core::{naming, text};
use pegboard_engine::usage::{Habit, HabitSettings, Habits};
use serde::Serialize;

use crate::{
    Outcome,
    cli::options::{Format, OutputArgs},
    config::{self, Config},
    error::CliError,
    output::{self, FAINT, STRONG},
    usage::{self, LearnedHabits, Scope},
};

#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// Delete learned usage, limited by the other options
    #[arg(long)]
    reset: bool,

    /// Only usage of this caller: the name of a token, `local` or `anybody`; use `token:NAME` for a
    /// token with one of these names
    #[arg(long, value_name = "CALLER")]
    caller: Option<String>,

    /// Only usage of this server's tools
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,

    /// Only usage with this configuration file, which can set the state folder
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    config: Option<PathBuf>,

    /// State folder [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    state: Option<String>,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &UsageArgs) -> Result<Outcome, CliError> {
    let config = args.config.as_deref().map(config::read_offline).transpose()?.unwrap_or_default();
    let filter = UsageFilter {
        catalog: args.config.as_deref().map(|path| usage::catalog_of(Some(path), &[])),
        caller: args.caller.clone(),
        server: args.server.clone(),
    };
    let is_json = args.output.format() == Format::Json;
    if args.reset {
        let forgotten = reset(args, &config, &filter)?;
        return print(&Forgotten { forgotten }, is_json);
    }
    let book = usage::read(&config.state, args.state.as_deref())?;
    let settings = config.usage.unwrap_or_default();
    print(&Learned { habits: filter.of(&book, settings)? }, is_json)
}

/// Deletes the selected habits, and returns how many.
fn reset(args: &UsageArgs, config: &Config, filter: &UsageFilter) -> Result<usize, CliError> {
    let Some(file) = usage::open_existing(&config.state, args.state.as_deref())? else { return Ok(0) };
    let forget = |book: &mut LearnedHabits| {
        filter.check(book)?;
        let forgotten = book.reset(usage::now(), |scope, name, habit| filter.is(scope, name, habit));
        Ok::<usize, CliError>(forgotten)
    };
    file.change(forget).map_err(|error| usage::unusable(&file.path(), error))?.result
}

/// The habits that the arguments select.
struct UsageFilter {
    catalog: Option<String>,
    caller: Option<String>,
    server: Option<String>,
}

impl UsageFilter {
    fn is(&self, scope: &Scope, name: &str, habit: &Habit) -> bool {
        self.catalog.as_ref().is_none_or(|catalog| *catalog == scope.catalog)
            && self.caller.as_ref().is_none_or(|caller| *caller == scope.caller(name))
            && self.server.as_ref().is_none_or(|server| server_of(habit) == Some(server))
    }

    /// Rejects names that no habit has: after a typing mistake nothing is deleted, and the user
    /// must know it.
    fn check(&self, book: &LearnedHabits) -> Result<(), CliError> {
        let parts = || book.parts().filter(|(scope, _)| self.catalog.as_ref().is_none_or(|it| *it == scope.catalog));
        let callers: Vec<Cow<'_, str>> = parts().map(|(scope, part)| scope.caller(&part.name)).collect();
        let callers: Vec<&str> = callers.iter().map(|caller| &**caller).collect();
        let habits = || parts().flat_map(|(_, part)| &part.habits);
        let servers: Vec<&str> = habits().filter_map(server_of).collect();
        known("caller", self.caller.as_deref(), &callers)?;
        known("server", self.server.as_deref(), &servers)
    }

    /// Returns the habits, by catalog and caller, the strongest first.
    fn of(&self, book: &LearnedHabits, settings: HabitSettings) -> Result<Vec<HabitRow>, CliError> {
        self.check(book)?;
        let now = usage::now();
        let faded = Habits::new(settings);
        let mut rows = Vec::new();
        for (scope, part) in book.parts() {
            let filter = part.habits.iter().filter(|habit| self.is(scope, &part.name, habit));
            rows.extend(filter.map(|habit| HabitRow {
                catalog: scope.catalog.clone(),
                caller: scope.caller(&part.name).into_owned(),
                words: habit.stems.join(" "),
                tool: habit.tool.clone(),
                strength: (faded.strength(habit, now) * 1e3).round() / 1e3,
                last: habit.at,
            }));
        }
        rows.sort_by(|a, b| {
            let place = |row: &HabitRow| (row.catalog.clone(), row.caller.clone());
            let words = |row: &HabitRow| (row.words.clone(), row.tool.clone());
            place(a).cmp(&place(b)).then(b.strength.total_cmp(&a.strength)).then_with(|| words(a).cmp(&words(b)))
        });
        Ok(rows)
    }
}

fn server_of(habit: &Habit) -> Option<&str> {
    habit.tool.split_once('/').map(|(server, _)| server)
}

fn known(what: &str, name: Option<&str>, names: &[&str]) -> Result<(), CliError> {
    let Some(name) = name.filter(|name| !names.contains(name)) else { return Ok(()) };
    let error = CliError::new(format!("no usage learned for the {what} `{name}`"));
    let near = naming::nearest(name, names.iter().copied(), 1);
    Err(match near.first() {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`pegboard usage` shows all learned usage"),
    })
}

/// A result that can be printed as JSON or text.
trait PrintResult: Serialize {
    fn to_text(&self) -> String;
}

fn print(page: &impl PrintResult, is_json: bool) -> Result<Outcome, CliError> {
    if is_json {
        output::json(page)?;
    } else {
        output::text(&page.to_text())?;
    }
    Ok(Outcome::Yes)
}

/// The learned habits; the order of the fields is part of the interface.
#[derive(Debug, Serialize)]
struct Learned {
    habits: Vec<HabitRow>,
}

#[derive(Debug, Serialize)]
struct HabitRow {
    catalog: String,
    caller: String,
    words: String,
    tool: String,
    /// The remaining strength.
    strength: f64,
    /// The Unix time of the last lesson, in seconds.
    last: u64,
}

impl PrintResult for Learned {
    fn to_text(&self) -> String {
        if self.habits.is_empty() {
            return "no usage has been learned\n".to_owned();
        }
        let mut page = String::new();
        for same in self.habits.chunk_by(|a, b| (&a.catalog, &a.caller) == (&b.catalog, &b.caller)) {
            let (catalog, caller) = (text::line(&same[0].catalog), text::line(&same[0].caller));
            page.push_str(&format!("{STRONG}{caller}{STRONG:#} {FAINT}with {catalog}{FAINT:#}\n"));
            let row = |row: &HabitRow| {
                let strength = format!("{:.2}", row.strength);
                vec![strength, text::line(&row.tool).into_owned(), text::line(&row.words).into_owned()]
            };
            page.push_str(&output::table(&["STRENGTH", "TOOL", "AFTER"], same.iter().map(row).collect(), &[0]));
        }
        page
    }
}

#[derive(Debug, Serialize)]
struct Forgotten {
    forgotten: usize,
}

impl PrintResult for Forgotten {
    fn to_text(&self) -> String {
        match self.forgotten {
            0 => "there is no learned usage to delete\n".to_owned(),
            1 => "1 habit deleted\n".to_owned(),
            count => format!("{count} habits deleted\n"),
        }
    }
}
