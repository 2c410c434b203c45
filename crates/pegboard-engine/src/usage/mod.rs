//! Learning from use: what was called after a search ranks higher for like queries.
//!
//! [`Habits`] hold what was learned, without a clock and without a file: whoever learns says
//! when, and whoever keeps them writes them down. [`Habitual`] ranks with them. It adds a
//! little to what the ranker found, in sight ([`Field::Usage`]), and never enough to reach a
//! tool that the query names. Of a query only the stems of its words are kept, and none that
//! look like numbers or keys.
//!
//! [`Field::Usage`]: pegboard_core::Field::Usage

mod habits;
mod ranker;
mod words;

pub use self::{
    habits::{Boost, Habit, HabitSettings, Habits, Lesson, MAX_TOOL_BYTES},
    ranker::{BoostSource, Habitual},
};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
