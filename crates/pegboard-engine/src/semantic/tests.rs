use std::path::Path;

use pegboard_core::{Catalog, LoadLimits, load};
use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// The first tool of a catalog made of `json`.
fn tool(json: &Value) -> Arc<Tool> {
    let line = json.to_string();
    let loaded = load::parse("tool.jsonl", line.as_bytes(), &LoadLimits::default()).expect("the sample's tools parse");
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    Arc::clone(catalog.iter().next().expect("one tool"))
}

fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().expect("a list").iter().map(|number| number.as_u64().expect("a number") as u32).collect()
}

fn lists(value: &Value) -> Vec<Vec<u32>> {
    value.as_array().expect("a list").iter().map(numbers).collect()
}

/// Whole numbers may differ by a rounding, nothing more.
#[track_caller]
fn check_vector(found: &Vector, expected: &Value) {
    let hex = expected["vector"].as_str().expect("hexadecimal");
    let digit = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("two digits").cast_signed();
    let expected_components: Vec<i8> = (0..hex.len() / 2).map(digit).collect();
    let components: Vec<i8> = found.components().collect();
    assert_eq!(components.len(), expected_components.len());
    for (ours, theirs) in components.iter().zip(&expected_components) {
        assert!(ours.abs_diff(*theirs) <= 1, "{expected}");
    }
    let scale = expected["scale"].as_f64().expect("a number");
    assert!((f64::from(found.scale()) - scale).abs() < 1e-5, "{scale} {}: {expected}", found.scale());
}

#[test]
fn the_reference_reads_the_same() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../train/sample.jsonl");
    let sample = std::fs::read_to_string(path).expect("the sample is part of the project");
    let model = Model::embedded();
    let zeros = Vector::new(&vec![0.0; model.dims()]);
    let mut reader = ToolReader::default();
    let mut compared = 0;
    for line in sample.lines() {
        let expected: Value = serde_json::from_str(line).expect("the sample is JSON");
        if let Some(text) = expected["text"].as_str() {
            let reading = model.read(text);
            assert_eq!(reading.tokens, numbers(&expected["tokens"]), "{text}");
            let counts = (reading.words as u64, reading.known as u64);
            assert_eq!(Some(counts), expected["words"].as_u64().zip(expected["known"].as_u64()), "{text}");
            assert_eq!(reading.requests(), lists(&expected["requests"]), "{text}");
            check_vector(&reading.vector(model).unwrap_or_else(|| zeros.clone()), &expected);
        } else {
            let vector = reader.read(&tool(&expected["tool"]), model);
            assert_eq!(reader.tokens().map(<[u32]>::to_vec).collect::<Vec<_>>(), lists(&expected["fields"]));
            check_vector(&vector, &expected);
        }
        compared += 1;
    }
    assert!(compared > 300, "only {compared}");
}

/// A model of three entries in sixteen dimensions, to damage.
fn tiny() -> Vec<u8> {
    let fields = header::FIELDS
        .map(|name| format!(r#"{{"name": "{name}", "limit": 8, "weight": 1.0, "power": 0.5}}"#))
        .join(",");
    let actions = format!("{:?}", [[0.25; 15]; 15]);
    let header = format!(
        r###"{{"name": "tiny", "dims": 16, "vocabulary": 3, "vocabulary_bytes": 12, "background": 1,
        "fields": [{fields}], "query_limit": 8,
        "fusion": {{"similarity": 1.0, "requests": 0.5, "least_similarity": 0.2, "finds_from": 0.3, "finds_to": 0.6,
            "known_from": 0.5, "known_to": 0.9}},
        "confidence": {{"short": {{"bias": 0.5, "share": 1.0}}, "long": {{"near": 1.0}}, "words": {{"lexical": 1.0}},
            "tools_from": 10, "tools_to": 1000, "nothing_below": [0.2, 0.1]}},
        "look": {{"score": 5.0, "whole": 1.0, "text": 1.0, "name": 1.0, "name_length": -1.0, "server": 1.0,
            "words_to": 10, "words_from": 16, "actions": {actions}}}}}"###
    );
    let mut bytes = b"PEGMODEL".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend((header.len() as u32).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(b"##d\nfox\nsen\n");
    bytes.extend((0..48_u8).map(|number| number.wrapping_mul(37)));
    for number in [0.01_f32, 0.02, 0.03, 1.0, 2.3, 3.0, 0.5, 0.6, 0.7, 0.04, 0.05, 0.06] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(b"background-row-0");
    bytes.extend(0.125_f32.to_le_bytes());
    seal(bytes)
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(file::checksum(&bytes).to_le_bytes());
    bytes
}

/// What a model says that has `with` where the tiny one has `part`, under a right checksum.
fn altered(part: &[u8], with: &[u8]) -> String {
    let bytes = tiny();
    let body = &bytes[..bytes.len() - 8];
    let at = body.windows(part.len()).position(|window| window == part).expect("the part is there");
    let bytes = seal([&body[..at], with, &body[at + part.len()..]].concat());
    Model::parse(Cow::Owned(bytes)).map_or_else(|error| error.to_string(), |_| "read".to_owned())
}

#[test]
fn what_a_file_must_be() {
    assert_eq!(altered(b"tiny", b"tiny"), "read");
    let check = |part: &[u8], with: &[u8], expected: &str| {
        let said = altered(part, with);
        assert!(said.contains(expected), "{said}");
    };
    check(b"PEGMODEL", b"PEGMODEM", "not a model file");
    check(b"PEGMODEL\x03", b"PEGMODEL\x01", "has format 1");
    check(b"\"dims\": 16", b"\"dims\": 17", "`dims`");
    check(b"\"dims\": 16", b"\"dims\": 32", "bytes, expected");
    check(b"\"dims\"", b"\"mids\"", "the header is invalid");
    check(b"known_to\": 0.9", b"known_to\": 0.5", "`fusion`");
    check(b"finds_to\": 0.6", b"finds_to\": 0.3", "`fusion`");
    check(b"nothing_below\": [0.2", b"nothing_below\": [1.2", "`confidence`");
    check(b"tools_to\": 1000", b"tools_to\": 1.00", "`confidence`");
    check(b"\"share\": 1.0", b"\"share\": 1e9", "`confidence`");
    check(b"\"score\": 5.0", b"\"score\": 0.0", "`look`");
    check(b"words_from\": 16", b"words_from\": 10", "`look`");
    check(b"[[0.25,", b"[[5000,", "`look`");
    check(b"\"background\": 1,", b"\"background\": 2,", "bytes, expected");
    check(b"\"background\": 1,", b"\"background\":-1,", "the header is invalid");
    check(b"background-row-0", b"background-row-\x80", "`background`");
    check(&0.125_f32.to_le_bytes(), &(-0.125_f32).to_le_bytes(), "`background`");
    check(b"\"context\"", b"\"content\"", "`fields`");
    check(b"##d\nfox\nsen\n", b"##d\nsen\nfox\n", "entry 2");
    check(b"##d\nfox\nsen\n", b"##d\n##\nfoxy\n", "entry 1");
    check(b"##d\nfox\nsen\n", b"##d\nSen\nfox\n", "entry 1");
    check(b"##d\nfox\nsen\n", b"##d\nfox\nseno", "3 entries");
    check(&[37, 74, 111], &[37, 0x80, 111], "`table`");
    check(&0.02_f32.to_le_bytes(), &f32::NAN.to_le_bytes(), "`scales`");
    check(&2.3_f32.to_le_bytes(), &(-2.3_f32).to_le_bytes(), "`query weights`");
    check(&0.7_f32.to_le_bytes(), &f32::INFINITY.to_le_bytes(), "`tool weights`");
    check(&0.06_f32.to_le_bytes(), &f32::NAN.to_le_bytes(), "`front units`");
}

#[test]
fn the_embedded_model_is_small_and_borrowed() {
    assert!(EMBEDDED_BYTES.len() <= 10_000_000);
    assert!(matches!(Model::embedded().bytes, Cow::Borrowed(_)));
    assert_eq!(Model::embedded().name(), "pegboard");
}

/// Nobody does so when the program runs.
#[test]
fn every_byte_of_the_embedded_model_is_as_it_was_written() {
    Model::parse(Cow::Borrowed(EMBEDDED_BYTES)).expect("a whole model");
}

proptest! {
    #[test]
    fn a_damaged_file_is_refused(at: prop::sample::Index, bit in 0..8_u8, cut: prop::sample::Index) {
        let mut bytes = EMBEDDED_BYTES.to_vec();
        bytes.truncate(cut.index(EMBEDDED_BYTES.len()));
        prop_assert!(Model::parse(Cow::Owned(bytes)).is_err());
        let mut bytes = EMBEDDED_BYTES.to_vec();
        bytes[at.index(EMBEDDED_BYTES.len())] ^= 1 << bit;
        prop_assert!(Model::parse(Cow::Owned(bytes)).is_err());
        let mut bytes = EMBEDDED_BYTES.to_vec();
        bytes.push(bit);
        prop_assert!(Model::parse(Cow::Owned(bytes)).is_err());
    }

    #[test]
    fn any_file_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..200), length in 0..300_u32) {
        let mut file = b"PEGMODEL\x02\0\0\0".to_vec();
        file.extend(length.to_le_bytes());
        file.extend(bytes);
        prop_assert!(Model::parse(Cow::Owned(file)).is_err());
    }

    #[test]
    fn any_text_is_read(text in ".{0,200}") {
        let model = Model::embedded();
        let reading = model.read(&text);
        prop_assert!(reading.known <= reading.words);
        if let Some(vector) = reading.vector(model) {
            prop_assert!((vector.similarity(&vector) - 1.0).abs() < 0.02);
        }
    }
}
