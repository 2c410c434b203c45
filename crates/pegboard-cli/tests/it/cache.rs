//! Cached indexes of large catalog files.

use std::{
    fs::{self, File},
    path::PathBuf,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};

use crate::harness::Folder;

const TOOLS: usize = 5_001;

/// Returns a catalog that is just large enough to be cached, with two warnings. `last` describes
/// its last tool.
fn catalog(last: &str) -> String {
    let things = ["issue", "invoice", "photo", "calendar", "message", "server", "recipe"];
    let tool = |at: usize| {
        let thing = things[at % things.len()];
        let description =
            if at + 1 == TOOLS { last.to_owned() } else { format!("Update the {thing} with number {at}") };
        let schema = json!({"type": "object", "properties": {"colour": {"description": "Colour of the label"}}});
        json!({"name": format!("update_{thing}_{at}"), "server": "s", "description": description, "inputSchema": schema})
            .to_string()
    };
    let mut lines: Vec<String> = (0..TOOLS).map(tool).collect();
    lines.insert(3, "not JSON".to_owned());
    lines.push(lines[0].clone());
    lines.join("\n")
}

fn folder(test: &str) -> Folder {
    let folder = Folder::new(&format!("cache_{test}"));
    folder.file("tools.jsonl", catalog("Water the tulips"));
    folder
}

/// Returns the output of a search, with its exit code and warnings.
fn search(folder: &Folder, args: &[&str]) -> String {
    let shown = folder.show(&[&["search", "--catalog", "tools.jsonl", "--ranker", "lexical"], args].concat());
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert!(shown.contains("tools.jsonl:4: line skipped") && shown.contains("duplicate tool"), "{shown}");
    shown
}

/// Returns the cache files, without stamps of catalog files.
fn cache_files(folder: &Folder) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.path().join("cache/pegboard")) else { return Vec::new() };
    let files = entries.map(|entry| entry.expect("an entry").path());
    files.filter(|path| path.extension().is_none_or(|end| end != "stamp")).collect()
}

fn set_age(file: &std::path::Path, age: Duration) {
    let file = File::options().append(true).open(file).expect("a file");
    file.set_modified(SystemTime::now() - age).expect("a time");
}

/// Checks that a search reads exactly the cache files with these endings, which marks them as used.
fn check_read(folder: &Folder, args: &[&str], expected: &[&str]) -> String {
    let files = cache_files(folder);
    files.iter().for_each(|file| set_age(file, Duration::from_secs(3600)));
    let shown = search(folder, args);
    let is_read = |file: &&PathBuf| {
        let age = fs::metadata(file).and_then(|data| data.modified()).expect("a time").elapsed();
        age.is_ok_and(|age| age < Duration::from_secs(1800))
    };
    let mut read: Vec<&str> = files.iter().filter(is_read).filter_map(|file| file.extension()?.to_str()).collect();
    read.sort_unstable();
    assert_eq!(read, expected, "{args:?}");
    shown
}

#[test]
fn a_second_search_reads_what_the_first_has_kept() {
    let folder = folder("twice");
    let first = search(&folder, &["water", "tulips"]);
    assert!(first.contains("Water the tulips"), "{first}");
    assert_eq!(cache_files(&folder).len(), 3);
    assert_eq!(check_read(&folder, &["water", "tulips"], &["index", "tools"]), first);
    let explained = ["colour", "of", "photo", "--explain", "--why-not", "update_issue_0"];
    let second = check_read(&folder, &explained, &["index", "schemas", "tools"]);
    assert!(second.contains("parameter"), "{second}");
    assert_eq!(second, search(&folder, &[&explained[..], &["--cache", "none"]].concat()));
    // A file that is old enough is not read again.
    set_age(&folder.path().join("tools.jsonl"), Duration::from_secs(60));
    assert_eq!(check_read(&folder, &["water", "tulips"], &["index", "tools"]), first);
    assert_eq!(check_read(&folder, &["water", "tulips"], &["index", "tools"]), first);
}

#[test]
fn a_kept_index_finds_by_meaning() {
    let folder = folder("meaning");
    let shown = |cache: &str| {
        folder.show(&["search", "--catalog", "tools.jsonl", "irrigate flowers", "--limit", "3", "--cache", cache])
    };
    let plain = shown("none");
    let first = shown("kept");
    assert_eq!(first, plain);
    assert_eq!(shown("kept"), plain);
    let files = fs::read_dir(folder.path().join("kept")).expect("a folder").count();
    assert_eq!(files, 4, "tools, schemas, index and stamp");
}

#[test]
fn a_changed_file_has_a_new_answer() {
    let folder = folder("changed");
    search(&folder, &["tulips"]);
    // The same number of bytes, and soon enough for the same time on a coarse clock.
    folder.file("tools.jsonl", catalog("Water the violas"));
    let shown = search(&folder, &["violas"]);
    assert!(shown.contains("Water the violas"), "{shown}");
    assert_eq!(search(&folder, &["violas"]), shown);
    folder.file("tools.jsonl", catalog("Water the tulips"));
    let back = check_read(&folder, &["tulips"], &["index", "tools"]);
    assert!(back.contains("Water the tulips"), "{back}");
}

#[test]
fn damaged_or_deleted_files_are_made_again() {
    let folder = folder("damaged");
    let first = search(&folder, &["tulips"]);
    let explained = search(&folder, &["tulips", "--explain"]);
    let files = cache_files(&folder);
    assert_eq!(files.len(), 3);
    for file in files {
        let mut bytes = fs::read(&file).expect("a file");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        for damage in [Some(bytes.as_slice()), Some(&[]), None] {
            match damage {
                Some(bytes) => fs::write(&file, bytes).expect("written"),
                None => fs::remove_file(&file).expect("removed"),
            }
            assert_eq!(search(&folder, &["tulips"]), first, "{} {:?}", file.display(), damage.map(<[u8]>::len));
            assert_eq!(search(&folder, &["tulips", "--explain"]), explained, "{}", file.display());
            assert_eq!(cache_files(&folder).len(), 3, "{}", file.display());
        }
    }
    assert_eq!(check_read(&folder, &["tulips"], &["index", "tools"]), first);
    fs::remove_dir_all(folder.path().join("cache")).expect("removed");
    assert_eq!(search(&folder, &["tulips"]), first);
}

#[test]
fn a_folder_that_cannot_be_used_keeps_nothing() {
    let folder = folder("unusable");
    let plain = search(&folder, &["tulips", "--cache", "none"]);
    assert_eq!(cache_files(&folder).len(), 0);
    folder.file("no-folder", "");
    assert_eq!(search(&folder, &["tulips", "--cache", "no-folder"]), plain);
    assert_eq!(search(&folder, &["tulips", "--cache", "/proc/none/here"]), plain);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let path = folder.path().join("readonly");
        fs::create_dir(&path).expect("a folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o500)).expect("permissions");
        assert_eq!(search(&folder, &["tulips", "--cache", "readonly"]), plain);
        assert_eq!(search(&folder, &["tulips", "--cache", "readonly"]), plain);
    }
}

#[test]
#[cfg(unix)]
fn only_the_owner_can_read_what_is_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder("private");
    search(&folder, &["tulips"]);
    for file in cache_files(&folder) {
        assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
}

#[test]
fn small_catalogs_are_not_kept() {
    let folder = folder("small");
    let lines: Vec<String> = catalog("Water the tulips").lines().map(str::to_owned).collect();
    let padding: Value = json!({"name": "padding", "description": "x".repeat(300_000)});
    folder.file("tools.jsonl", format!("{}\n{padding}\n{}", lines[..5].join("\n"), lines[0]));
    search(&folder, &["photo"]);
    assert_eq!(cache_files(&folder).len(), 0);
}
