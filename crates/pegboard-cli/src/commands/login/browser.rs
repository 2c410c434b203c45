//! Opens the user's browser.

use std::{
    env, io,
    process::{Command, Stdio},
};

use pegboard_process::System;

/// Opens an address in the program that `BROWSER` names, or in the system's default. Does not wait
/// for it: some of these programs run as long as the browser does.
pub(super) fn open(url: &str) -> io::Result<()> {
    let mut command = match env::var_os("BROWSER").filter(|program| !program.is_empty()) {
        Some(program) => Command::new(program),
        None => usual(),
    };
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
}

/// Returns the program that opens an address on this system.
fn usual() -> Command {
    match System::current() {
        System::Linux => Command::new("xdg-open"),
        System::Mac => Command::new("open"),
        System::Windows => {
            // Not through the shell, which would read the address.
            let mut command = Command::new("rundll32");
            command.arg("url.dll,FileProtocolHandler");
            command
        }
    }
}
