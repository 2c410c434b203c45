//! The drive: files by their paths, with older versions and a bin.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Tools;
use crate::demo::{
    clock, filter,
    verbs::Call,
    world::{Outcome, World, hash, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("list_files", list),
    ("search_files", search),
    ("read_file", read),
    ("write_file", write),
    ("upload", upload),
    ("move_file", rename),
    ("delete_file", delete),
    ("restore_version", restore),
    ("convert_document", convert),
    ("zip_files", zip),
];

/// Where files are, for all servers.
pub(super) const FILES: &str = "files/files";

/// Versions that a file keeps.
const MAX_VERSIONS: usize = 5;

/// Stores a file; what was at its path becomes its latest old version.
pub(super) fn save(world: &mut World, path: &str, mut file: Value) -> Outcome {
    let now = clock::show(world.now());
    file["path"] = normal(path).into();
    if file["type"].is_null() {
        file["type"] = kind(path).into();
    }
    if let Ok(old) = world.find(FILES, path) {
        let mut versions = old["versions"].as_array().cloned().unwrap_or_default();
        let number = versions.last().map_or(0, |last| text_of(&last["version"]).parse().unwrap_or(0)) + 1;
        let version = json!({"version": number.to_string(), "modified": old["modified"], "content": old["content"]});
        versions.push(version);
        versions.drain(..versions.len().saturating_sub(MAX_VERSIONS));
        file["versions"] = versions.into();
        ["path", "owner", "people"].into_iter().for_each(|field| file[field] = old[field].clone());
    }
    file["modified"] = now.into();
    world.make(FILES, file, true)
}

/// What a list says of a file.
pub(super) fn entry(file: &Value) -> Value {
    json!({"path": file["path"], "type": file["type"], "size": size(file), "modified": file["modified"], "owner": file["owner"]})
}

/// Bytes of a file's content.
pub(super) fn size(file: &Value) -> usize {
    file["content"].as_str().map_or(0, str::len)
}

/// The rows of a text with separated values; quotes keep separators and line breaks.
pub(super) fn csv(text: &str, delimiter: &str) -> Vec<Vec<String>> {
    let delimiter = delimiter.chars().next().unwrap_or(',');
    let (mut rows, mut row, mut cell, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.trim_end().chars().chain(['\n']).peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => is_quoted = !is_quoted,
            c if c == delimiter && !is_quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell).trim_end_matches('\r').to_owned());
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    rows
}

/// A cell of such a text: a number if it is written like one.
pub(super) fn cell(text: &str) -> Value {
    serde_json::from_str::<serde_json::Number>(text).map_or_else(|_| text.into(), Value::Number)
}

/// `path` with another ending.
pub(super) fn with_ending(path: &str, ending: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    format!("{folder}/{stem}.{ending}")
}

fn normal(path: &str) -> String {
    format!("/{}", path.trim_matches('/'))
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "png" | "jpg" | "jpeg" | "webp" | "avif" | "svg" | "gif" => "image",
        "mp3" | "wav" | "ogg" => "audio",
        "mp4" | "webm" | "mkv" | "mov" => "video",
        "csv" | "xlsx" | "ods" => "spreadsheet",
        "pdf" => "pdf",
        "zip" => "archive",
        _ => "document",
    }
}

fn list(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let folder = format!("{}/", normal(call.arguments.text("folder")).trim_end_matches('/'));
    let mut found = BTreeMap::new();
    let mut is_known = folder == "/";
    for file in world.all(FILES) {
        let path = text_of(&file["path"]);
        is_known |= format!("{path}/") == folder;
        let Some(inside) = path.strip_prefix(&folder) else { continue };
        is_known = true;
        match inside.split_once('/').filter(|_| !call.arguments.is("recursive")) {
            Some((name, _)) => {
                found.insert(format!("{folder}{name}"), json!({"path": format!("{folder}{name}"), "type": "folder"}))
            }
            None => found.insert(path, entry(file)),
        };
    }
    if !is_known {
        return Err(format!("there is no folder `{folder}`").into());
    }
    let mut files: Vec<Value> = found.into_values().collect();
    let by = match call.arguments.text("sort_by") {
        "name" => "path",
        by => by,
    };
    files.sort_by(|a, b| filter::compare(&a[by], &b[by]));
    Ok(json!({"message": format!("{} entries in {folder}", files.len()), "files": files}))
}

fn search(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let page = filter::select(world.all(FILES).to_vec(), "modified", call.schema, &call.arguments)?;
    let files: Vec<Value> = page.objects.iter().map(entry).collect();
    Ok(
        json!({"message": format!("{} of {} files that fit", files.len(), page.total), "total": page.total, "files": files}),
    )
}

fn read(world: &mut World, call: &mut Call<'_>) -> Outcome {
    /// Characters of a page of a PDF.
    const PAGE: usize = 2_000;
    let file = world.find(FILES, call.arguments.text("path"))?;
    let content = text_of(&file["content"]);
    let most = usize::try_from(call.arguments.int("max_chars").unwrap_or(0)).unwrap_or(0);
    let (skipped, most) = match call.arguments.int("page").and_then(|page| usize::try_from(page - 1).ok()) {
        Some(page) if file["type"] == "pdf" => (page.saturating_mul(PAGE), most.min(PAGE)),
        _ => (0, most),
    };
    let shown: String = content.chars().skip(skipped).take(most).collect();
    let message = format!("{} of {} bytes of {}", shown.len(), content.len(), text_of(&file["path"]));
    Ok(json!({"message": message, "file": entry(&file), "content": shown}))
}

fn write(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (path, mut content) = (call.arguments.text("path"), call.arguments.text("content").to_owned());
    let old = world.find(FILES, path).ok();
    match (call.arguments.text("mode"), &old) {
        ("create_only", Some(_)) => return Err(format!("`{path}` is there already").into()),
        ("append", Some(old)) => content.insert_str(0, &text_of(&old["content"])),
        _ => {}
    }
    let file = save(world, path, json!({"content": content}))?;
    let what = if old.is_some() { "changed" } else { "created" };
    Ok(json!({"message": format!("{what} {}", text_of(&file["path"])), "file": entry(&file)}))
}

fn upload(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let local = world.find(FILES, call.arguments.text("local_path"))?;
    let name = text_of(&local["path"]).rsplit('/').next().unwrap_or_default().to_owned();
    let mut path = normal(&format!("{}/{name}", call.arguments.text("folder").trim_matches('/')));
    let is_there = |world: &World, path: &str| world.find(FILES, path).is_ok();
    match call.arguments.text("on_conflict") {
        "skip" if is_there(world, &path) => return Ok(json!({"message": format!("{path} is there already; skipped")})),
        "rename" => {
            let free = (1..).map(|n| path.replace(&name, &format!("{n}-{name}"))).find(|path| !is_there(world, path));
            path = if is_there(world, &path) { free.unwrap_or_default() } else { path };
        }
        _ => {}
    }
    let file = save(world, &path, json!({"content": local["content"], "type": local["type"]}))?;
    Ok(json!({"message": format!("{} was copied to {path}", text_of(&local["path"])), "file": entry(&file)}))
}

/// The file at `path`, or all that are below it.
fn below(world: &World, path: &str) -> Vec<Value> {
    let path = normal(path);
    let is_below = |file: &&Value| file["path"] == *path || text_of(&file["path"]).starts_with(&format!("{path}/"));
    world.all(FILES).iter().filter(is_below).cloned().collect()
}

fn rename(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (from, to) = (normal(call.arguments.text("from")), normal(call.arguments.text("to")));
    if let Some(there) = below(world, &to).first() {
        return Err(format!("`{}` is there already", text_of(&there["path"])).into());
    }
    let mut moved = Vec::new();
    for mut file in below(world, &from) {
        let path = text_of(&file["path"]);
        world.remove(FILES, &path)?;
        file["path"] = path.replacen(&from, &to, 1).into();
        world.put(FILES, file.clone())?;
        moved.push(entry(&file));
    }
    Ok(json!({"message": format!("{from} is {to} now"), "files": moved}))
}

fn delete(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut deleted = Vec::new();
    for file in below(world, call.arguments.text("path")) {
        world.remove(FILES, &text_of(&file["path"]))?;
        deleted.push(entry(&file));
        world.note("files/bin", file)?;
    }
    let until = clock::show_date(world.now() / clock::DAY + 30);
    Ok(json!({"message": format!("{} file(s) are in the bin until {until}", deleted.len()), "files": deleted}))
}

fn restore(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (path, wanted) = (call.arguments.text("path"), call.arguments.text("version"));
    let file = world.find(FILES, path)?;
    let versions = file["versions"].as_array().cloned().unwrap_or_default();
    let is_meant = |version: &&Value| {
        version["version"] == *wanted || version["modified"].as_str().is_some_and(|at| at.starts_with(wanted))
    };
    let Some(version) = versions.iter().find(is_meant) else {
        let known: Vec<String> = versions.iter().map(|version| text_of(&version["version"])).collect();
        return Err(format!("there is no version `{wanted}`; {}", crate::demo::world::known_as(&known)).into());
    };
    let file = save(world, path, json!({"content": version["content"], "type": file["type"]}))?;
    Ok(
        json!({"message": format!("{path} is as in version {} again", text_of(&version["version"])), "file": entry(&file), "content": file["content"]}),
    )
}

fn convert(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let file = world.find(FILES, call.arguments.text("path"))?;
    let (path, to) = (text_of(&file["path"]), call.arguments.text("to"));
    let target = match call.arguments.text("output_path") {
        "" => with_ending(&path, to),
        target => target.to_owned(),
    };
    let content = text_of(&file["content"]);
    let content = match to {
        "html" => format!("<pre>{}</pre>\n", content.replace('&', "&amp;").replace('<', "&lt;")),
        "txt" => content.replace(['#', '*'], "").trim_start().to_owned(),
        _ => content,
    };
    let made = save(world, &target, json!({"content": content, "converted_from": path}))?;
    Ok(json!({"message": format!("{path} is now {to} too, at {target}"), "file": entry(&made)}))
}

/// Archives keep their files as JSON; a password is needed to open what it closed.
fn zip(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (target, password) = (call.arguments.text("target").to_owned(), call.arguments.text("password"));
    let lock = if password.is_empty() { Value::Null } else { hash(password).into() };
    if call.arguments.text("action") == "compress" {
        let mut packed = serde_json::Map::new();
        for path in call.arguments.texts("paths") {
            packed.extend(below(world, path).into_iter().map(|file| (text_of(&file["path"]), file["content"].clone())));
        }
        let names: Vec<String> = packed.keys().cloned().collect();
        let content = Value::Object(packed).to_string();
        let file = save(world, &target, json!({"content": content, "type": "archive", "lock": lock}))?;
        return Ok(
            json!({"message": format!("{target} holds {} file(s)", names.len()), "file": entry(&file), "packed": names}),
        );
    }
    let mut unpacked = Vec::new();
    for path in call.arguments.texts("paths") {
        let archive = world.find(FILES, path)?;
        if archive["type"] != "archive" || archive["lock"] != lock {
            return Err(format!("`{path}` is no archive that opens with this password").into());
        }
        let packed: BTreeMap<String, String> = serde_json::from_str(&text_of(&archive["content"])).unwrap_or_default();
        for (path, content) in packed {
            let file = save(world, &format!("{target}{path}"), json!({"content": content}))?;
            unpacked.push(entry(&file));
        }
    }
    Ok(json!({"message": format!("{} file(s) were unpacked to {target}", unpacked.len()), "files": unpacked}))
}
