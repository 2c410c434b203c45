//! `pegboard bench`, which is implemented in [`crate::bench`].

pub(crate) use crate::bench::{BenchArgs, run};
