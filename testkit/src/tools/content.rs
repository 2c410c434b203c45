//! Tools that return every kind of content, report while they work, fail, or have
//! schemas that are easily damaged on the way.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Tool, no_arguments, text_result};
use crate::{
    call::{Call, Level, Outcome, Stop},
    changes,
};

/// A picture of one red pixel.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";

/// A millisecond of silence.
const WAV: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

/// Long enough between two messages for a client to see that they are two.
const STEP: Duration = Duration::from_millis(50);

/// The first needs neither arguments nor input: the suite calls whatever comes first.
pub(super) const TOOLS: [Tool; 14] = [
    Tool {
        name: "test_simple_text",
        description: "Returns a text",
        input: no_arguments,
        run: |_| Ok(text_result("This is a simple text response for testing.")),
    },
    Tool {
        name: "test_image_content",
        description: "Returns a picture",
        input: no_arguments,
        run: |_| Ok(json!({"content": [image()]})),
    },
    Tool {
        name: "test_audio_content",
        description: "Returns a sound",
        input: no_arguments,
        run: |_| Ok(json!({"content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]})),
    },
    Tool {
        name: "test_embedded_resource",
        description: "Returns a resource",
        input: no_arguments,
        run: |_| {
            let text = "This is an embedded resource content.";
            Ok(json!({"content": [resource("test://embedded-resource", "text/plain", text)]}))
        },
    },
    Tool {
        name: "test_multiple_content_types",
        description: "Returns a text, a picture and a resource",
        input: no_arguments,
        run: mixed,
    },
    Tool {
        name: "test_error_handling",
        description: "Fails, always",
        input: no_arguments,
        run: |_| Err(Stop::Failed("This tool intentionally returns an error for testing".to_owned())),
    },
    Tool {
        name: "test_tool_with_progress",
        description: "Reports progress three times",
        input: no_arguments,
        run: with_progress,
    },
    Tool {
        name: "test_tool_with_logging",
        description: "Sends three log messages",
        input: no_arguments,
        run: with_logging,
    },
    Tool {
        name: "test_logging_tool",
        description: "Sends three log messages, if they are wanted",
        input: no_arguments,
        run: with_logging,
    },
    Tool {
        name: "test_reconnection",
        description: "Takes a moment, during which a stream may be closed and resumed",
        input: no_arguments,
        run: |call| {
            call.sleep(4 * STEP)?;
            Ok(text_result("Reconnection test completed."))
        },
    },
    Tool {
        name: "test_trigger_tool_change",
        description: "Changes the list of tools",
        input: no_arguments,
        run: |call| {
            changes::revise_tools(&call.server);
            Ok(text_result("The list of tools has changed."))
        },
    },
    Tool {
        name: "test_trigger_prompt_change",
        description: "Changes the list of prompts",
        input: no_arguments,
        run: |call| {
            changes::revise_prompts(&call.server);
            Ok(text_result("The list of prompts has changed."))
        },
    },
    Tool {
        name: "json_schema_2020_12_tool",
        description: "Tool with JSON Schema 2020-12 features",
        input: schema_2020_12,
        run: |call| Ok(text_result(&Value::Object(call.arguments()).to_string())),
    },
    Tool {
        name: "test_x_mcp_header",
        description: "Repeats arguments that travel in HTTP headers as well",
        input: schema_with_headers,
        run: |call| Ok(text_result(&Value::Object(call.arguments()).to_string())),
    },
];

fn mixed(_: &Call) -> Outcome {
    let data = json!({"test": "data", "value": 123}).to_string();
    Ok(json!({"content": [
        {"type": "text", "text": "Multiple content types test:"},
        image(),
        resource("test://mixed-content-resource", "application/json", &data),
    ]}))
}

fn with_progress(call: &Call) -> Outcome {
    call.progress(0, 100);
    for progress in [50, 100] {
        call.sleep(STEP)?;
        call.progress(progress, 100);
    }
    Ok(text_result("Progress was reported."))
}

fn with_logging(call: &Call) -> Outcome {
    call.log(Level::INFO, "Tool execution started");
    for text in ["Tool processing data", "Tool execution completed"] {
        call.sleep(STEP)?;
        call.log(Level::INFO, text);
    }
    Ok(text_result("Log messages were sent."))
}

/// Keywords that a gateway which models schemas would drop.
fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

fn schema_with_headers() -> Value {
    json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "priority": {"type": "integer", "x-mcp-header": "Priority"},
            "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
            "query": {"type": "string"},
        },
        "required": ["region"],
    })
}

fn image() -> Value {
    json!({"type": "image", "data": PNG, "mimeType": "image/png"})
}

fn resource(uri: &str, mime_type: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}})
}
