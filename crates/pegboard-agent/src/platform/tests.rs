use std::{
    env, fs,
    io::{Read as _, Write as _},
    path::Path,
};

use super::*;

/// Uses every function of one kind of folder, which must have the same signatures as the other.
macro_rules! check {
    ($folder:ty, $root:expr) => {{
        let folder = <$folder>::make($root, "a").expect("a folder");
        folder.create(".x").expect("a file").write_all(b"text").expect("written");
        assert!(folder.create(".x").is_err(), "it is there");
        folder.rename(".x", "y").expect("renamed");
        let mut text = String::new();
        folder.read("y").expect("a file").read_to_string(&mut text).expect("text");
        assert_eq!(text, "text");
        assert!(folder.modified("y").expect("a file").elapsed().is_ok());
        fs::create_dir($root.join("a/z")).expect("a folder");
        assert!(folder.modified("z").is_err() && folder.read("z").is_err(), "it is not a file");
        let mut names = folder.names().expect("names");
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        assert_eq!(names, ["y", "z"]);
        folder.remove("y").expect("removed");
        assert!(folder.read("y").is_err() && <$folder>::open($root, "missing").is_err());
    }};
}

fn with_root(name: &str, test: impl FnOnce(&Path)) {
    let root = env::temp_dir().join(format!("pegboard-platform-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    test(&root);
    fs::remove_dir_all(&root).expect("it is ours");
}

#[test]
fn folders_work_by_path() {
    with_root("path", |root| check!(folder_other::Folder, root));
    #[cfg(feature = "code-execution")]
    assert!(!other::is_root());
}

#[test]
fn folders_of_this_system() {
    with_root("own", |root| check!(Folder, root));
}
