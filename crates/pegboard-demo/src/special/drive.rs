//! Files, folders, archives, attachments and browser tabs.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Tools;
use crate::{
    verbs::{self, Call},
    world::{Outcome, ToolError, World, hash, known_as, shorten, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("list_files", list),
    ("read_file", read),
    ("write_file", write),
    ("upload", upload),
    ("move_file", rename),
    ("delete_file", delete),
    ("restore_version", restore),
    ("zip_files", zip),
    ("download-attachment", download),
    ("delete-message", delete_message),
    ("control-playback", control),
    ("browser_click", click),
    ("browser_evaluate", evaluate),
    ("browser_tabs", tabs),
];

/// The collection of files, shared by all servers.
pub(super) const FILES: &str = "files/files";
const TABS: &str = "browser/tabs";

/// Stores a text as a file.
pub(super) fn save(world: &mut World, path: &str, content: &str) -> Outcome {
    world.make(FILES, json!({"path": path, "content": content}), true)
}

/// Returns the files at `path` and below it.
fn below(world: &World, path: &str) -> Vec<Value> {
    let folder = format!("/{}", path.trim_matches('/'));
    let is_below = |file: &&Value| {
        let path = text_of(&file["path"]);
        folder == "/" || path.strip_prefix(&folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    world.all(FILES).iter().filter(is_below).cloned().collect()
}

fn list(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let folder = call.arguments.text("folder").trim_matches('/');
    let inside = if folder.is_empty() { "/".to_owned() } else { format!("/{folder}/") };
    let mut found = BTreeMap::new();
    for file in below(world, folder) {
        let path = text_of(&file["path"]);
        let Some(name) = path.strip_prefix(&inside) else { continue };
        let size = file["content"].as_str().map_or(0, str::len);
        let mut entry = json!({"path": path, "type": file["type"], "size": size, "modified": file["modified"]});
        if let Some((name, _)) = name.split_once('/').filter(|_| !call.arguments.is("recursive")) {
            entry = json!({"path": format!("{inside}{name}"), "type": "folder"});
        }
        found.insert(text_of(&entry["path"]), entry);
    }
    let mut files: Vec<Value> = found.into_values().collect();
    let by = call.arguments.text("sort_by");
    // By name they are already.
    files.sort_by(|a, b| crate::filter::compare(&a[by], &b[by]));
    Ok(json!({"message": format!("{} entries in {inside}", files.len()), "files": files}))
}

fn read(_: &mut World, call: &mut Call<'_>) -> Outcome {
    let file = &call.found["path"];
    let (content, path) = (text_of(&file["content"]), text_of(&file["path"]));
    let most = usize::try_from(call.arguments.int("max_chars").unwrap_or(0)).unwrap_or(0);
    let page = call.arguments.int("page").unwrap_or(1).saturating_sub(1);
    let skipped = usize::try_from(page).unwrap_or(0).saturating_mul(most);
    let shown: String = content.chars().skip(skipped).take(most).collect();
    Ok(json!({"message": format!("{} of {} bytes of {path}", shown.len(), content.len()), "content": shown}))
}

fn write(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (path, mode) = (call.arguments.text("path"), text_of(call.arguments.value("mode")));
    if let Ok(old) = world.find(FILES, path) {
        match mode.as_str() {
            "create_only" => return Err(format!("`{path}` already exists").into()),
            "append" => {
                let content = text_of(&old["content"]) + call.arguments.text("content");
                call.arguments.set("content", content);
            }
            _ => {}
        }
    }
    verbs::create(world, call)
}

fn upload(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let local = &call.found["local_path"];
    let (from, folder) = (text_of(&local["path"]), call.arguments.text("folder").trim_matches('/'));
    let name = from.rsplit('/').next().unwrap_or_default();
    let mut path = format!("/{folder}/{name}");
    let mut n = 1;
    while world.find(FILES, &path).is_ok() && call.arguments.text("on_conflict") != "replace" {
        if call.arguments.text("on_conflict") == "skip" {
            return Ok(json!({"message": format!("{path} already exists and was not changed")}));
        }
        path = format!("/{folder}/{n}-{name}");
        n += 1;
    }
    let file = save(world, &path, &text_of(&local["content"]))?;
    Ok(json!({"message": format!("{from} copied to {path}"), "file": file}))
}

fn rename(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (from, to) = (call.arguments.text("from"), format!("/{}", call.arguments.text("to").trim_matches('/')));
    if !below(world, &to).is_empty() {
        return Err(format!("`{to}` already exists").into());
    }
    let mut paths = Vec::new();
    for mut file in below(world, from) {
        let path = text_of(&file["path"]);
        world.remove(FILES, &path)?;
        paths.push(format!("{to}{}", path.strip_prefix(from).unwrap_or_default()));
        file["path"] = paths.last().cloned().into();
        world.put(FILES, file)?;
    }
    Ok(json!({"message": format!("{from} moved to {to}"), "paths": paths}))
}

fn delete(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let gone = below(world, call.arguments.text("path"));
    let paths: Vec<String> = gone.iter().map(|file| text_of(&file["path"])).collect();
    for path in &paths {
        world.remove(FILES, path)?;
    }
    Ok(json!({"message": format!("deleted {}", paths.join(", ")), "paths": paths}))
}

fn restore(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (file, wanted) = (&call.found["path"], call.arguments.text("version"));
    let versions = file["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_meant =
        |version: &&Value| text_of(&version["version"]) == wanted || text_of(&version["modified"]).starts_with(wanted);
    let Some(version) = versions.iter().find(is_meant) else {
        let known: Vec<String> = versions.iter().map(|version| text_of(&version["version"])).collect();
        return Err(format!("there is no version `{}`; {}", shorten(wanted), known_as(&known)).into());
    };
    let file = save(world, &text_of(&file["path"]), &text_of(&version["content"]))?;
    Ok(json!({"message": format!("{} restored", text_of(&file["path"])), "file": file}))
}

/// Creates or opens an archive. Archives keep their files as JSON, optionally with a password.
fn zip(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (target, paths) = (call.arguments.text("target"), call.arguments.texts("paths"));
    let lock = format!("{:x}", hash(call.arguments.text("password")));
    let mut done = Vec::new();
    if call.arguments.text("action") == "compress" {
        let mut packed = Map::new();
        for file in paths.iter().flat_map(|path| below(world, path)) {
            done.push(text_of(&file["path"]));
            packed.insert(text_of(&file["path"]), file["content"].clone());
        }
        save(world, target, &json!({"lock": lock, "files": packed}).to_string())?;
    }
    for archive in paths.iter().filter(|_| call.arguments.text("action") == "extract") {
        let content = text_of(&world.find(FILES, archive)?["content"]);
        let content: Value = serde_json::from_str(&content).unwrap_or_default();
        if content["lock"] != *lock {
            return Err(format!("`{archive}` is not an archive that this password opens").into());
        }
        for (path, content) in content["files"].as_object().into_iter().flatten() {
            done.push(text_of(&save(world, &format!("{target}{path}"), &text_of(content))?["path"]));
        }
    }
    Ok(json!({"message": format!("{} file(s), {target}", done.len()), "paths": done}))
}

fn download(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let attachments = call.found["message_id"]["attachments"].as_array().cloned().unwrap_or_default();
    let wanted = call.arguments.text("attachment_id");
    let Some(attachment) = attachments.iter().find(|attachment| attachment["id"] == *wanted) else {
        let known: Vec<String> = attachments.iter().map(|attachment| text_of(&attachment["id"])).collect();
        return Err(format!("the message has no attachment `{}`; {}", shorten(wanted), known_as(&known)).into());
    };
    let file = save(world, call.arguments.text("save_to"), &text_of(&attachment["content"]))?;
    Ok(json!({"message": format!("{} saved", text_of(&attachment["filename"])), "file": file}))
}

fn delete_message(world: &mut World, call: &mut Call<'_>) -> Outcome {
    if call.arguments.take("permanent") == true {
        return verbs::delete(world, call);
    }
    call.arguments.set("folder", "Trash");
    verbs::change(world, call)
}

fn control(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut player = world.find("media/players", "player")?;
    let tracks: Vec<Value> = world.all("media/tracks").iter().map(|track| track["uri"].clone()).collect();
    let at = tracks.iter().position(|uri| *uri == player["uri"]).unwrap_or(0);
    let action = call.arguments.text("action");
    match action {
        "pause" | "resume" => player["playing"] = (action == "resume").into(),
        "next" => player["uri"] = tracks[(at + 1) % tracks.len()].clone(),
        "previous" => player["uri"] = tracks[(at + tracks.len() - 1) % tracks.len()].clone(),
        _ => player["volume"] = call.arguments.int("volume").ok_or("`volume` is missing")?.into(),
    }
    if call.arguments.has("device") {
        player["device"] = call.arguments.value("device").clone();
    }
    world.put("media/players", player.clone())?;
    Ok(json!({"message": format!("{action} done on {}", text_of(&player["device"])), "player": player}))
}

/// Shows a page in the front tab.
fn open(world: &mut World, url: &str) -> Outcome {
    let page = world.find("browser/pages", url)?;
    let mut tab = world.all(TABS).iter().find(|tab| tab["current"] == true).cloned().ok_or("no tab is open")?;
    for field in ["url", "title", "text", "links", "fields", "table"] {
        tab[field] = page[field].clone();
    }
    world.put(TABS, tab.clone())?;
    Ok(json!({"message": format!("now at {}", text_of(&page["url"])), "tab": tab}))
}

fn click(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let selector = call.arguments.text("selector").to_lowercase();
    let links = call.found["tab"]["links"].as_object().cloned().unwrap_or_default();
    match links.iter().find(|(name, _)| selector.contains(&name.to_lowercase())) {
        Some((_, url)) => open(world, &text_of(url)),
        None => {
            let known: Vec<String> = links.keys().cloned().collect();
            Err(format!("no link `{}` on this page; {}", shorten(&selector), known_as(&known)).into())
        }
    }
}

/// Answers the most common expressions; there is no JavaScript engine.
fn evaluate(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (tab, script) = (&call.found["tab"], call.arguments.text("script").trim().trim_end_matches(';'));
    let result = match script.trim_start_matches("return ") {
        "document.title" => tab["title"].clone(),
        "location.href" | "document.URL" => tab["url"].clone(),
        "document.body.innerText" => tab["text"].clone(),
        "args" => call.arguments.value("args").clone(),
        script => match script.strip_prefix("location.href = ") {
            Some(url) => return open(world, url.trim_matches(['"', '\''])),
            None => {
                return Err(ToolError(format!(
                    "the demo supports no JavaScript except `document.title`, `location.href`, `location.href = …`, \
                     `document.body.innerText` and `args`; not `{}`",
                    shorten(script)
                )));
            }
        },
    };
    Ok(json!({"message": format!("`{script}` gives {result}"), "result": result}))
}

fn tabs(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let op = call.arguments.text("op");
    let mut chosen = usize::try_from(call.arguments.int("index").unwrap_or(0)).unwrap_or(usize::MAX);
    match op {
        "new" => {
            chosen = world.all(TABS).len();
            world.make(TABS, json!({"current": false}), false)?;
        }
        "close" | "select" if chosen >= world.all(TABS).len() => {
            return Err(format!("tabs are numbered from 0; there are {}", world.all(TABS).len()).into());
        }
        "close" => {
            let key = text_of(&world.all(TABS)[chosen]["id"]);
            world.remove(TABS, &key)?;
            chosen = 0;
        }
        _ => {}
    }
    for (at, mut tab) in world.all(TABS).to_vec().into_iter().enumerate().filter(|_| op != "list") {
        tab["current"] = (at == chosen).into();
        world.put(TABS, tab)?;
    }
    let tab = |tab: &Value| json!({"url": tab["url"], "title": tab["title"], "current": tab["current"]});
    let open: Vec<Value> = world.all(TABS).iter().map(tab).collect();
    Ok(json!({"message": format!("{op} done; {} tab(s) open", open.len()), "tabs": open}))
}
