use std::{fs, path::PathBuf};

use proptest::prelude::*;

use super::*;

struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pegboard-vectors-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.0).expect("a folder").map(|entry| entry.expect("an entry").path());
        let mut files: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|end| end == "vectors")).collect();
        files.sort();
        files
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn name(text: &str) -> Fingerprint {
    Fingerprint::of(&EndpointSettings::new("http://h/v1", "m"), "", text)
}

fn row(number: usize) -> Direction {
    let vector: Vec<f32> = (0..16).map(|at| ((number * 31 + at * 7) % 17) as f32 - 8.5).collect();
    Direction::of(&vector).expect("a direction")
}

fn save(cache: &Cache, numbers: std::ops::Range<usize>) {
    let rows: Vec<(Fingerprint, Direction)> = numbers.map(|at| (name(&at.to_string()), row(at))).collect();
    let rows: Vec<(Fingerprint, &Direction)> = rows.iter().map(|(name, row)| (*name, row)).collect();
    cache.save(&rows).expect("kept");
}

/// How many of the first `count` are found, each with its own vector.
#[track_caller]
fn found(cache: &Cache, count: usize) -> usize {
    let wanted: HashSet<Fingerprint> = (0..count).map(|at| name(&at.to_string())).collect();
    let found = cache.find(&wanted);
    for at in 0..count {
        if let Some(one) = found.get(&name(&at.to_string())) {
            assert_eq!(*one, row(at));
        }
    }
    found.len()
}

#[test]
fn what_is_kept_is_found_after_a_restart() {
    let place = Place::new("kept");
    save(&Cache::open(&place.0).expect("a cache"), 0..5);
    let cache = Cache::open(&place.0).expect("a cache");
    save(&cache, 5..7);
    assert_eq!(found(&cache, 10), 7);
    save(&cache, 5..7);
    assert_eq!(place.files().len(), 2, "the same vectors again are the same file");
}

#[test]
fn every_part_of_a_request_counts() {
    let base = EndpointSettings::new("http://h/v1", "m");
    let mut names = vec![
        Fingerprint::of(&base, "", "text"),
        Fingerprint::of(&base, "t", "ext"),
        Fingerprint::of(&base, "", "texts"),
        Fingerprint::of(&EndpointSettings { model: "n".into(), ..base.clone() }, "", "text"),
        Fingerprint::of(&EndpointSettings { dimensions: Some(5), ..base.clone() }, "", "text"),
        Fingerprint::of(&EndpointSettings { url: "http://i/v1".into(), ..base.clone() }, "", "text"),
    ];
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    let other =
        EndpointSettings { timeout: Duration::from_secs(1), url: "http://h/v1/embeddings".into(), ..base.clone() };
    assert_eq!(Fingerprint::of(&base, "", "text"), Fingerprint::of(&other, "", "text"), "what has no influence");
}

#[test]
fn many_small_files_become_one() {
    let place = Place::new("joined");
    let cache = Cache::open(&place.0).expect("a cache");
    for at in 0..MANY_FILES + 10 {
        save(&cache, at..at + 1);
    }
    assert!(place.files().len() < 12, "{} files", place.files().len());
    assert_eq!(found(&cache, MANY_FILES + 10), MANY_FILES + 10);
}

#[test]
fn what_is_forgotten_takes_nothing_else_along() {
    let place = Place::new("forgotten");
    let cache = Cache::open(&place.0).expect("a cache");
    save(&cache, 0..10);
    save(&cache, 10..12);
    cache.forget(&(3..5).map(|at| name(&at.to_string())).collect()).expect("forgotten");
    assert_eq!((found(&cache, 12), found(&cache, 5)), (10, 3));
    assert_eq!(place.files().len(), 2);
    cache.forget(&(0..10).map(|at| name(&at.to_string())).collect()).expect("forgotten");
    assert_eq!((found(&cache, 12), place.files().len()), (2, 1));
}

#[test]
fn names_are_of_the_folder() {
    let (one, other) = (Place::new("named-one"), Place::new("named-other"));
    let name = |place: &Place| Cache::open(&place.0).expect("a cache").entry_name(name("text"));
    assert_eq!(name(&one), name(&one));
    assert_ne!(name(&one), name(&other));
}

#[test]
fn beyond_the_bound_the_oldest_go() {
    let place = Place::new("bound");
    let mut cache = Cache::open(&place.0).expect("a cache");
    save(&cache, 0..100);
    let old = place.files();
    let past = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(&old[0]).and_then(|file| file.set_modified(past)).expect("made older");
    cache.all_bytes = fs::metadata(&old[0]).expect("a file").len() + 500;
    save(&cache, 100..200);
    assert_eq!(found(&cache, 200), 100);
    assert!(!place.files().contains(&old[0]));
}

#[test]
fn what_is_damaged_or_unfinished_is_passed_over() {
    let place = Place::new("damaged");
    let cache = Cache::open(&place.0).expect("a cache");
    save(&cache, 0..4);
    save(&cache, 4..6);
    let first = place.files().remove(0);
    let whole = fs::read(&first).expect("a file");
    let others = 6 - entries(&whole[whole.iter().position(|byte| *byte == b'\n').expect("a line") + 1..])
        .expect("entries")
        .len();
    // A process that was killed while writing has left a part under another name.
    fs::write(place.0.join(".writing-1-0-x.vectors"), &whole[..whole.len() / 2]).expect("written");
    assert_eq!(found(&cache, 6), 6);
    for cut in [0, 10, whole.len() / 2, whole.len() - 1] {
        fs::write(&first, &whole[..cut]).expect("written");
        assert_eq!(found(&cache, 6), others, "cut at {cut}");
        assert_eq!(found(&Cache::open(&place.0).expect("a cache"), 6), others);
    }
    fs::write(&first, b"garbage").expect("written");
    save(&cache, 6..7);
    assert_eq!(found(&cache, 7), others + 1);
}

#[cfg(unix)]
#[test]
fn it_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new("owner");
    save(&Cache::open(&place.0).expect("a cache"), 0..1);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o077;
    assert_eq!(mode(&place.0), 0);
    assert_eq!(mode(&place.files()[0]), 0);
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Some(entries) = entries(&bytes) {
            let again = bodies(entries.iter().map(|(name, row)| (*name, row)));
            prop_assert_eq!(again.concat(), bytes);
        }
    }
}
