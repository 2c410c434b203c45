//! Prompts.

use serde_json::{Value, json};

use crate::{
    call::{Call, Outcome, Stop},
    input::{InputRequest, gather},
    pages::page,
    tools::PNG,
    wire::RpcError,
};

/// `prompts/list`.
pub(crate) fn list(call: &Call) -> Outcome {
    let prompt = |name: &str, description: &str, arguments: &[(&str, &str)]| {
        let mut prompt = json!({"name": name, "description": description});
        if !arguments.is_empty() {
            let argument = |(name, text): &(&str, &str)| json!({"name": name, "description": text, "required": true});
            prompt["arguments"] = arguments.iter().map(argument).collect();
        }
        prompt
    };
    let two = [("arg1", "First test argument"), ("arg2", "Second test argument")];
    let revision = call.server.changes.prompt_revision();
    let items = [
        prompt("test_simple_prompt", "A prompt without arguments", &[]),
        prompt("test_prompt_with_arguments", "A prompt that repeats its arguments", &two),
        prompt("test_prompt_with_embedded_resource", "A prompt with a resource", &[("resourceUri", "What to embed")]),
        prompt("test_prompt_with_image", "A prompt with a picture", &[]),
        prompt("test_input_required_result_prompt", "A prompt that asks for its context", &[]),
        prompt("test_dynamic_prompt", &format!("Revision {revision} of a prompt that changes"), &[]),
    ];
    page(call, "prompts", &items)
}

/// `prompts/get`.
pub(crate) fn get(call: &Call) -> Outcome {
    match call.param("name")? {
        "test_simple_prompt" => Ok(messages([text("This is a simple prompt for testing.")])),
        "test_prompt_with_arguments" => {
            let (first, second) = (argument(call, "arg1")?, argument(call, "arg2")?);
            Ok(messages([text(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]))
        }
        "test_prompt_with_embedded_resource" => {
            let uri = argument(call, "resourceUri")?;
            let content = "Embedded resource content for testing.";
            let resource = json!({"uri": uri, "mimeType": "text/plain", "text": content});
            let embedded = json!({"type": "resource", "resource": resource});
            Ok(messages([embedded, text("Please process the embedded resource above.")]))
        }
        "test_prompt_with_image" => {
            let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
            Ok(messages([image, text("Please analyze the image above.")]))
        }
        "test_input_required_result_prompt" => with_context(call),
        "test_dynamic_prompt" => Ok(messages([text("This prompt says the same in every revision.")])),
        name => Err(RpcError::invalid_params(format!("unknown prompt: `{name}`")).into()),
    }
}

fn with_context(call: &Call) -> Outcome {
    let schema = json!({
        "type": "object",
        "properties": {"context": {"type": "string"}},
        "required": ["context"],
    });
    let ask = InputRequest::elicit("user_context", "What context should the prompt use?", schema);
    let answers = gather(call, &[ask], None)?;
    let context = answers["user_context"]["content"]["context"].as_str().unwrap_or("none was given");
    Ok(messages([text(&format!("Use this context: {context}"))]))
}

fn messages(contents: impl IntoIterator<Item = Value>) -> Value {
    let messages: Vec<Value> =
        contents.into_iter().map(|content| json!({"role": "user", "content": content})).collect();
    json!({"messages": messages})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// An argument that the prompt requires. Prompts have no results that are errors, so
/// unlike a tool's it is the protocol's business when one is missing.
fn argument<'a>(call: &'a Call, key: &str) -> Result<&'a str, Stop> {
    let argument = call.request.params["arguments"][key].as_str();
    argument.ok_or_else(|| RpcError::invalid_params(format!("the argument `{key}` must be a string")).into())
}
