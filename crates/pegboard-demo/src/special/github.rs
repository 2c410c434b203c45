//! Files on branches, and differences between branches.

use serde_json::{Value, json};

use super::Tools;
use crate::{
    verbs::Call,
    world::{Outcome, World, hash, known_as, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("merge_pull_request", merge),
    ("get_pull_request_diff", diff),
    ("get_file_contents", contents),
    ("push_files", push),
];

const FILES: &str = "github/files";

/// Returns the files that a branch has of its own, as paths and contents.
fn files(world: &World, call: &Call<'_>, branch: &str) -> Vec<(String, String)> {
    let is_here = |file: &&Value| {
        file["branch"] == *branch && ["owner", "repo"].iter().all(|name| file[name] == *call.arguments.value(name))
    };
    let files = world.all(FILES).iter().filter(is_here);
    files.map(|file| (text_of(&file["path"]), text_of(&file["content"]))).collect()
}

/// Writes files to a branch, with a commit.
fn commit(world: &mut World, call: &Call<'_>, branch: &str, message: &str, files: &[(String, String)]) -> Outcome {
    let [owner, repo] = ["owner", "repo"].map(|name| call.arguments.value(name));
    for (path, content) in files {
        let file = json!({"owner": owner, "repo": repo, "branch": branch, "path": path, "content": content});
        world.make(FILES, file, true)?;
    }
    let sha = format!("{:016x}", hash(&format!("{}{branch}{message}{files:?}", world.now())));
    let paths: Vec<&String> = files.iter().map(|(path, _)| path).collect();
    let commit =
        json!({"sha": sha, "owner": owner, "repo": repo, "branch": branch, "message": message, "files": paths});
    world.make("github/commits", commit, false)
}

fn push(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let branch = call.arguments.text("branch");
    let file = |file: &Value| (text_of(&file["path"]), text_of(&file["content"]));
    let files: Vec<(String, String)> = call.arguments.list("files").iter().map(file).collect();
    let commit = commit(world, call, branch, call.arguments.text("message"), &files)?;
    Ok(json!({"message": format!("{} file(s) on {branch}", files.len()), "commit": commit}))
}

fn contents(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let path = call.arguments.text("path").trim_matches('/');
    let branch = if call.arguments.has("ref") { call.arguments.text("ref") } else { "main" };
    // Files that a branch has not changed are those of the main branch.
    let files = [files(world, call, branch), files(world, call, "main")].concat();
    if let Some((_, content)) = files.iter().find(|(name, _)| name == path) {
        return Ok(json!({"message": format!("{path} on {branch}"), "content": content}));
    }
    let folder = if path.is_empty() || path == "." { String::new() } else { format!("{path}/") };
    let mut inside: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
    inside.sort_unstable();
    inside.dedup();
    if !inside.iter().any(|name| name.starts_with(&folder)) {
        return Err(format!("there is no `{path}` on `{branch}`; {}", known_as(&inside)).into());
    }
    inside.retain(|name| name.starts_with(&folder));
    Ok(json!({"message": format!("{} file(s) below `{path}` on {branch}", inside.len()), "entries": inside}))
}

fn diff(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let pull = &call.found["pull_number"];
    let base = files(world, call, &text_of(&pull["base"]));
    let mut diff = String::new();
    for (path, after) in files(world, call, &text_of(&pull["head"])) {
        let before = base.iter().find(|(name, _)| *name == path).map_or("", |(_, before)| before);
        diff += &format!("--- a/{path}\n+++ b/{path}\n");
        // Lines that are on both sides are left out, wherever they are.
        let lines = |mark: char, of: &str, other: &str| -> String {
            let changed = of.lines().filter(|line| !other.lines().any(|also| also == *line));
            changed.map(|line| format!("{mark}{line}\n")).collect()
        };
        diff += &(lines('-', before, &after) + &lines('+', &after, before));
    }
    Ok(json!({"message": format!("changes of pull request {}", pull["number"]), "diff": diff}))
}

fn merge(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut pull = call.found["pull_number"].clone();
    if pull["kind"] != "pr" || pull["state"] != "open" || pull["draft"] == true {
        return Err(format!("{} is not an open pull request", pull["number"]).into());
    }
    let [base, head] = ["base", "head"].map(|field| text_of(&pull[field]));
    let title = if call.arguments.has("commit_title") { call.arguments.value("commit_title") } else { &pull["title"] };
    let commit = commit(world, call, &base, &text_of(title), &files(world, call, &head))?;
    pull["state"] = "closed".into();
    pull["merged"] = true.into();
    pull["merge_commit"] = commit["sha"].clone();
    pull["merge_method"] = call.arguments.value("merge_method").clone();
    if call.arguments.is("delete_branch") {
        let key = format!("{}/{}@{head}", call.arguments.text("owner"), call.arguments.text("repo"));
        world.remove("github/branches", &key)?;
    }
    world.put("github/issues", pull.clone())?;
    let message = format!("pull request {} merged into {base}", pull["number"]);
    Ok(json!({"message": message, "pull_request": pull, "commit": commit}))
}
