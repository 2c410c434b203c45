//! Bubblewrap, which the tests confine commands with, unpacked under `.tools/debian` from the
//! archive of this Debian. Where there is none, those tests say that they are skipped.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::say;

/// The version that the tests were written with.
const PINNED: &str = "bubblewrap=0.8.0-2+deb12u1";

/// Whichever the archive has.
const ANY: &str = "bubblewrap";

/// A file that is there once it works.
const PROOF: &str = "usr/bin/bwrap";

/// Installs bubblewrap unless it is there already.
pub(crate) fn install() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = root.join(".tools/debian");
    if target.join(PROOF).exists() {
        return Ok(());
    }
    say("installing .tools/debian");
    // An interrupted install leaves no folder of the final name.
    let partial = root.join(".tools/debian.partial");
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).map_err(|error| format!("cannot create `{}`: {error}", partial.display()))?;
    if let Err(reason) = unpack(&partial) {
        let _ = fs::remove_dir_all(&partial);
        say(&format!("skipped: no bubblewrap for the tests that need it: {reason}"));
        return Ok(());
    }
    let _ = fs::remove_dir_all(&target);
    fs::rename(&partial, &target).map_err(|error| format!("cannot create `{}`: {error}", target.display()))
}

fn unpack(folder: &Path) -> Result<(), String> {
    let download = |package: &str| run("apt-get", &["--quiet", "download", package], folder);
    // A fresh machine knows no packages yet; only root may tell it to look.
    let look = || run("apt-get", &["--quiet", "update"], folder);
    download(PINNED).or_else(|_| download(ANY)).or_else(|_| look().and_then(|()| download(ANY)))?;
    let files = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut names = files.flatten().filter_map(|file| file.file_name().into_string().ok());
    let archive = names.find(|name| name.ends_with(".deb")).ok_or("nothing was downloaded")?;
    run("dpkg", &["-x", &archive, "."], folder)?;
    if folder.join(PROOF).exists() { Ok(()) } else { Err(format!("`{archive}` has no `{PROOF}`")) }
}

fn run(program: &str, args: &[&str], folder: &Path) -> Result<(), String> {
    let output = Command::new(program).args(args).current_dir(folder).output();
    let Output { status, stderr, .. } = output.map_err(|error| format!("cannot run `{program}`: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&stderr);
    Err(format!("`{program}` failed: {}", stderr.lines().last().unwrap_or_default()))
}
