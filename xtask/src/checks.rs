//! What `Cargo.toml` files must not say: arrows between crates that point the wrong way,
//! a runtime or a network where there is none, a licence that binds our users. And a crate
//! that is to stay behind one file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

use crate::gates;

/// Which crates of the workspace each may depend on, tests aside.
const ARROWS: [(&str, &[&str]); 21] = [
    // Leaves.
    ("pegboard-core", &[]),
    ("pegboard-http", &[]),
    ("pegboard-state", &[]),
    ("pegboard-process", &[]),
    ("pegboard-config", &["pegboard-core"]),
    ("pegboard-mcp", &["pegboard-core"]),
    // Search.
    ("pegboard-engine", &["pegboard-core"]),
    ("pegboard-tantivy", &["pegboard-core"]),
    ("pegboard-discovery", &["pegboard-core"]),
    // Large outputs.
    ("pegboard-outputs", &["pegboard-discovery", "pegboard-process"]),
    // Servers and providers.
    ("pegboard-upstream", &["pegboard-core", "pegboard-config", "pegboard-mcp", "pegboard-process", "pegboard-state"]),
    ("pegboard-llm", &["pegboard-core", "pegboard-discovery", "pegboard-mcp", "pegboard-state"]),
    ("pegboard-demo", &["pegboard-core", "pegboard-mcp", "pegboard-upstream"]),
    // Doors. They do not depend on one another.
    ("pegboard-console", &[]),
    (
        "pegboard-gateway",
        &[
            "pegboard-core",
            "pegboard-discovery",
            "pegboard-http",
            "pegboard-mcp",
            "pegboard-outputs",
            "pegboard-process",
            "pegboard-state",
            "pegboard-upstream",
        ],
    ),
    (
        "pegboard-proxy",
        &["pegboard-core", "pegboard-discovery", "pegboard-engine", "pegboard-http", "pegboard-llm", "pegboard-state"],
    ),
    (
        "pegboard-agent",
        &[
            "pegboard-core",
            "pegboard-discovery",
            "pegboard-engine",
            "pegboard-http",
            "pegboard-llm",
            "pegboard-mcp",
            "pegboard-outputs",
            "pegboard-process",
            "pegboard-state",
            "pegboard-upstream",
        ],
    ),
    // The library that programs add, and the program.
    (
        "pegboard",
        &[
            "pegboard-agent",
            "pegboard-core",
            "pegboard-discovery",
            "pegboard-engine",
            "pegboard-llm",
            "pegboard-tantivy",
        ],
    ),
    (
        "pegboard-cli",
        &[
            "pegboard-agent",
            "pegboard-config",
            "pegboard-console",
            "pegboard-core",
            "pegboard-demo",
            "pegboard-discovery",
            "pegboard-engine",
            "pegboard-gateway",
            "pegboard-http",
            "pegboard-llm",
            "pegboard-mcp",
            "pegboard-process",
            "pegboard-proxy",
            "pegboard-state",
            "pegboard-tantivy",
            "pegboard-upstream",
        ],
    ),
    ("pegboard-testkit", &[]),
    ("xtask", &[]),
];

/// Crates below which nothing may block on a runtime or reach a network.
const QUIET: [&str; 4] = ["pegboard-core", "pegboard-engine", "pegboard-tantivy", "pegboard-discovery"];

/// What a runtime or a network stack is made of.
const LOUD: [&str; 7] = ["tokio", "mio", "hyper", "reqwest", "axum", "rmcp", "rustls"];

/// How many packages each crate may link, itself included, when a program uses it alone.
const MOST_LINKED: [(&str, usize); 10] = [
    ("pegboard", 30),
    ("pegboard-core", 20),
    ("pegboard-discovery", 30),
    ("pegboard-engine", 30),
    ("pegboard-gateway", 155),
    ("pegboard-llm", 117),
    ("pegboard-mcp", 30),
    ("pegboard-proxy", 130),
    ("pegboard-state", 20),
    ("pegboard-upstream", 144),
];

/// Packages that a crate must not link: it exists so that programs can do without them.
const UNLINKED: [(&str, &[&str]); 4] = [
    ("pegboard-llm", &["rmcp", "pegboard-upstream", "pegboard-config", "jsonc-parser", "opentelemetry"]),
    ("pegboard-upstream", &["pegboard-engine", "pegboard-discovery", "opentelemetry"]),
    ("pegboard-proxy", &["pegboard-upstream", "pegboard-gateway", "pegboard-config", "rmcp", "opentelemetry"]),
    ("pegboard-gateway", &["pegboard-engine", "pegboard-llm", "pegboard-tantivy", "opentelemetry"]),
];

/// The only file that knows the MCP crate.
const RMCP_FILE: &str = "pegboard-upstream/src/auth/oauth.rs";

/// Licences that ask no more than attribution.
const LICENCES: [&str; 14] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unlicense",
    "Unicode-3.0",
    "CC0-1.0",
    "BSL-1.0",
    "0BSD",
    "MIT-0",
    "CDLA-Permissive-2.0",
];

pub(crate) fn run() -> Result<(), String> {
    let metadata = metadata()?;
    let mut problems = Vec::new();
    check_arrows(&metadata, &mut problems);
    check_quiet(&metadata, &mut problems);
    check_linked(&mut problems)?;
    check_licences(&metadata, &mut problems);
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    check_fence(&crates, &mut problems);
    gates::check(&crates, &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

fn metadata() -> Result<Value, String> {
    let output = crate::cargo_command()
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn members(metadata: &Value) -> impl Iterator<Item = &Value> {
    let ids: BTreeSet<&str> = list(metadata, "workspace_members").filter_map(Value::as_str).collect();
    list(metadata, "packages").filter(move |package| ids.contains(text(package, "id")))
}

fn check_arrows(metadata: &Value, problems: &mut Vec<String>) {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into();
    let names: BTreeSet<&str> = members(metadata).map(|package| text(package, "name")).collect();
    for package in members(metadata) {
        let name = text(package, "name");
        let Some(allowed) = allowed.get(name) else {
            problems.push(format!("`{name}` has no entry in the table of allowed arrows (xtask/src/checks.rs)"));
            continue;
        };
        for dependency in list(package, "dependencies").filter(|dependency| dependency["kind"] != "dev") {
            let target = text(dependency, "name");
            if names.contains(target) && !allowed.contains(&target) {
                problems.push(format!("`{name}` must not depend on `{target}`"));
            }
        }
    }
}

fn check_quiet(metadata: &Value, problems: &mut Vec<String>) {
    let names: BTreeMap<&str, &str> =
        list(metadata, "packages").map(|package| (text(package, "id"), text(package, "name"))).collect();
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"], "nodes").map(|node| (text(node, "id"), node)).collect();
    for package in members(metadata).filter(|package| QUIET.contains(&text(package, "name"))) {
        let mut open = vec![text(package, "id")];
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop().filter(|_| open.len() < 100_000) {
            if !seen.insert(id) {
                continue;
            }
            if let Some(loud) = names.get(id).filter(|name| LOUD.contains(name)) {
                problems.push(format!("`{}` must not reach `{loud}`", text(package, "name")));
            }
            let Some(node) = nodes.get(id) else { continue };
            for dependency in list(node, "deps") {
                if list(dependency, "dep_kinds").any(|kind| kind["kind"].is_null()) {
                    open.push(text(dependency, "pkg"));
                }
            }
        }
    }
}

/// Each crate links few packages, and not those that it is to do without.
fn check_linked(problems: &mut Vec<String>) -> Result<(), String> {
    for (name, most) in MOST_LINKED {
        let linked = linked(name)?;
        if linked.len() > most {
            problems.push(format!("`{name}` links {} packages, over the limit of {most}", linked.len()));
        }
        let without = UNLINKED.iter().find(|(crate_name, _)| *crate_name == name).map_or(&[][..], |(_, list)| *list);
        for package in without.iter().filter(|package| linked.iter().any(|(linked, _)| linked == **package)) {
            problems.push(format!("`{name}` must not link `{package}`"));
        }
    }
    Ok(())
}

/// Returns the packages that a crate links, as names and versions, with the features that it has by itself.
/// `cargo metadata` would show those that any crate of the workspace turns on.
fn linked(name: &str) -> Result<BTreeSet<(String, String)>, String> {
    let output = crate::cargo_command()
        .args(["tree", "--locked", "--package", name, "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .output()
        .map_err(|error| format!("cannot run cargo tree: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(packages(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the packages in the output of `cargo tree`.
fn packages(tree: &str) -> BTreeSet<(String, String)> {
    let package = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        words.next().zip(words.next())
    };
    tree.lines().filter_map(package).collect()
}

fn check_licences(metadata: &Value, problems: &mut Vec<String>) {
    for package in list(metadata, "packages") {
        let licence = text(package, "license");
        if !is_permissive(licence) {
            problems.push(format!("`{}` has the licence `{licence}`", text(package, "name")));
        }
    }
}

/// A crate that moves fast is named in one file, so that its next version changes one file.
fn check_fence(folder: &Path, problems: &mut Vec<String>) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            check_fence(&path, problems);
        } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with(RMCP_FILE) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            if text.contains("rmcp::") {
                problems.push(format!("`{}` must not use `rmcp`: only `{RMCP_FILE}` does", path.display()));
            }
        }
    }
}

/// Whether one arm of the expression asks for nothing but attribution.
fn is_permissive(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], "");
    // `AND` binds tighter than `OR`; without parentheses that reading is the strict one.
    expression.split(" OR ").any(|arm| arm.split(" AND ").all(|licence| LICENCES.contains(&licence.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_a_tree() {
        let tree =
            "pegboard-core v0.2.0 (/a b/c)\nserde v1.0.1\nsyn v2.0.0 (proc-macro)\nserde v1.0.1 (*)\nsyn v3.0.0\n";
        let pair = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        let expected =
            [pair("pegboard-core", "v0.2.0"), pair("serde", "v1.0.1"), pair("syn", "v2.0.0"), pair("syn", "v3.0.0")];
        assert_eq!(packages(tree), expected.into());
    }

    #[test]
    fn licence_expressions() {
        for good in
            ["MIT", "MIT OR Apache-2.0", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"]
        {
            assert!(is_permissive(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "MPL-2.0"] {
            assert!(!is_permissive(bad), "{bad}");
        }
    }
}
