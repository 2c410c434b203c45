//! `pegboard bench`: what it does is [measured elsewhere](crate::bench).

pub(crate) use crate::bench::{BenchArgs, run};
