//! Learning from usage: tools that were called after a search rank higher for similar queries.
//!
//! [`Habits`] store what was learned, without a clock and without a file: the caller passes the
//! time, and saves them. [`UsageRanker`] ranks with them. It adds a small amount to the ranker's
//! scores, visible as a reason ([`Field::Usage`]), and never enough to reach a tool that the query
//! names. Only the stems of a query's words are stored, and none that look like numbers or keys.
//!
//! [`Field::Usage`]: pegboard_core::Field::Usage

mod habits;
mod ranker;
mod words;

pub use self::{
    habits::{Boost, Habit, HabitSettings, Habits, Lesson, MAX_TOOL_BYTES},
    ranker::{BoostSource, UsageRanker},
};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
