//! `/v1/embeddings`: vectors that are the same in every run and closer the more words two texts share.

use serde_json::{Value, json};

use super::{ask::items, encode::tokens, ids::base64};

/// As many inputs as one request may have.
const MAX_INPUTS: usize = 2048;

/// Answers a request, or tells what is wrong with it.
pub(crate) fn answer(body: &Value, usual_dimensions: usize) -> Result<Value, String> {
    let Some(model) = body["model"].as_str() else { return Err("you must provide a model parameter".into()) };
    let texts = inputs(&body["input"])?;
    let dimensions = body["dimensions"].as_u64().map_or(usual_dimensions, |count| count as usize).clamp(1, 8192);
    let encode = |vector: Vec<f32>| match body["encoding_format"].as_str() {
        Some("base64") => base64(&vector.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>()).into(),
        _ => json!(vector),
    };
    let entry = |(index, text): (usize, &String)| {
        let embedding: Value = encode(vector(text, dimensions));
        json!({"object": "embedding", "index": index, "embedding": embedding})
    };
    let data: Vec<Value> = texts.iter().enumerate().map(entry).collect();
    let read = tokens(texts.iter().map(String::len).sum());
    Ok(json!({"object": "list", "data": data, "model": model, "usage": {"prompt_tokens": read, "total_tokens": read}}))
}

/// The texts of a request; lists of tokens count as the texts of their numbers.
fn inputs(input: &Value) -> Result<Vec<String>, String> {
    let texts: Vec<String> = match input {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) if list.first().is_some_and(Value::is_number) => vec![input.to_string()],
        Value::Array(list) => {
            list.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), String::from)).collect()
        }
        _ => return Err("'input' must be a string or a list".into()),
    };
    if texts.is_empty() || texts.iter().any(String::is_empty) || items(input).len() > MAX_INPUTS {
        return Err(format!("'input' must be 1 to {MAX_INPUTS} texts, none of them empty"));
    }
    Ok(texts)
}

/// The sum of a direction for every word, of length one.
pub(crate) fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut sum = vec![0.0f32; dimensions];
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    // A text without words has a direction too: a vector of zeros would be near nothing.
    for word in words.chain([""]) {
        let mut noise = hash(&word.to_lowercase());
        let weight = if word.is_empty() { 0.01 } else { 1.0 };
        for number in &mut sum {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            *number += weight * ((noise >> 40) as f32 / (1u32 << 23) as f32 - 1.0);
        }
    }
    let length = sum.iter().map(|number| number * number).sum::<f32>().sqrt();
    sum.iter().map(|number| number / length).collect()
}

/// FNV-1a, never zero.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: &str, right: &str) -> f32 {
        vector(left, 256).iter().zip(vector(right, 256)).map(|(left, right)| left * right).sum()
    }

    #[test]
    fn words_in_common_bring_texts_together() {
        assert!((near("send a mail", "send a mail") - 1.0).abs() < 1e-5);
        assert!(near("send a mail", "Send the mail") > near("send a mail", "delete that branch") + 0.3);
        assert_eq!(vector("same", 8), vector("same", 8));
    }

    #[test]
    fn every_form_of_input_is_read() {
        let count =
            |input: Value| answer(&json!({"model": "m", "input": input}), 4).map(|answer| items(&answer["data"]).len());
        assert_eq!(count(json!("a")), Ok(1));
        assert_eq!(count(json!(["a", "b"])), Ok(2));
        assert_eq!(count(json!([1, 2])), Ok(1));
        assert_eq!(count(json!([[1], [2]])), Ok(2));
        for wrong in [json!(""), json!([]), json!(["a", ""]), json!({})] {
            assert!(count(wrong).is_err());
        }
        let coded =
            answer(&json!({"model": "m", "input": "a", "encoding_format": "base64", "dimensions": 3}), 4).unwrap();
        assert_eq!(coded["data"][0]["embedding"].as_str().map(str::len), Some(16));
    }
}
