//! Scripts as JSON, for the program and for clients in other languages.

mod fields;

use std::{collections::BTreeSet, fmt, time::Duration};

use serde_json::Value;

use super::{
    Call, Embeddings, Fault, Forbidden, Goal, Models, Noise, Output, Part, Quirk, Script, ScriptedError, ScriptedTurn,
    Search, Sending, Stall, Stop, StreamError, Usage,
};
use crate::provider::checks::Check;
use fields::{At, Fields, boolean, count, list, text, word_of};

/// What is wrong with a script, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    at: String,
    problem: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScriptError { at, problem } = self;
        if at.is_empty() { write!(formatter, "the script {problem}") } else { write!(formatter, "`{at}` {problem}") }
    }
}

impl std::error::Error for ScriptError {}

impl Script {
    /// Reads a script. Keys are the names of the fields of [`Script`] and of what it is made of,
    /// checks go by their [names](Check::name); everything may be left out but a turn's parts.
    ///
    /// ```
    /// # use pegboard_testkit::provider::Script;
    /// let script = serde_json::json!({
    ///     "turns": [
    ///         {"fault": {"status": 429, "retry_after": "1", "message": "slow down", "body": null,
    ///                    "headers": {"x-ratelimit-remaining-tokens": "0"}}},
    ///         {"fault": {"status": 502, "text": "<html></html>"}},
    ///         {"fault": "drop"},
    ///         {"fault": "stall"},
    ///         {"fault": {"stall_ms": 100}},
    ///         {"parts": [
    ///             {"thinking": "Mail, then.", "signature": "opaque"},
    ///             {"text": "Let me look."},
    ///             {"call": {"name": "send", "arguments": {"to": "a"}, "id": "1", "namespace": "mail"}},
    ///             {"native_search": {"query": "mail", "matches": ["send"]}},
    ///             {"native_search": {"pattern": "mail|post", "error": "unavailable"}},
    ///             {"native_search": {"client": true, "arguments": {"query": "mail"}}},
    ///             {"raw": {"type": "a_block_of_the_wire"}},
    ///         ],
    ///         "stop": "end_turn",
    ///         "usage": {"input": 9, "output": 5, "cache_read": 3, "cache_write": 1, "reasoning": 2},
    ///         "sending": {"delta": 16, "chunk": 7, "pause_ms": 1, "noise": ["ping", "comment", "event", "block"],
    ///                     "quirks": ["empty_names"], "cut_after": 100, "stall": {"after": 50, "ms": 20},
    ///                     "error_after": {"events": 3, "status": 529}}},
    ///         {"reach": "mail", "before_search": [{"text": "Let me look."}], "parts": [{"call": {"name": "send"}}]},
    ///     ],
    ///     "repeat": false,
    ///     "sending": {},
    ///     "off": ["tool_names"],
    ///     "models": {"refuse_forced_choice": [], "bind_thinking": ["*"], "no_tool_search": ["claude-3*"]},
    ///     "forbidden_schemas": [{"tool": "send", "before_turn": 4, "text": "words of its description"}],
    ///     "stable_prefix": true,
    ///     "api_key": "secret",
    ///     "embeddings": {"dimensions": 64, "faults": [{"status": 500}]},
    /// });
    /// assert!(Script::from_json(&script).is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// When a value has the wrong type or a key is unknown.
    pub fn from_json(script: &Value) -> Result<Script, ScriptError> {
        read_script(At { value: script, path: String::new() })
    }
}

type Read<T> = Result<T, ScriptError>;

fn read_script(at: At) -> Read<Script> {
    let mut fields = Fields::of(at)?;
    let script = Script {
        turns: fields.read("turns", |at| list(at, read_turn))?.unwrap_or_default(),
        repeat: fields.read("repeat", boolean)?.unwrap_or_default(),
        sending: fields.read("sending", read_sending)?.unwrap_or_default(),
        off: fields
            .read("off", |at| list(at, |at| word_of(at, &Check::ALL)))?
            .unwrap_or_default()
            .into_iter()
            .collect(),
        models: fields.read("models", read_models)?.unwrap_or_default(),
        forbidden_schemas: fields.read("forbidden_schemas", |at| list(at, read_forbidden))?.unwrap_or_default(),
        stable_prefix: fields.read("stable_prefix", boolean)?.unwrap_or_default(),
        api_key: fields.read("api_key", text)?,
        embeddings: fields.read("embeddings", read_embeddings)?.unwrap_or_default(),
    };
    fields.done(script)
}

fn read_turn(at: At) -> Read<ScriptedTurn> {
    let mut fields = Fields::of(at)?;
    if let Some(fault) = fields.read("fault", read_fault)? {
        return fields.done(ScriptedTurn::Fail(fault));
    }
    let output = Output {
        parts: fields.required("parts", |at| list(at, read_part))?,
        stop: fields.read("stop", read_stop)?,
        usage: fields.read("usage", read_usage)?,
        sending: fields.read("sending", read_sending)?,
    };
    let Some(query) = fields.read("reach", text)? else { return fields.done(ScriptedTurn::Say(output)) };
    let before_search = fields.read("before_search", |at| list(at, read_part))?.unwrap_or_default();
    fields.done(ScriptedTurn::Reach(Box::new(Goal { query, before_search, output })))
}

fn read_part(at: At) -> Read<Part> {
    let mut fields = Fields::of(at)?;
    let part = if let Some(text) = fields.read("text", text)? {
        Part::Text(text)
    } else if let Some(thoughts) = fields.read("thinking", text)? {
        Part::Thinking { text: thoughts, signature: fields.read("signature", text)? }
    } else if let Some(call) = fields.read("call", read_call)? {
        Part::Call(call)
    } else if let Some(search) = fields.read("native_search", read_search)? {
        Part::Search(search)
    } else {
        Part::Raw(fields.required("raw", |at| Ok(at.value.clone()))?)
    };
    fields.done(part)
}

fn read_call(at: At) -> Read<Call> {
    let mut fields = Fields::of(at)?;
    let call = Call {
        name: fields.required("name", text)?,
        arguments: fields
            .read("arguments", |at| Ok(at.value.clone()))?
            .unwrap_or_else(|| Value::Object(Default::default())),
        id: fields.read("id", text)?,
        namespace: fields.read("namespace", text)?,
    };
    fields.done(call)
}

fn read_search(at: At) -> Read<Search> {
    let mut fields = Fields::of(at)?;
    let search = Search {
        query: fields.read("query", text)?,
        pattern: fields.read("pattern", text)?,
        matches: fields.read("matches", |at| list(at, text))?.unwrap_or_default(),
        error: fields.read("error", text)?,
        client: fields.read("client", boolean)?.unwrap_or_default(),
        arguments: fields.read("arguments", |at| Ok(at.value.clone()))?,
    };
    fields.done(search)
}

fn read_stop(at: At) -> Read<Stop> {
    Ok(match text(at)?.as_str() {
        "end_turn" => Stop::EndTurn,
        "tool_use" => Stop::ToolUse,
        "max_tokens" => Stop::MaxTokens,
        "refusal" => Stop::Refusal,
        "pause" => Stop::Pause,
        other => Stop::Other(other.into()),
    })
}

fn read_usage(at: At) -> Read<Usage> {
    let mut fields = Fields::of(at)?;
    let mut tokens = |key| Ok(fields.read(key, count)?.unwrap_or_default() as u64);
    let usage = Usage {
        input: tokens("input")?,
        output: tokens("output")?,
        cache_read: tokens("cache_read")?,
        cache_write: tokens("cache_write")?,
        reasoning: tokens("reasoning")?,
    };
    fields.done(usage)
}

fn read_sending(at: At) -> Read<Sending> {
    let mut fields = Fields::of(at)?;
    let usual = Sending::default();
    let sending = Sending {
        delta: fields.read("delta", count)?.unwrap_or(usual.delta).max(1),
        chunk: fields.read("chunk", count)?.map(|bytes| bytes.max(1)),
        pause: fields.read("pause_ms", milliseconds)?.unwrap_or_default(),
        noise: fields.read("noise", read_noise)?.unwrap_or_default(),
        quirks: fields.read("quirks", read_quirks)?.unwrap_or_default(),
        cut_after: fields.read("cut_after", count)?,
        stall: fields.read("stall", read_stall)?,
        error_after: fields.read("error_after", read_breakdown)?.map(Box::new),
    };
    fields.done(sending)
}

fn read_noise(at: At) -> Read<BTreeSet<Noise>> {
    Ok(list(at, |at| word_of(at, &Noise::ALL))?.into_iter().collect())
}

fn read_quirks(at: At) -> Read<BTreeSet<Quirk>> {
    Ok(list(at, |at| word_of(at, &Quirk::ALL))?.into_iter().collect())
}

fn read_stall(at: At) -> Read<Stall> {
    let mut fields = Fields::of(at)?;
    let after = fields.read("after", count)?.unwrap_or_default();
    let time = fields.read("ms", milliseconds)?;
    fields.done(Stall { after, time })
}

/// `{"events": N, "status": S, …}`: a count and the error that follows it.
fn read_breakdown(at: At) -> Read<StreamError> {
    let mut fields = Fields::of(at)?;
    let events = fields.required("events", count)?;
    let refusal = read_refusal(&mut fields)?;
    fields.done(StreamError { events, refusal })
}

fn read_fault(at: At) -> Read<Fault> {
    if at.value == "drop" {
        return Ok(Fault::Drop);
    }
    if at.value == "stall" {
        return Ok(Fault::Stall(None));
    }
    let mut fields = Fields::of(at)?;
    let fault = match fields.read("stall_ms", milliseconds)? {
        Some(time) => Fault::Stall(Some(time)),
        None => Fault::Status(read_refusal(&mut fields)?),
    };
    fields.done(fault)
}

fn read_refusal(fields: &mut Fields) -> Read<ScriptedError> {
    Ok(ScriptedError {
        status: fields.required("status", |at| {
            let path = at.path.clone();
            u16::try_from(count(at)?).map_err(|_| fields::error(path, "is no HTTP status"))
        })?,
        message: fields.read("message", text)?,
        retry_after: fields.read("retry_after", text)?,
        headers: fields.read("headers", read_headers)?.unwrap_or_default(),
        text: fields.read("text", text)?,
        body: fields.read("body", |at| Ok(at.value.clone()))?,
    })
}

fn read_headers(at: At) -> Read<Vec<(String, String)>> {
    let Some(map) = at.value.as_object() else { return Err(fields::error(at.path, "is no object")) };
    map.iter()
        .map(|(name, value)| {
            let at = At { value, path: format!("{}.{name}", at.path) };
            Ok((name.clone(), text(at)?))
        })
        .collect()
}

fn read_models(at: At) -> Read<Models> {
    let mut fields = Fields::of(at)?;
    let usual = Models::default();
    let models = Models {
        refuse_forced_choice: fields.read("refuse_forced_choice", names)?.unwrap_or(usual.refuse_forced_choice),
        bind_thinking: fields.read("bind_thinking", names)?.unwrap_or(usual.bind_thinking),
        no_tool_search: fields.read("no_tool_search", names)?.unwrap_or(usual.no_tool_search),
    };
    fields.done(models)
}

fn names(at: At) -> Read<Vec<String>> {
    list(at, text)
}

fn read_forbidden(at: At) -> Read<Forbidden> {
    let mut fields = Fields::of(at)?;
    let forbidden = Forbidden {
        tool: fields.required("tool", text)?,
        before_turn: fields.required("before_turn", count)?,
        text: fields.read("text", text)?,
    };
    fields.done(forbidden)
}

fn read_embeddings(at: At) -> Read<Embeddings> {
    let mut fields = Fields::of(at)?;
    let usual = Embeddings::default();
    let embeddings = Embeddings {
        dimensions: fields.read("dimensions", count)?.unwrap_or(usual.dimensions).max(1),
        faults: fields.read("faults", |at| list(at, read_fault))?.unwrap_or_default(),
    };
    fields.done(embeddings)
}

fn milliseconds(at: At) -> Read<Duration> {
    count(at).map(|number| Duration::from_millis(number as u64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_key_is_read() {
        let script = json!({
            "turns": [
                {"parts": [{"thinking": "hm", "signature": "s"}, {"text": "hi"}], "stop": "max_tokens",
                 "usage": {"input": 1, "output": 2, "cache_read": 3, "cache_write": 4, "reasoning": 5}},
                {"parts": [{"call": {"name": "a", "arguments": {"b": 1}, "id": "c", "namespace": "d"}}, {"raw": {}}],
                 "sending": {"delta": 1, "chunk": 2, "pause_ms": 3, "noise": ["ping"], "quirks": ["one_event"], "cut_after": 4,
                             "stall": {"after": 5, "ms": 6}, "error_after": {"events": 7, "status": 529}}},
                {"parts": [{"native_search": {"pattern": "x", "matches": ["y"], "client": true}}]},
                {"fault": {"status": 429, "retry_after": "2", "message": "slow", "body": {}, "headers": {"a": "b"}}},
                {"fault": "drop"}, {"fault": "stall"}, {"fault": {"stall_ms": 5}},
                {"reach": "y", "before_search": [{"text": "hm"}], "parts": [{"call": {"name": "y"}}]},
            ],
            "repeat": true, "off": ["auth"], "stable_prefix": true, "api_key": "k",
            "models": {"refuse_forced_choice": ["*"], "bind_thinking": [], "no_tool_search": []},
            "forbidden_schemas": [{"tool": "y", "before_turn": 2, "text": "z"}],
            "embeddings": {"dimensions": 8, "faults": [{"status": 500}]},
        });
        let script = Script::from_json(&script).unwrap();
        assert_eq!(script.turns.len(), 8);
        let ScriptedTurn::Say(output) = &script.turns[1] else { panic!("{script:?}") };
        assert_eq!(output.sending.as_ref().map(|sending| (sending.delta, sending.chunk)), Some((1, Some(2))));
        assert_eq!(script.turns[6], ScriptedTurn::Fail(Fault::Stall(Some(Duration::from_millis(5)))));
        assert!(matches!(&script.turns[7], ScriptedTurn::Reach(goal) if goal.query == "y"), "{script:?}");
        assert_eq!(script.off, BTreeSet::from([Check::Auth]));
        assert_eq!(script.embeddings.dimensions, 8);
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let cases = [
            (json!([]), "the script is no object"),
            (json!({"turn": []}), "`turn` is no key that is known here"),
            (json!({"turns": [{"parts": [{"text": 1}]}]}), "`turns[0].parts[0].text` is no string"),
            (json!({"turns": [{"parts": [{}]}]}), "`turns[0].parts[0].raw` is missing"),
            (
                json!({"turns": [{"fault": {"status": 429, "headers": {"a": 1}}}]}),
                "`turns[0].fault.headers.a` is no string",
            ),
            (json!({"off": ["everything"]}), "`off[0]` is none of the words for it: required, auth, "),
            (json!({"embeddings": {"faults": [{"status": 70000}]}}), "`embeddings.faults[0].status` is no HTTP status"),
        ];
        for (script, expected) in cases {
            let error = Script::from_json(&script).expect_err("a mistake").to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
