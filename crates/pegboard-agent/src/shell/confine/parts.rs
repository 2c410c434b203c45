//! The parts of the hidden command.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
use super::namespaces;
use super::{Part, inside, keeper, outside};

/// Runs this part of the program. The order is on standard input.
pub fn run(part: Part) -> ExitCode {
    match part {
        Part::Inside => inside::run(),
        #[cfg(target_os = "linux")]
        Part::Namespaces(layout) => namespaces::run(&layout),
        #[cfg(target_os = "linux")]
        Part::Root(layout) => namespaces::run_root(&layout),
        #[cfg(not(target_os = "linux"))]
        Part::Namespaces(_) | Part::Root(_) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "only Linux has namespaces");
            ExitCode::from(126)
        }
        Part::Outside if keeper::is_kept() => outside::run(),
        Part::Outside => keeper::run(),
    }
}
