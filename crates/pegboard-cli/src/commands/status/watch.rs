//! `--watch`: a status that stays up to date.

use std::{
    io::{self, IsTerminal, Write as _, stdout},
    time::Duration,
};

use pegboard_gateway::control::Status;

use super::{changes::changes, screen};
use crate::{
    Outcome,
    commands::serve::stop_signal,
    error::CliError,
    gateway_client::{EndpointError, GatewayEndpoint},
    output::{self, FAINT, pluralize},
    platform::output_size,
    terminal_text,
};

/// Poll interval.
const EVERY: Duration = Duration::from_secs(1);

/// Rows of a terminal that does not report them.
const USUAL_ROWS: usize = 24;

/// Shows the gateway until the user stops the program. It must be running at first; later it may
/// stop and come back.
pub(super) async fn watch(endpoint: &GatewayEndpoint) -> Result<Outcome, CliError> {
    tokio::select! {
        watched = follow(endpoint) => watched,
        () = stop_signal() => Ok(Outcome::Yes),
    }
}

async fn follow(endpoint: &GatewayEndpoint) -> Result<Outcome, CliError> {
    let mut status = match endpoint.status().await {
        Ok(status) => status,
        Err(error) => return super::fail(endpoint, error),
    };
    let mut show: Box<dyn StatusDisplay> =
        if is_screen() { Box::new(AlternateScreen::open()?) } else { Box::<ChangeLines>::default() };
    let mut ticks = tokio::time::interval(EVERY);
    // A gateway that answers late is not asked several times at once then.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    show.status(&status)?;
    loop {
        ticks.tick().await;
        match endpoint.status().await {
            Ok(newer) => {
                status = newer;
                show.status(&status)?;
            }
            Err(error) => show.lost(&status, &error)?,
        }
    }
}

/// Returns whether there is a terminal that can be drawn on.
fn is_screen() -> bool {
    stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

trait StatusDisplay {
    /// Shows the present status.
    fn status(&mut self, status: &Status) -> Result<(), CliError>;

    /// Shows that the gateway does not answer any more, with its last status.
    fn lost(&mut self, last: &Status, error: &EndpointError) -> Result<(), CliError>;
}

/// Draws on the alternate screen of the terminal, so that the previous content is restored at the
/// end.
struct AlternateScreen;

impl AlternateScreen {
    fn open() -> io::Result<Self> {
        // The other page, and no cursor.
        control("\u{1b}[?1049h\u{1b}[?25l\u{1b}[2J")?;
        Ok(Self)
    }

    /// Replaces the content with `text`, without flicker.
    fn draw(&mut self, text: &str) -> Result<(), CliError> {
        let rows = output_size().map_or(USUAL_ROWS, |(_, rows)| rows).max(2);
        let mut frame = String::from("\u{1b}[H");
        let lines: Vec<&str> = text.lines().collect();
        let fitting = if lines.len() < rows { lines.len() } else { rows - 2 };
        for line in &lines[..fitting] {
            frame.push_str(&format!("{line}\u{1b}[K\n"));
        }
        if fitting < lines.len() {
            frame.push_str(&format!("{FAINT}… {}{FAINT:#}\u{1b}[K\n", pluralize(lines.len() - fitting, "more line")));
        }
        frame.push_str("\u{1b}[J");
        output::text(&frame)
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        // A failure to write cannot be reported anywhere.
        let _ = control("\u{1b}[?25h\u{1b}[?1049l");
    }
}

fn control(sequence: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(sequence.as_bytes())?;
    out.flush()
}

impl StatusDisplay for AlternateScreen {
    fn status(&mut self, status: &Status) -> Result<(), CliError> {
        self.draw(&screen::screen(status, screen::width()))
    }

    fn lost(&mut self, last: &Status, error: &EndpointError) -> Result<(), CliError> {
        let width = screen::width();
        let text =
            format!("{FAINT}{}{FAINT:#}\n", terminal_text::cut(&format!("{error}; showing the last status"), width));
        self.draw(&format!("{text}{}", screen::screen(last, width)))
    }
}

/// Prints a line for each change.
#[derive(Default)]
struct ChangeLines {
    last: Option<Status>,
    is_lost: bool,
}

impl StatusDisplay for ChangeLines {
    fn status(&mut self, status: &Status) -> Result<(), CliError> {
        let mut lines = changes(self.last.as_ref(), status);
        if std::mem::take(&mut self.is_lost) && lines.is_empty() {
            lines.push("the gateway is reachable again".to_owned());
        }
        self.last = Some(status.clone());
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        output::text(&text)
    }

    fn lost(&mut self, _last: &Status, error: &EndpointError) -> Result<(), CliError> {
        if std::mem::replace(&mut self.is_lost, true) {
            return Ok(());
        }
        output::text(&format!("{error}\n"))
    }
}
