//! What embedding endpoints answer: vectors, and refusals that may repeat what they were sent.
//!
//! The first byte says how many texts were sent, and whether the rest is a refusal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pegboard_core::vectors::{Direction, MAX_DIMENSIONS};
use pegboard_fuzz::{choice, text};
use pegboard_llm::fuzzing::{embeddings, refusal_without};
use serde_json::json;

/// Bytes by which a text is known in a refusal.
const KNOWN_BY: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = choice(bytes) else { return };
    if kind < 128 {
        let count = usize::from(kind % 8);
        if let Ok(vectors) = embeddings(bytes, count, None) {
            check_vectors(&vectors, count);
        }
    } else if let Some((sent, body)) = text(bytes).and_then(|text| text.split_once('\n')) {
        check_refusal(body, sent);
    }
});

/// Every vector has a direction, and what is written is read again.
fn check_vectors(vectors: &[Vec<f32>], count: usize) {
    assert_eq!(vectors.len(), count, "a vector for each text");
    let length = vectors.first().map_or(1, Vec::len);
    assert!((1..=MAX_DIMENSIONS).contains(&length), "{length} dimensions");
    let mut items = Vec::new();
    for (index, vector) in vectors.iter().enumerate() {
        assert_eq!(vector.len(), length, "all of one length");
        let direction = Direction::of(vector).expect("a direction");
        assert!((direction.cosine(&direction) - 1.0).abs() < 0.001, "a direction is near itself");
        let again = Direction::from_parts(direction.scale(), direction.numbers());
        assert_eq!(again, Some(direction), "what is kept on disk comes back");
        items.push(json!({"index": index, "embedding": vector}));
    }
    items.reverse();
    let written = json!({"data": items}).to_string();
    let again = embeddings(written.as_bytes(), count, Some(length)).ok();
    assert_eq!(again.as_deref(), Some(vectors), "the order of the items makes no difference");
}

/// A refusal does not tell what was sent.
fn check_refusal(body: &str, sent: &str) {
    let Some(shown) = refusal_without(body.as_bytes(), sent) else { return };
    let sent = sent.trim();
    let known_by = &sent[..sent.ceil_char_boundary(KNOWN_BY)];
    // What stands for it is no secret.
    if known_by.len() >= KNOWN_BY && !known_by.contains(['[', ']']) {
        assert!(!shown.contains(known_by), "{shown:?} repeats {sent:?}");
    }
}
