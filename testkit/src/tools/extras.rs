//! Tools for the gateway's own tests, not for the suite: what passes through untouched,
//! what takes time, what changes, what dies.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    process::{Command, Stdio, exit},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json, value::RawValue};

use super::{Tool, no_arguments, one_string, text_result};
use crate::{
    call::{Call, Outcome, Stop},
    changes::{self, Change},
    resources::WATCHED,
    server::DELIBERATE_EXIT,
    wire,
};

/// How often `slow` reports.
const REPORT_EVERY: Duration = Duration::from_millis(50);

pub(super) const TOOLS: [Tool; 7] = [
    Tool {
        name: "echo",
        description: "Returns its arguments as they came",
        input: || json!({"type": "object", "additionalProperties": true, "x-vendor": {"kept": true}}),
        run: echo,
    },
    Tool {
        name: "slow",
        description: "Sleeps, reports progress, and can be cancelled",
        input: || {
            let ms = json!({"type": "integer", "minimum": 0, "description": "Milliseconds"});
            json!({"type": "object", "properties": {"ms": ms}, "required": ["ms"]})
        },
        run: slow,
    },
    Tool {
        name: "change_tools",
        description: "Adds a tool to the list",
        input: || one_string("name", "The name of the new tool"),
        run: |call| {
            let name = call.argument("name")?;
            changes::add_tool(&call.server, name);
            Ok(text_result(&format!("{name} was added")))
        },
    },
    Tool {
        name: "update_resource",
        description: "Tells subscribers that the watched resource has changed",
        input: no_arguments,
        run: |call| {
            changes::announce(&call.server, &Change::Resource(WATCHED.to_owned()));
            Ok(text_result("Subscribers were told."))
        },
    },
    Tool {
        name: "large",
        description: "Returns a text of many lines",
        input: || {
            let bytes = json!({"type": "integer", "minimum": 0, "description": "How large it is to be"});
            json!({"type": "object", "properties": {"bytes": bytes}, "required": ["bytes"]})
        },
        run: large,
    },
    Tool {
        name: "exit",
        description: "Ends the server in the middle of the call",
        input: no_arguments,
        run: |_| exit(DELIBERATE_EXIT.into()),
    },
    Tool {
        name: "spawn_grandchild",
        description: "Starts a process in a session of its own and returns its id",
        input: || {
            let inherit = json!({"type": "boolean", "description": "Whether it keeps the server's stdout open"});
            json!({"type": "object", "properties": {"inherit": inherit}})
        },
        run: spawn_grandchild,
    },
];

/// Returns numbered lines, so that a test can see which of them were read back.
fn large(call: &Call) -> Outcome {
    let bytes = call.arguments().get("bytes").and_then(Value::as_u64).unwrap_or(0);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(1 << 30);
    let mut text = String::with_capacity(bytes + 64);
    for line in 0.. {
        if text.len() >= bytes {
            break;
        }
        text.push_str(&format!("line {line}: nothing to see here, move along\n"));
    }
    Ok(text_result(&text))
}

/// Gives `echo` fields that no revision defines; they are to arrive as well.
pub(super) fn adorn(definition: &mut Value) {
    if definition["name"] == "echo" {
        definition["title"] = "Echo".into();
        definition["annotations"] = json!({"readOnlyHint": true, "x-vendor-hint": "kept"});
        definition["_meta"] = json!({"com.example/note": "kept"});
        definition["x-vendor"] = json!({"kept": true, "nested": {"list": [1, null, "two"]}});
    }
}

fn echo(call: &Call) -> Outcome {
    let text = raw_arguments(&call.request.line).unwrap_or_else(|| "{}".to_owned());
    let mut result = text_result(&text);
    result["structuredContent"] = Value::Object(call.arguments());
    // Lets a test see which metadata reached the server.
    result["x-vendor"] = json!({"kept": true, "meta": call.request.params["_meta"]});
    result["_meta"] = json!({"com.example/note": "kept"});
    Ok(result)
}

/// The arguments in the very bytes that came: parsing would even out how numbers are
/// written, and drop repeated keys.
fn raw_arguments(line: &str) -> Option<String> {
    let message: BTreeMap<String, &RawValue> = serde_json::from_str(line).ok()?;
    let params: BTreeMap<String, &RawValue> = serde_json::from_str(message.get("params")?.get()).ok()?;
    Some(params.get("arguments")?.get().to_owned())
}

fn slow(call: &Call) -> Outcome {
    let Some(ms) = call.request.params["arguments"]["ms"].as_u64() else {
        return Err(Stop::Failed("the argument `ms` must be a whole number".to_owned()));
    };
    let (start, total) = (Instant::now(), Duration::from_millis(ms));
    // Tests wait for these lines in a gateway's log.
    wire::log("slow: started");
    loop {
        let elapsed = start.elapsed();
        let Some(left) = total.checked_sub(elapsed).filter(|left| !left.is_zero()) else { break };
        call.progress(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX), ms);
        call.sleep(left.min(REPORT_EVERY)).inspect_err(|_| wire::log("slow: cancelled"))?;
    }
    call.progress(ms, ms);
    Ok(text_result(&format!("slept for {ms} ms")))
}

fn spawn_grandchild(call: &Call) -> Outcome {
    let inherit = call.request.params["arguments"]["inherit"] == true;
    // The line on stderr comes once the new session exists; a test that looked earlier
    // would find the process still in the server's.
    let spawned = Command::new("setsid")
        .args(["sh", "-c", "echo started >&2; exec sleep 1000 2>/dev/null"])
        .stdin(Stdio::null())
        .stdout(if inherit { Stdio::inherit() } else { Stdio::null() })
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.map_err(|error| Stop::Failed(format!("cannot start setsid: {error}")))?;
    let pid = child.id();
    let started = child.stderr.take().and_then(|stderr| BufReader::new(stderr).lines().next());
    // Reaped when a test kills it, so that the test sees it gone.
    thread::spawn(move || child.wait());
    if started.is_none() {
        return Err(Stop::Failed("the grandchild did not start".to_owned()));
    }
    let mut result = text_result(&pid.to_string());
    result["structuredContent"] = json!({"pid": pid});
    Ok(result)
}
