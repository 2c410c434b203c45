//! Screenshots of the console.

use std::fs;

use crate::{cargo, cargo_command, say, step};

/// The folder of the screenshots.
const FOLDER: &str = "target/screenshots";

/// The one that the README shows, and where.
const BEST: &str = "playground-large-light.png";
const IMAGE: &str = "docs/images/console.png";

/// Makes screenshots of every page in both themes at three widths: runs the checks of the console with the
/// release build, and lets them keep what they look at. Copies the best one to the README if `is_written`.
pub(crate) fn run(is_written: bool) -> Result<(), String> {
    let absolute = |path: &str| std::path::absolute(path).map_err(|error| error.to_string());
    let (folder, program) = (absolute(FOLDER)?, absolute("target/release/pegboard")?);
    let _ = fs::remove_dir_all(&folder);
    step("build", cargo(&["build", "--workspace", "--bins"]))?;
    let tests = ["test", "--package", "pegboard-cli", "--test", "it", "gateway::console::"];
    step("pages", |name: &str| {
        let variables = [("PEGBOARD_PROGRAM", &program), ("PEG_SHOTS", &folder)];
        crate::run(name, cargo_command().args(tests).envs(variables))
    })?;
    let made = fs::read_dir(&folder).map_or(0, Iterator::count);
    let best = folder.join(BEST);
    if !best.exists() {
        return Err(format!("no screenshot `{}`\nhint: `cargo xtask peers` installs the browser", best.display()));
    }
    say(&format!("{made} screenshots in `{}`", folder.display()));
    if is_written {
        fs::copy(&best, IMAGE).map_err(|error| format!("cannot write `{IMAGE}`: {error}"))?;
        say(&format!("`{IMAGE}` is `{BEST}`"));
    }
    Ok(())
}
