//! Parses and checks the response of an embeddings endpoint.

use pegboard_core::vectors::MAX_DIMENSIONS;
use serde::Deserialize;

use super::EmbeddingError;

#[derive(Deserialize)]
struct EndpointResponse {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

/// Returns the vectors of `count` texts in order, all of one length, which is `dimensions` if that
/// was requested.
pub(super) fn read(body: &[u8], count: usize, dimensions: Option<usize>) -> Result<Vec<Vec<f32>>, EmbeddingError> {
    let garbled = |text: String| Err(EmbeddingError::InvalidResponse(text));
    let answer: EndpointResponse = match serde_json::from_slice(body) {
        Ok(answer) => answer,
        Err(error) => return garbled(error.to_string()),
    };
    let vectors = place(answer.data, count)?;
    let length = dimensions.unwrap_or_else(|| vectors.first().map_or(0, Vec::len));
    if !(1..=MAX_DIMENSIONS).contains(&length) {
        return garbled(format!("a vector has {length} dimensions; supported are 1 to {MAX_DIMENSIONS}"));
    }
    for vector in &vectors {
        if vector.len() != length {
            return garbled(format!("a vector has {} dimensions instead of {length}", vector.len()));
        }
        if vector.iter().any(|number| !number.is_finite()) {
            return garbled("a vector has a number that is not finite".to_owned());
        }
        if vector.iter().all(|number| *number == 0.0) {
            return garbled("a vector is all zeros".to_owned());
        }
    }
    Ok(vectors)
}

/// Orders the vectors like their texts.
fn place(items: Vec<Item>, count: usize) -> Result<Vec<Vec<f32>>, EmbeddingError> {
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    for item in items {
        match vectors.get_mut(item.index) {
            Some(place @ None) => *place = Some(item.embedding),
            Some(_) => return Err(EmbeddingError::InvalidResponse(format!("two vectors for text {}", item.index))),
            None => {
                return Err(EmbeddingError::InvalidResponse(format!("a vector for text {} of {count}", item.index)));
            }
        }
    }
    let missing = |at: usize| EmbeddingError::InvalidResponse(format!("no vector for text {at} of {count}"));
    vectors.into_iter().enumerate().map(|(at, vector)| vector.ok_or_else(|| missing(at))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(body: &str, expected: Result<Vec<Vec<f32>>, &str>) {
        let found = read(body.as_bytes(), 2, None);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn answers() {
        let data = |items: &str| format!(r#"{{"object": "list", "data": [{items}], "model": "m"}}"#);
        let item = |index: usize, vector: &str| format!(r#"{{"index": {index}, "embedding": [{vector}]}}"#);
        let two = |a: String, b: String| data(&format!("{a}, {b}"));
        check(&two(item(1, "3, 4"), item(0, "1, 2")), Ok(vec![vec![1.0, 2.0], vec![3.0, 4.0]]));
        check(&two(item(0, "1"), item(1, "1, 2")), Err("2 dimensions instead of 1"));
        check(&two(item(0, "1"), item(0, "2")), Err("two vectors for text 0"));
        check(&two(item(0, "1"), item(2, "2")), Err("text 2 of 2"));
        check(&data(&item(0, "1")), Err("no vector for text 1 of 2"));
        check(&two(item(0, ""), item(1, "")), Err("0 dimensions"));
        check(&two(item(0, "1e39"), item(1, "1")), Err("out of range"));
        check(&two(item(0, "NaN"), item(1, "1")), Err("invalid response"));
        check(&two(item(0, "null"), item(1, "1")), Err("invalid response"));
        check(&two(item(0, "0, -0"), item(1, "1, 1")), Err("zeros"));
        let long = vec!["1"; MAX_DIMENSIONS + 1].join(",");
        check(&two(item(0, &long), item(1, &long)), Err("8193 dimensions"));
        check(r#"{"error": "no"}"#, Err("missing field `data`"));
        check("<html>", Err("invalid response"));
        let asked = read(two(item(0, "1, 2"), item(1, "1, 2")).as_bytes(), 2, Some(3));
        assert!(asked.expect_err("not what was asked for").to_string().contains("2 dimensions instead of 3"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0_usize..4) {
            let _ = read(&bytes, count, None);
        }
    }
}
