//! Code that depends on the operating system is in few files, so that it is consistent on systems that
//! are compiled rarely: no module of one system is used by code of all.

use std::{fs, path::Path};

/// The files and folders, below a crate, whose code may depend on the operating system. Each offers
/// the same functions on every system.
const ALLOWED: [(&str, &str); 4] = [
    // Any crate: one file, or the folder of its implementations.
    ("*", "src/platform.rs"),
    ("*", "src/platform/"),
    // Child processes.
    ("pegboard-process", "src/"),
    // The sandbox of commands.
    ("pegboard-agent", "src/shell/confine/"),
];

/// What names a system in a `cfg`.
const SYSTEMS: [&str; 5] = ["unix", "windows", "target_os", "target_family", "target_env"];

/// Crates and modules that some systems do not have.
const OF_ONE_SYSTEM: [&str; 9] =
    ["os::unix", "os::windows", "os::fd", "os::{", "signal::unix", "rustix::", "libc::", "UnixListener", "UnixStream"];

/// Finds code of one system outside the allowed files of all crates in `crates`.
pub(crate) fn check(crates: &Path, problems: &mut Vec<String>) {
    for name in fs::read_dir(crates).into_iter().flatten().flatten().map(|entry| entry.file_name()) {
        let name = name.to_string_lossy();
        check_folder(&crates.join(&*name), &name, "src/", problems);
    }
}

/// Checks one folder of a crate; `place` is its path in the crate, with a slash at its end.
fn check_folder(root: &Path, name: &str, place: &str, problems: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(place)).into_iter().flatten().flatten() {
        let file = format!("{place}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            check_folder(root, name, &format!("{file}/"), problems);
        } else if file.ends_with(".rs") && !is_allowed(name, &file) {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            problems.extend(find(&text).into_iter().map(|(line, what)| {
                format!("`crates/{name}/{file}:{line}` must not depend on the operating system (`{what}`): move it to `src/platform.rs` or `pegboard-process` (xtask/src/gates.rs)")
            }));
        }
    }
}

/// Whether a file may depend on the operating system. Tests may.
fn is_allowed(name: &str, file: &str) -> bool {
    let is_in = |place: &str| if place.ends_with('/') { file.starts_with(place) } else { file == place };
    let is_test = file.ends_with("/tests.rs") || file.contains("/tests/");
    is_test || ALLOWED.iter().any(|(of, place)| (*of == "*" || *of == name) && is_in(place))
}

/// The lines of a file, before its tests, that depend on the operating system, with what they name.
fn find(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.trim();
        // Tests are at the end of a file.
        if code.starts_with("#[cfg(") && code.contains("test") && is_test_module(text, number) {
            break;
        }
        if code.starts_with("//") {
            continue;
        }
        let gate = code.contains("cfg(") || code.contains("cfg!(") || code.contains("cfg_attr(");
        let system = SYSTEMS.iter().find(|system| gate && has_word(code, system));
        if let Some(what) = system.or_else(|| OF_ONE_SYSTEM.iter().find(|what| has_word(code, what))) {
            found.push((number + 1, *what));
        }
    }
    found
}

/// Whether the item after the attribute in this line is a module.
fn is_test_module(text: &str, number: usize) -> bool {
    let after = text.lines().skip(number + 1).map(str::trim).find(|line| !line.starts_with("#["));
    after.is_some_and(|line| line.starts_with("mod ") || line.starts_with("pub") && line.contains(" mod "))
}

/// Whether `code` contains `what`, not as the end of a longer name.
fn has_word(code: &str, what: &str) -> bool {
    code.match_indices(what).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_one_system_is_found() {
        let check = |text: &str, expected: &[(usize, &str)]| assert_eq!(find(text), expected, "{text}");
        check("#[cfg(unix)]\nfn x() {}", &[(1, "unix")]);
        check("fn x() {}\n    #[cfg(not(any(target_os = \"linux\", windows)))]", &[(2, "windows")]);
        check("let x = if cfg!(target_os = \"macos\") { 1 } else { 2 };", &[(1, "target_os")]);
        check("#[cfg_attr(unix, path = \"x.rs\")]", &[(1, "unix")]);
        check("use std::os::unix::fs::MetadataExt as _;", &[(1, "os::unix")]);
        check("use std::{\n    io,\n    os::{fd::OwnedFd, unix::fs::X},\n};", &[(3, "os::{")]);
        check(
            "let pid = rustix::process::getpid();\nuse tokio::net::UnixListener;",
            &[(1, "rustix::"), (2, "UnixListener")],
        );
        check("// #[cfg(unix)]\n/// `libc::x`\n#[cfg(feature = \"windows-x\")]", &[(3, "windows")]);
        check("#[cfg(feature = \"x\")]\nlet pos::fd = glibc::x; // unix", &[]);
    }

    #[test]
    fn tests_may_depend_on_the_system() {
        let text = "fn x() {}\n#[cfg(all(test, unix))]\nmod tests {\n    use std::os::unix::fs::X;\n}";
        assert_eq!(find(text), []);
        assert_eq!(find(&text.replace("mod tests", "pub(super) mod tests")), []);
        let text = "#[cfg(any(test, unix))]\nfn x() {}\n";
        assert_eq!(find(text), [(1, "unix")]);
    }

    #[test]
    fn allowed_files() {
        let check = |name, file, expected| assert_eq!(is_allowed(name, file), expected, "{name} {file}");
        check("pegboard-cli", "src/platform.rs", true);
        check("pegboard-cli", "src/platform/unix.rs", true);
        check("pegboard-cli", "src/commands/platform.rs", false);
        check("pegboard-cli", "src/usage/tests.rs", true);
        check("pegboard-cli", "src/shell/confine/x.rs", false);
        check("pegboard-agent", "src/shell/confine/x.rs", true);
        check("pegboard-process", "src/processes/linux.rs", true);
        check("pegboard-upstream", "src/processes.rs", false);
    }

    #[test]
    fn this_workspace_keeps_to_it() {
        let mut problems = Vec::new();
        check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates"), &mut problems);
        assert_eq!(problems, Vec::<String>::new());
    }
}
