//! Runs prompts: sends one to the agent, shows the events, and asks the user.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use pegboard_agent::{Agent, AgentEvent, Prices, RunAnswer, RunError, Usage};
use tokio::{sync::mpsc, time::MissedTickBehavior};

use super::{
    amounts::RunCost,
    display::RunDisplay,
    questions::UserQuestion,
    signals::{Cancellable, Signals, Stop},
    terminal::{self, Keyboard},
};
use crate::error::{CliError, say, warn};

/// Interval at which the display of a waiting run is drawn again.
const REDRAW: Duration = Duration::from_millis(200);

/// The outcome of a prompt.
#[derive(Debug)]
pub(super) enum PromptOutcome {
    /// The model answered.
    Answered(RunAnswer),
    /// The run failed.
    Failed(RunError),
    /// The run was stopped.
    Stopped(Stop),
}

/// An agent with its display and its user.
pub(super) struct AgentConsole {
    pub(super) agent: Agent,
    pub(super) display: Box<dyn RunDisplay>,
    /// Questions of the agent to the user.
    pub(super) asked: mpsc::Receiver<UserQuestion>,
    pub(super) signals: Signals,
    pub(super) prices: Option<Prices>,
    /// The keyboard of a conversation; `None` if there is only one prompt.
    pub(super) keyboard: Option<Keyboard>,
    /// Calls that were not made because they were not approved: `server___tool`.
    pub(super) refused: Vec<String>,
}

impl AgentConsole {
    /// Sends a prompt to the model and shows the events until the end.
    pub(super) async fn run_prompt(&mut self, prompt: String) -> Result<PromptOutcome, CliError> {
        let mut listening = self.signals.begin();
        let began = Instant::now();
        let mut spent = RunCost::default();
        let mut run = self.agent.stream(prompt);
        let mut redraws = tokio::time::interval(REDRAW);
        redraws.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A question without an answer counts as a no; that must not come before the end.
        let mut unanswered = None;
        let stopped = loop {
            tokio::select! {
                // The events that led to a question appear above it.
                biased;
                stop = listening.wait_for_stop() => break Some(stop),
                event = run.next() => match event {
                    Some(event) => {
                        count(&event, &mut spent);
                        self.display.event(event)?;
                    }
                    None => break None,
                },
                Some(ask) = self.asked.recv() => {
                    if let Some((stop, ask)) = self.ask(ask, &mut listening).await? {
                        unanswered = Some(ask);
                        break Some(stop);
                    }
                }
                _ = redraws.tick() => self.display.show_activity(),
            }
        };
        self.display.hide_activity();
        if stopped.is_some() {
            run.cancel();
        }
        let came_to = run.answer().await;
        drop(unanswered);
        if stopped.is_some() || came_to.is_err() {
            // An interrupted run is ended in a state that can be continued.
            if let Err(error) = self.agent.write_transcript().await {
                warn(&super::json_lines::with_causes(&error));
            }
        }
        spent.took = began.elapsed();
        spent.cost = self.prices.map(|prices| prices.cost(spent.usage));
        self.display.end(if stopped.is_some() { None } else { Some(came_to.as_ref()) }, &spent)?;
        Ok(match (stopped, came_to) {
            (Some(stop), _) => PromptOutcome::Stopped(stop),
            (None, Ok(answer)) => PromptOutcome::Answered(answer),
            (None, Err(error)) => PromptOutcome::Failed(error),
        })
    }

    /// Asks the user, or refuses without one. Returns the stop signal and the open question if the
    /// user interrupted instead.
    async fn ask(
        &mut self,
        ask: UserQuestion,
        listening: &mut Cancellable,
    ) -> Result<Option<(Stop, UserQuestion)>, CliError> {
        if ask.is_obsolete() {
            return Ok(None);
        }
        if !terminal::is_attended() {
            if let Some((tool, grant)) = ask.refuse() {
                self.display.show_refused(&tool)?;
                if !self.refused.contains(&grant) {
                    self.refused.push(grant);
                }
            }
            return Ok(None);
        }
        match &mut self.keyboard {
            Some(keyboard) => keyboard.keep_typed(),
            // No key counts that was struck before.
            None if ask.is_consent() => terminal::discard_typed(),
            None => {}
        }
        let answered = self.ask_user(ask, listening).await;
        if let Some(keyboard) = &self.keyboard {
            keyboard.hide_typed();
        }
        answered
    }

    /// Shows the question until it is answered.
    async fn ask_user(
        &mut self,
        mut ask: UserQuestion,
        listening: &mut Cancellable,
    ) -> Result<Option<(Stop, UserQuestion)>, CliError> {
        loop {
            self.display.question(&ask)?;
            match self.read_answer(&mut ask, listening).await? {
                QuestionOutcome::Line(Some(line)) if ask.is_consent() && line.trim() == "?" => say(HELP),
                QuestionOutcome::Line(line) => {
                    ask.answer_with(line.as_deref());
                    return Ok(None);
                }
                QuestionOutcome::Stopped(stop) => return Ok(Some((stop, ask))),
                QuestionOutcome::Over => return Ok(None),
            }
        }
    }

    /// Waits for a line of the user, for a stop signal, or until no answer is needed.
    async fn read_answer(
        &mut self,
        ask: &mut UserQuestion,
        listening: &mut Cancellable,
    ) -> Result<QuestionOutcome, CliError> {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let mut reading = tokio::task::spawn_blocking(move || terminal::read_line(|| seen.load(Ordering::Relaxed)));
        let stop = tokio::select! {
            line = &mut reading => {
                let line = line.map_err(std::io::Error::other).flatten();
                let line = line.map_err(|error| CliError::new("cannot read the terminal").because(error))?;
                return Ok(QuestionOutcome::Line(line));
            }
            stop = listening.wait_for_stop() => QuestionOutcome::Stopped(stop),
            () = ask.wait_until_obsolete() => QuestionOutcome::Over,
        };
        is_over.store(true, Ordering::Relaxed);
        let _ = reading.await;
        say("");
        Ok(stop)
    }
}

/// The result of a question.
enum QuestionOutcome {
    /// A line; `None` at the end of input.
    Line(Option<String>),
    /// The user wants to stop.
    Stopped(Stop),
    /// The answer is no longer needed.
    Over,
}

/// The possible answers to a request for approval.
const HELP: &str = "  y, yes, ok  call it this once\n  a, always   call it, and do not ask about this tool again\n  \
                    n, no       do not call it; so does Enter\n  other text  do not call it, and tell the model why";

fn count(event: &AgentEvent, spent: &mut RunCost) {
    if let AgentEvent::Turn { usage } = event {
        spent.turns += 1;
        let all = spent.usage;
        spent.usage = Usage {
            input: all.input + usage.input,
            cached: all.cached + usage.cached,
            cache_written: all.cache_written + usage.cache_written,
            output: all.output + usage.output,
        };
    }
}
