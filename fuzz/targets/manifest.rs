//! What is kept of servers' lists on disk: files of anybody, and contents under a right seal.
//!
//! The first byte says whether the rest is a whole file or a content to seal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pegboard_fuzz::choice;
use pegboard_upstream::fuzzing::{rewrite_manifest, seal_manifest};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = choice(bytes) else { return };
    if kind % 2 == 0 {
        if let Ok(written) = rewrite_manifest(bytes) {
            check(&written);
        }
        return;
    }
    let file = seal_manifest(bytes);
    if let Ok(written) = rewrite_manifest(&file) {
        check(&written);
    }
    // A changed byte breaks the seal.
    if let Some(at) = bytes.first().map(|first| usize::from(*first) % file.len()) {
        let mut changed = file.clone();
        changed[at] ^= 1;
        assert!(rewrite_manifest(&changed).is_err(), "a changed file is not believed");
        assert!(rewrite_manifest(&file[..at]).is_err(), "half a file is not believed");
    }
});

/// What we have written is read again, to the same bytes.
fn check(written: &[u8]) {
    assert_eq!(rewrite_manifest(written).as_deref(), Ok(written), "the same manifest is the same file");
}
