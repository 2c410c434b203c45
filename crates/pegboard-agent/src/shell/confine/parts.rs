//! Dispatches the parts of the hidden command.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
use super::namespaces;
use super::{ConfinePart, inside, keeper, outside};

/// Runs this part of the program. The order is on standard input.
pub fn run(part: ConfinePart) -> ExitCode {
    match part {
        ConfinePart::Inside => inside::run(),
        #[cfg(target_os = "linux")]
        ConfinePart::Namespaces(layout) => namespaces::run(&layout),
        #[cfg(target_os = "linux")]
        ConfinePart::Root(layout) => namespaces::run_root(&layout),
        #[cfg(not(target_os = "linux"))]
        ConfinePart::Namespaces(_) | ConfinePart::Root(_) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "only Linux has namespaces");
            ExitCode::from(126)
        }
        ConfinePart::Outside if keeper::is_watcher() => outside::run(),
        ConfinePart::Outside => keeper::run(),
    }
}
