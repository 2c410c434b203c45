//! Branches, commits and what differs between them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Tools;
use crate::demo::{
    clock, verbs,
    verbs::Call,
    world::{Outcome, Refusal, World, hash, known_as, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("merge_pull_request", merge),
    ("get_pull_request_diff", pull_request_diff),
    ("get_file_contents", contents),
    ("push_files", push),
    ("create_release", release),
];

/// All files of a branch: its own over those of the branch that it comes from.
fn tree(world: &World, call: &Call<'_>, branch: &str) -> BTreeMap<String, String> {
    let is_here = |object: &Value| ["owner", "repo"].iter().all(|name| object[name] == *call.arguments.value(name));
    let mut line = Vec::new();
    let mut next = branch.to_owned();
    while !next.is_empty() && !line.contains(&next) {
        let parent = world.named("github/branches", &next, is_here).map(|found| text_of(&found[0]["from_ref"]));
        line.push(next);
        next = parent.unwrap_or_default();
    }
    let mut files = BTreeMap::new();
    for branch in line.iter().rev() {
        let of_branch = world.all("github/files").iter().filter(|file| is_here(file) && file["branch"] == **branch);
        files.extend(of_branch.map(|file| (text_of(&file["path"]), text_of(&file["content"]))));
    }
    files
}

/// Writes files to a branch and the commit that says so.
fn commit(world: &mut World, call: &Call<'_>, branch: &str, message: &str, files: &[(String, String)]) -> Outcome {
    let (owner, repo) = (call.arguments.value("owner"), call.arguments.value("repo"));
    for (path, content) in files {
        let file = json!({"owner": owner, "repo": repo, "branch": branch, "path": path, "content": content});
        world.make("github/files", file, true)?;
    }
    let sha = format!("{:016x}", hash(&format!("{}{branch}{message}{files:?}", world.now())));
    let paths: Vec<&String> = files.iter().map(|(path, _)| path).collect();
    let commit =
        json!({"sha": sha, "owner": owner, "repo": repo, "branch": branch, "message": message, "files": paths});
    world.make("github/commits", commit, false)
}

fn push(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let branch = call.arguments.text("branch").to_owned();
    let file = |file: &Value| (text_of(&file["path"]), text_of(&file["content"]));
    let files: Vec<(String, String)> = call.arguments.list("files").iter().map(file).collect();
    let commit = commit(world, call, &branch, call.arguments.text("message"), &files)?;
    Ok(
        json!({"message": format!("{} file(s) are on {branch}, commit {}", files.len(), text_of(&commit["sha"])), "commit": commit}),
    )
}

fn contents(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let path = call.arguments.text("path").trim_matches('/');
    let branch = if call.arguments.has("ref") { call.arguments.text("ref") } else { "main" };
    let files = tree(world, call, branch);
    if let Some(content) = files.get(path) {
        return Ok(json!({"message": format!("{path} on {branch}"), "path": path, "ref": branch, "content": content}));
    }
    let folder = if path.is_empty() || path == "." { String::new() } else { format!("{path}/") };
    let inside: Vec<&String> = files.keys().filter(|path| path.starts_with(&folder)).collect();
    if inside.is_empty() {
        let known: Vec<String> = files.into_keys().collect();
        return Err(format!("there is no `{path}` on `{branch}`; {}", known_as(&known)).into());
    }
    Ok(
        json!({"message": format!("{} file(s) below {path} on {branch}", inside.len()), "ref": branch, "entries": inside}),
    )
}

fn pull_request(world: &World, call: &Call<'_>) -> Outcome {
    let pull = world.find("github/issues", &text_of(call.arguments.value("pull_number")))?;
    if pull["kind"] != "pr" {
        return Err(format!("{} is an issue, not a pull request", pull["number"]).into());
    }
    Ok(pull)
}

/// The files that are other on the head branch than on the base: path, before and after.
fn changes(world: &World, call: &Call<'_>, pull: &Value) -> Vec<(String, String, String)> {
    let base = tree(world, call, &text_of(&pull["base"]));
    let before = |path: &String| base.get(path).cloned().unwrap_or_default();
    let head = tree(world, call, &text_of(&pull["head"])).into_iter();
    head.map(|(path, after)| (before(&path), path, after))
        .filter(|(before, _, after)| before != after)
        .map(|(before, path, after)| (path, before, after))
        .collect()
}

fn pull_request_diff(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let pull = pull_request(world, call)?;
    let changes = changes(world, call, &pull);
    let diff: String = changes.iter().map(|(path, before, after)| diff(path, before, after)).collect();
    Ok(json!({"message": format!("{} file(s) differ in pull request {}", changes.len(), pull["number"]), "diff": diff}))
}

/// A unified diff with one hunk: all between the first and the last line that differ.
fn diff(path: &str, before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let end = old[start..].iter().rev().zip(new[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let mut text = format!("--- a/{path}\n+++ b/{path}\n");
    text += &format!("@@ -{},{} +{},{} @@\n", start + 1, old.len(), start + 1, new.len());
    old.iter().for_each(|line| text += &format!("-{line}\n"));
    new.iter().for_each(|line| text += &format!("+{line}\n"));
    text
}

fn merge(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut pull = pull_request(world, call)?;
    if pull["state"] != "open" || pull["draft"] == true {
        return Err(format!("pull request {} is closed or a draft", pull["number"]).into());
    }
    let title = match call.arguments.text("commit_title") {
        "" => format!("{} (#{})", text_of(&pull["title"]), pull["number"]),
        title => title.to_owned(),
    };
    let files: Vec<_> = changes(world, call, &pull).into_iter().map(|(path, _, after)| (path, after)).collect();
    let commit = commit(world, call, &text_of(&pull["base"]), &title, &files)?;
    let merged = json!({"state": "closed", "merged": true, "merged_at": clock::show(world.now()), "merge_commit": commit["sha"], "merge_method": call.arguments.value("merge_method")});
    merged.as_object().into_iter().flatten().for_each(|(field, value)| pull[field] = value.clone());
    if call.arguments.is("delete_branch") {
        let branch = format!("{}/{}@{}", text_of(&pull["owner"]), text_of(&pull["repo"]), text_of(&pull["head"]));
        world.remove("github/branches", &branch)?;
    }
    world.put("github/issues", pull.clone())?;
    Ok(
        json!({"message": format!("pull request {} is merged into {}", pull["number"], text_of(&pull["base"])), "pull_request": pull, "commit": commit}),
    )
}

fn release(world: &mut World, call: &mut Call<'_>) -> Outcome {
    if call.arguments.take("generate_notes") == true {
        let is_ours = |pull: &&Value| pull["merged"] == true && pull["repo"] == *call.arguments.value("repo");
        let merged = world.all("github/issues").iter().filter(is_ours);
        let notes: Vec<String> =
            merged.map(|pull| format!("- {} (#{})", text_of(&pull["title"]), pull["number"])).collect();
        let body = [call.arguments.text("body"), &notes.join("\n")].join("\n");
        call.arguments.set("body", body.trim());
    }
    if call.arguments.text("tag_name").is_empty() {
        return Err(Refusal::from("a release needs a tag"));
    }
    verbs::create(world, call)
}
