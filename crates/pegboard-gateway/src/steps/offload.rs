//! Replacement of long results by references.
//!
//! Text and structured content are replaced; images, audio, embedded resources and links stay. A
//! failure of a tool (`isError`) is treated like any other result, and stays a failure. Questions
//! to the client and task handles are not results.

use std::sync::Arc;

use pegboard_discovery::host::results::{self, OffloadedResult};
use pegboard_mcp::json::{Fields, Raw, SharedRaw, raw};
use pegboard_outputs::{estimate, exceeds, preview};
use serde::de::IgnoredAny;
use serde_json::{json, value::RawValue};

use crate::{
    doors::incoming::{LARGE, off_thread},
    offload::{OffloadSettings, OffloadedResults, ResultOwner, ResultTooLarge, duration_text},
    request::Forwarded,
};

/// Maximum number of characters of a long result that are shown.
const PREVIEW_CHARS: usize = 4_000;

/// Replaces the long parts of a result by references, and keeps them for `owner`.
///
/// # Errors
/// When a part is larger than all results together may be.
pub(crate) async fn offload(
    store: &OffloadedResults,
    settings: &OffloadSettings,
    owner: ResultOwner,
    tool: &str,
    forwarded: Forwarded,
) -> Result<Forwarded, ResultTooLarge> {
    // A token has at least one byte.
    if forwarded.result.get().len() <= settings.tokens {
        return Ok(forwarded);
    }
    let tokens = settings.tokens;
    let is_large = forwarded.result.get().len() > LARGE;
    let (mut forwarded, split) = off_thread(is_large, move || {
        let split = SplitResult::of(&forwarded.result, tokens);
        (forwarded, split)
    })
    .await;
    let Some(split) = split else { return Ok(forwarded) };
    let mut notices = Vec::new();
    for part in split.long {
        let reference = store.keep(settings, owner.clone(), Arc::clone(&part.text))?;
        let lifetime = duration_text(settings.lifetime);
        let notice = part.notice(tool, &reference, &lifetime, PREVIEW_CHARS.min(tokens));
        notices.push(raw(&json!({"type": "text", "text": notice})));
    }
    let mut fields = split.rest;
    notices.extend(split.content);
    fields.set("content", raw(&notices));
    forwarded.result = fields.to_raw();
    if let Some(room) = &mut forwarded.room {
        room.shrink_to(forwarded.result.get().len());
    }
    Ok(forwarded)
}

/// A result with long parts.
#[derive(Debug)]
struct SplitResult {
    /// The fields that stay.
    rest: Fields,
    /// The content that stays.
    content: Vec<Raw>,
    long: Vec<LongPart>,
}

/// A part that is too long to show.
#[derive(Debug)]
struct LongPart {
    text: Arc<str>,
    chars: usize,
    lines: usize,
    tokens: usize,
    is_json: bool,
}

impl SplitResult {
    /// Splits a result; `None` if no part of it has more than `tokens` tokens.
    fn of(result: &RawValue, tokens: usize) -> Option<Self> {
        let mut rest = Fields::of(result)?;
        if rest.text("resultType").is_some_and(|kind| kind != "complete") {
            return None;
        }
        let content: Vec<Raw> = rest.read("content").unwrap_or_default();
        let text_of = |content: &Raw| {
            let fields = Fields::of(content)?;
            fields.text("type").filter(|kind| kind == "text").and_then(|_| fields.text("text"))
        };
        let texts: Vec<Option<String>> = content.iter().map(text_of).collect();
        let text = texts.iter().flatten().map(String::as_str).collect::<Vec<_>>().join("\n");
        let is_long = exceeds(&text, tokens);
        let structured = rest.get("structuredContent").map(RawValue::get);
        let is_repeated = structured.is_some_and(|structured| repeats(structured, &text));
        let long_structured = structured.filter(|structured| !is_repeated && exceeds(structured, tokens));
        let long_structured = long_structured.map(LongPart::new);
        if !is_long && long_structured.is_none() {
            return None;
        }
        if long_structured.is_some() || is_repeated {
            rest.remove("structuredContent");
        }
        let content = content.into_iter().zip(&texts).filter(|(_, text)| !is_long || text.is_none());
        let content = content.map(|(content, _)| content).collect();
        let long = is_long.then(|| LongPart::new(&text)).into_iter().chain(long_structured).collect();
        Some(Self { rest, content, long })
    }
}

impl LongPart {
    fn new(text: &str) -> Self {
        Self {
            chars: text.chars().count(),
            lines: text.lines().count(),
            tokens: estimate(text),
            // Read through, not built: as a tree it would be many times its size.
            is_json: serde_json::from_str::<IgnoredAny>(text).is_ok(),
            text: text.into(),
        }
    }

    fn notice(&self, tool: &str, reference: &str, lifetime: &str, shown: usize) -> String {
        let Self { chars, lines, tokens, is_json, .. } = *self;
        let (head, tail, omitted) = preview(&self.text, chars, shown);
        results::notice(&OffloadedResult {
            tool,
            reference,
            lifetime,
            chars,
            lines,
            tokens,
            is_json,
            head,
            tail,
            omitted,
        })
    }
}

/// Returns whether structured content says the same as the text: the text is its JSON, or it is an
/// object with the text, or its JSON, as `result`.
fn repeats(structured: &str, text: &str) -> bool {
    let (structured, compact) = (without_space(structured), without_space(text));
    let inner = structured.strip_prefix("{\"result\":").and_then(|rest| rest.strip_suffix('}'));
    structured == compact || inner.is_some_and(|inner| inner == compact || *inner == *raw(text).get())
}

/// Returns JSON without space between tokens.
fn without_space(json: &str) -> String {
    let (mut compact, mut is_string, mut is_escaped) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        if is_string || !c.is_ascii_whitespace() {
            compact.push(c);
        }
        is_string ^= c == '"' && !is_escaped;
        is_escaped = is_string && c == '\\' && !is_escaped;
    }
    compact
}

/// Returns a definition without its output schema: a result that was replaced does not fit it, and
/// clients would reject it.
pub(crate) fn without_output_schema(definition: SharedRaw) -> SharedRaw {
    // Few tools have one; looking is cheaper than taking all of them apart.
    if !definition.get().contains("\"outputSchema\"") {
        return definition;
    }
    let Some(mut fields) = Fields::of(&definition) else { return definition };
    match fields.remove("outputSchema") {
        Some(_) => fields.to_raw().into(),
        None => definition,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Splits a result at five tokens; the long parts, the content that stays and the other fields.
    #[track_caller]
    fn check(result: &Value, expected: Option<(&[&str], Value, Value)>) {
        let split = SplitResult::of(&raw(result), 5).map(|split| {
            let mut rest = split.rest;
            rest.remove("content");
            let long: Vec<String> = split.long.iter().map(|part| part.text.to_string()).collect();
            (long, json!(split.content), serde_json::from_str::<Value>(rest.to_raw().get()).expect("JSON"))
        });
        let expected = expected.map(|(long, content, rest)| {
            let long: Vec<String> = long.iter().map(|part| (*part).to_owned()).collect();
            (long, content, rest)
        });
        assert_eq!(split, expected, "{result}");
    }

    const LONG: &str = "one two three four five six seven";

    #[test]
    fn text_and_structured_content_are_replaced() {
        let text = |text: &str| json!({"type": "text", "text": text});
        check(&json!({"content": [text("short")]}), None);
        check(&json!({"content": [text(LONG)], "isError": true}), Some((&[LONG], json!([]), json!({"isError": true}))));
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let joined = "one two three\nfour five six";
        check(
            &json!({"content": [text("one two three"), image, text("four five six")], "_meta": {"a": 1}}),
            Some((&[joined], json!([image]), json!({"_meta": {"a": 1}}))),
        );
        let list = json!({"items": ["one", "two", "three", "four"]});
        let compact = list.to_string();
        // The same in both places, however it is written.
        let pretty = serde_json::to_string_pretty(&list).expect("JSON");
        for written in [compact.as_str(), &pretty] {
            check(
                &json!({"content": [text(written)], "structuredContent": list}),
                Some((&[written], json!([]), json!({}))),
            );
        }
        check(
            &json!({"content": [text(LONG)], "structuredContent": {"result": LONG}}),
            Some((&[LONG], json!([]), json!({}))),
        );
        // Structured content alone, or beside a text that says less.
        check(&json!({"structuredContent": list}), Some((&[&compact], json!([]), json!({}))));
        check(
            &json!({"content": [text("4 items")], "structuredContent": list}),
            Some((&[&compact], json!([text("4 items")]), json!({}))),
        );
        check(
            &json!({"content": [text(LONG)], "structuredContent": {"n": 7}}),
            Some((&[LONG], json!([]), json!({"structuredContent": {"n": 7}}))),
        );
    }

    #[test]
    fn what_is_no_result_of_text_stays() {
        check(&json!({"content": [{"type": "image", "data": LONG}]}), None);
        check(&json!({"content": [{"type": "resource", "resource": {"uri": "a://b", "text": LONG}}]}), None);
        let asks = json!({"question": {"method": "elicitation/create", "params": {"message": LONG}}});
        check(&json!({"resultType": "input_required", "inputRequests": asks}), None);
        check(&json!({"resultType": "task", "taskId": LONG, "content": [{"type": "text", "text": LONG}]}), None);
    }

    #[test]
    fn definitions_lose_their_output_schema() {
        let check = |given: Value, expected: Value| {
            let found = without_output_schema(raw(&given).into());
            assert_eq!(serde_json::from_str::<Value>(found.get()).expect("JSON"), expected);
        };
        check(json!({"name": "a", "outputSchema": {}, "title": "A"}), json!({"name": "a", "title": "A"}));
        check(
            json!({"name": "a", "description": "\"outputSchema\""}),
            json!({"name": "a", "description": "\"outputSchema\""}),
        );
    }

    #[test]
    fn space_between_tokens_does_not_count() {
        assert_eq!(without_space(r#"{ "a b" : [ 1 , "\" c" ] }"#), r#"{"a b":[1,"\" c"]}"#);
        assert_eq!(without_space(r#"["\\", "x y"]"#), r#"["\\","x y"]"#);
    }
}
