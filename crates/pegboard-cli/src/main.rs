//! The `pegboard` binary; everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    pegboard_cli::run(std::env::args_os())
}
