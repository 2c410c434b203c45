use std::{env, fs, path::PathBuf};

use super::*;

struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = env::temp_dir().join(format!("pegboard-platform-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Calls every function of one implementation, which must have the same signatures as the other.
macro_rules! check {
    ($system:ident, $place:expr) => {{
        let folder = $place.0.join("a/b");
        $system::create_private_folder(&folder).expect("a folder");
        $system::make_folder_private(&folder).expect("it is ours");
        $system::check_owner(&folder).expect("it is ours");
        assert!($system::can_write_to(&folder) && !$system::can_write_to(&folder.join("missing")));
        assert!($system::check_owner(&folder.join("missing")).is_err());
        let path = folder.join("file");
        let mut options = fs::OpenOptions::new();
        $system::restrict_to_owner(options.write(true).create_new(true));
        let file = options.open(&path).expect("a file");
        $system::make_file_private(&file).expect("it is ours");
        let data = fs::metadata(&path).expect("a file");
        assert!($system::is_own(&data));
        assert!(!$system::is_readable_by_others(&data) && !$system::is_writable_by_others(&data));
        ($system::file_number(&data), $system::change_time(&data))
    }};
}

#[test]
fn every_function_works_without_modes_and_owners() {
    let place = Place::new("other");
    assert_eq!(check!(other, place), (0, 0));
}

#[cfg(unix)]
#[test]
fn files_and_folders_are_private() {
    use std::{os::unix::fs::PermissionsExt as _, path::Path};

    let place = Place::new("unix");
    let (number, changed) = check!(unix, place);
    assert!(number > 0 && changed > 0);
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let (folder, file) = (place.0.join("a/b"), place.0.join("a/b/file"));
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
    set(&folder, 0o777);
    assert!(check_owner(&folder).is_err());
    make_folder_private(&folder).expect("it is ours");
    set(&file, 0o666);
    let data = fs::metadata(&file).expect("a file");
    assert!(is_readable_by_others(&data) && is_writable_by_others(&data));
    make_file_private(&fs::File::open(&file).expect("a file")).expect("it is ours");
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
}
