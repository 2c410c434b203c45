//! What tests need of this Debian's archive, unpacked under `.tools/`. Where something cannot
//! be had, the tests that need it say that they are skipped.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::say;

/// One package, in a folder of its own.
struct Package {
    folder: &'static str,
    /// The version that the tests were written with; any other is better than none.
    pinned: &'static str,
    name: &'static str,
    /// A file that is there once it works.
    proof: &'static str,
}

const PACKAGES: [Package; 2] = [
    // Confines commands.
    Package { folder: "debian", pinned: "bubblewrap=0.8.0-2+deb12u1", name: "bubblewrap", proof: "usr/bin/bwrap" },
    // Lets a clock jump.
    Package {
        folder: "faketime",
        pinned: "libfaketime=0.9.10-2.1",
        name: "libfaketime",
        proof: "usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    },
];

/// Installs what is not there already.
pub(crate) fn install() -> Result<(), String> {
    PACKAGES.iter().try_for_each(install_one)
}

fn install_one(package: &Package) -> Result<(), String> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools");
    let target = tools.join(package.folder);
    if target.join(package.proof).exists() {
        return Ok(());
    }
    say(&format!("installing .tools/{}", package.folder));
    // An interrupted install leaves no folder of the final name.
    let partial = tools.join(format!("{}.partial", package.folder));
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).map_err(|error| format!("cannot create `{}`: {error}", partial.display()))?;
    if let Err(reason) = unpack(package, &partial) {
        let _ = fs::remove_dir_all(&partial);
        say(&format!("skipped: no {} for the tests that need it: {reason}", package.name));
        return Ok(());
    }
    let _ = fs::remove_dir_all(&target);
    fs::rename(&partial, &target).map_err(|error| format!("cannot create `{}`: {error}", target.display()))
}

fn unpack(package: &Package, folder: &Path) -> Result<(), String> {
    let download = |name: &str| run("apt-get", &["--quiet", "download", name], folder);
    // A fresh machine knows no packages yet; only root may tell it to look.
    let look = || run("apt-get", &["--quiet", "update"], folder);
    let any = || download(package.name);
    download(package.pinned).or_else(|_| any()).or_else(|_| look().and_then(|()| any()))?;
    let files = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut names = files.flatten().filter_map(|file| file.file_name().into_string().ok());
    let archive = names.find(|name| name.ends_with(".deb")).ok_or("nothing was downloaded")?;
    run("dpkg", &["-x", &archive, "."], folder)?;
    if folder.join(package.proof).exists() { Ok(()) } else { Err(format!("`{archive}` has no `{}`", package.proof)) }
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
