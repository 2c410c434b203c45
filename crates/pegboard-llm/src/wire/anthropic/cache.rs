//! Breakpoints of the prompt cache, for a wire that caches nothing without them.
//!
//! Anthropic caches a request in the order tools, system, messages, up to the blocks that carry
//! a `cache_control`; a later request reads what an earlier one has written as long as the
//! bytes before the breakpoint are the same. MiniMax takes the same marks on its compatible
//! endpoint.

use serde_json::{Map, Value, json};

use crate::{
    rules,
    wire::{PromptCache, Request, items, text},
};

/// The most breakpoints that a request may have, those of the program included.
const MAX_BREAKPOINTS: usize = 4;

/// Blocks of a message that may carry a breakpoint.
const MARKABLE: [&str; 4] = ["text", "image", "document", "tool_result"];

/// The items of a request that carry a breakpoint, as they are sent.
#[derive(Debug, Default)]
pub(super) struct Breakpoints {
    /// The last tool that is not deferred.
    pub(super) tools: Vec<(usize, Value)>,
    /// The system prompt, as a list of blocks.
    pub(super) system: Option<Value>,
    /// The end of the conversation, and the end of what the request before this one held.
    pub(super) messages: Vec<(usize, Value)>,
}

/// Chooses the breakpoints of a request. Those that a program has set itself, in messages or in
/// extra fields, count towards the limit and stay.
pub(super) fn breakpoints(request: &Request) -> Breakpoints {
    let mut chosen = Breakpoints::default();
    if request.cache == PromptCache::Off {
        return chosen;
    }
    let mut left = MAX_BREAKPOINTS.saturating_sub(count_marks(request));
    let mut take = || {
        let is_left = left > 0;
        left = left.saturating_sub(1);
        is_left
    };
    let is_ours = |key: &str| !request.extra.contains_key(key);
    let mut ends = message_ends(&request.messages).into_iter().filter(|_| is_ours("messages"));
    let system = request.system.as_deref().filter(|system| !system.trim().is_empty() && is_ours("system"));
    let last_tool = request.tools.iter().rposition(|tool| !rules::is_deferred(tool));
    let last_tool = last_tool.filter(|at| is_ours("tools") && !is_marked(&request.tools[*at]));
    // In the order of what they save: the end of a conversation covers everything before it.
    chosen.messages.extend(ends.next().filter(|_| take()));
    chosen.system = system.filter(|_| take()).map(|text| json!([marked(json!({"type": "text", "text": text}))]));
    chosen.tools.extend(last_tool.filter(|_| take()).map(|at| (at, marked(request.tools[at].clone()))));
    chosen.messages.extend(ends.next().filter(|_| take()));
    chosen
}

/// The messages that end the conversation and that ended it in the request before, marked; only
/// those that can be. What a model said in between may be more blocks than a provider looks
/// back for what it has cached.
fn message_ends(messages: &[Value]) -> Vec<(usize, Value)> {
    let is_user = |message: &Value| text(message, "role") == "user";
    let last = messages.iter().rposition(is_user);
    let said = messages.iter().rposition(|message| text(message, "role") == "assistant");
    let before = said.and_then(|said| messages[..said].iter().rposition(is_user));
    let before = before.filter(|before| Some(*before) != last);
    let ends = last.into_iter().chain(before);
    ends.filter_map(|at| Some((at, marked_message(&messages[at])?))).collect()
}

/// A message whose last block carries a breakpoint, unless it has one already or cannot.
fn marked_message(message: &Value) -> Option<Value> {
    let mut message = message.clone();
    let content = message.get_mut("content")?;
    match content {
        Value::String(said) if !said.trim().is_empty() => {
            *content = json!([marked(json!({"type": "text", "text": said}))]);
        }
        Value::Array(blocks) => {
            let block = blocks.last_mut().filter(|block| MARKABLE.contains(&text(block, "type")))?;
            let is_blank = text(block, "type") == "text" && text(block, "text").trim().is_empty();
            if is_blank || is_marked(block) {
                return None;
            }
            *block = marked(block.take());
        }
        _ => return None,
    }
    Some(message)
}

fn marked(mut item: Value) -> Value {
    item["cache_control"] = json!({"type": "ephemeral"});
    item
}

fn is_marked(item: &Value) -> bool {
    item.get("cache_control").is_some_and(|mark| !mark.is_null())
}

/// The breakpoints that are in a request already. Extra fields replace those of ours.
fn count_marks(request: &Request) -> usize {
    let extra = &request.extra;
    let list = |key: &str, own: &[Value]| match extra.get(key) {
        Some(given) => given.as_array().map_or(0, |given| marks_in(given)),
        None => marks_in(own),
    };
    let everywhere = usize::from(has_mark(extra));
    everywhere + list("tools", &request.tools) + list("system", &[]) + list("messages", &request.messages)
}

fn has_mark(fields: &Map<String, Value>) -> bool {
    fields.get("cache_control").is_some_and(|mark| !mark.is_null())
}

/// The breakpoints on these items, on their blocks and on the blocks of results.
fn marks_in(list: &[Value]) -> usize {
    list.iter().map(|item| usize::from(is_marked(item)) + inner_marks(item)).sum()
}

fn inner_marks(item: &Value) -> usize {
    items(item, "content").map(|block| usize::from(is_marked(block)) + inner_marks(block)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Wire;

    /// Where the body of a request has breakpoints: the path of each, in the order of the body.
    fn marks(request: &Request) -> Vec<String> {
        fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
            let inner: Vec<(String, &Value)> = match value {
                Value::Object(map) => map.iter().map(|(key, value)| (format!("{path}/{key}"), value)).collect(),
                Value::Array(list) => {
                    list.iter().enumerate().map(|(at, value)| (format!("{path}/{at}"), value)).collect()
                }
                _ => return,
            };
            for (inner, value) in inner {
                if let Some(path) = inner.strip_suffix("/cache_control") {
                    found.push(path.to_owned());
                }
                walk(value, &inner, found);
            }
        }
        let mut found = Vec::new();
        walk(&Wire::Anthropic.body(request), "", &mut found);
        found
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Request), expected: &[&str]) {
        let user = |text: &str| Wire::Anthropic.user(text);
        let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a", "input": {}}]});
        let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "ok"}]});
        let mut request = Request {
            system: Some("Be brief.".into()),
            tools: vec![json!({"name": "a"}), json!({"name": "b", "defer_loading": true})],
            messages: vec![user("hello"), user("there"), call, result],
            ..Request::default()
        };
        change(&mut request);
        assert_eq!(marks(&request), expected);
    }

    #[test]
    fn breakpoints_end_what_stays() {
        let all = ["/tools/0", "/system/0", "/messages/1/content/0", "/messages/3/content/0"];
        check(|_| {}, &all);
        check(|request| request.cache = PromptCache::Off, &[]);
        check(|request| request.system = None, &["/tools/0", "/messages/1/content/0", "/messages/3/content/0"]);
        check(|request| request.messages.truncate(2), &["/tools/0", "/system/0", "/messages/1/content/0"]);
        // A paused turn: what the model goes on with is not an end.
        check(|request| request.messages.truncate(3), &["/tools/0", "/system/0", "/messages/1/content/0"]);
        check(|request| request.messages[1]["content"] = "there".into(), &all);
        check(
            |request| request.messages[3]["content"][0] = json!({"type": "future_block"}),
            &["/tools/0", "/system/0", "/messages/1/content/0"],
        );
    }

    #[test]
    fn breakpoints_of_a_program_count() {
        check(
            |request| request.messages[0]["content"][0] = marked(json!({"type": "text", "text": "hello"})),
            &["/tools/0", "/system/0", "/messages/0/content/0", "/messages/3/content/0"],
        );
        check(
            |request| drop(request.extra.insert("cache_control".into(), json!({"type": "ephemeral"}))),
            &["/tools/0", "/system/0", "/messages/3/content/0", ""],
        );
        check(
            |request| {
                drop(request.extra.insert("system".into(), json!([marked(json!({"type": "text", "text": "x"}))])));
            },
            &["/tools/0", "/system/0", "/messages/1/content/0", "/messages/3/content/0"],
        );
        check(
            |request| {
                let block = marked(json!({"type": "text", "text": "x"}));
                let result =
                    json!({"type": "tool_result", "tool_use_id": "1", "content": [block, block, block, block]});
                request.messages[3]["content"][0] = result;
            },
            &["0", "1", "2", "3"]
                .map(|at| format!("/messages/3/content/0/content/{at}"))
                .each_ref()
                .map(String::as_str),
        );
    }
}
