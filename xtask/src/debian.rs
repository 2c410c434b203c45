//! What tests need of this Debian's archive: small packages are unpacked under `.tools/`, and Chromium, which
//! needs a hundred others, is installed and linked there. Where something cannot be had, the tests that need it
//! say that they are skipped.

use std::{
    fs,
    path::{Path, PathBuf},
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

/// Programs that are Chromium, the first that is found is used.
const CHROMIUM: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// Installs what is not there already.
pub(crate) fn install() -> Result<(), String> {
    PACKAGES.iter().try_for_each(install_one)?;
    link_chromium()
}

fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools")
}

/// Makes `.tools/chromium` a link to the browser, which is installed where the machine has none and this user may.
fn link_chromium() -> Result<(), String> {
    let link = tools().join("chromium");
    if link.exists() {
        return Ok(());
    }
    let find = || CHROMIUM.iter().map(Path::new).find(|program| program.exists());
    let program = match find() {
        Some(program) => program,
        None => {
            say("installing chromium with apt-get");
            if let Err(reason) = install_chromium() {
                say(&format!("skipped: no chromium for the tests that need it: {reason}"));
                return Ok(());
            }
            find().ok_or("the package `chromium` has no program where it is expected")?
        }
    };
    // Also replaces a link to a program that is gone.
    run("ln", &["-sfn", &program.to_string_lossy(), "chromium"], &tools())
}

/// Debian removes each version when the next one fixes a vulnerability, so none can be pinned.
fn install_chromium() -> Result<(), String> {
    let install = || {
        let packages = ["chromium", "fonts-dejavu-core"];
        let options = ["--quiet", "--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", "install"];
        run("apt-get", &[&options[..], &packages].concat(), Path::new("/"))
    };
    install().or_else(|_| run("apt-get", &["--quiet", "update"], Path::new("/")).and_then(|()| install()))
}

fn install_one(package: &Package) -> Result<(), String> {
    let tools = tools();
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
