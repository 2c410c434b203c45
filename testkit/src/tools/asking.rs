//! Tools that need something from the client before they can answer.

use serde_json::{Value, json};

use super::{Tool, forms, no_arguments, one_string, text_result};
use crate::{
    call::{Call, Outcome},
    input::{InputRequest, carried_state, gather},
};

pub(super) const TOOLS: [Tool; 14] = [
    Tool {
        name: "test_sampling",
        description: "Asks the client's model",
        input: || one_string("prompt", "What to ask the model"),
        run: sampling,
    },
    Tool {
        name: "test_elicitation",
        description: "Asks the user for a name and an address",
        input: || one_string("message", "What to tell the user"),
        run: elicitation,
    },
    Tool {
        name: "test_elicitation_sep1034_defaults",
        description: "Shows the user a form with defaults",
        input: no_arguments,
        run: |call| form(call, "Please review the form", forms::defaults()),
    },
    Tool {
        name: "test_elicitation_sep1330_enums",
        description: "Shows the user a form with all kinds of choices",
        input: no_arguments,
        run: |call| form(call, "Please choose", forms::choices()),
    },
    Tool {
        name: "test_streaming_elicitation",
        description: "Reports progress, then asks the user",
        input: no_arguments,
        run: |call| {
            call.progress(0, 1);
            form(call, "Please confirm", forms::confirmation())
        },
    },
    Tool {
        name: "test_missing_capability",
        description: "Works only for clients that offer sampling",
        input: no_arguments,
        run: |call| {
            call.require(["sampling"])?;
            Ok(text_result("The client offers sampling."))
        },
    },
    Tool {
        name: "test_input_required_result_elicitation",
        description: "Asks the user for a name",
        input: no_arguments,
        run: |call| {
            let answers = gather(call, &[ask_name()], None)?;
            Ok(text_result(&format!("Hello, {}!", name(&answers["user_name"]))))
        },
    },
    Tool {
        name: "test_input_required_result_sampling",
        description: "Asks the client's model for a capital",
        input: no_arguments,
        run: |call| {
            let ask = InputRequest::sample("capital_question", "What is the capital of France?", 100);
            let answers = gather(call, &[ask], None)?;
            Ok(text_result(&format!("The model says: {}", said(&answers["capital_question"]))))
        },
    },
    Tool {
        name: "test_input_required_result_list_roots",
        description: "Asks the client for its roots",
        input: no_arguments,
        run: |call| {
            let answers = gather(call, &[InputRequest::roots("client_roots")], None)?;
            Ok(text_result(&format!("The roots are: {}", answers["client_roots"]["roots"])))
        },
    },
    Tool {
        name: "test_input_required_result_request_state",
        description: "Asks for a confirmation and gets its own state back",
        input: no_arguments,
        run: with_state,
    },
    Tool {
        name: "test_input_required_result_tampered_state",
        description: "Asks for a confirmation and refuses a state that is not its own",
        input: no_arguments,
        run: with_state,
    },
    Tool {
        name: "test_input_required_result_multiple_inputs",
        description: "Asks for a name, a greeting and the roots at once",
        input: no_arguments,
        run: multiple,
    },
    Tool {
        name: "test_input_required_result_multi_round",
        description: "Asks for a name, then for a colour",
        input: no_arguments,
        run: multi_round,
    },
    Tool {
        name: "test_input_required_result_capabilities",
        description: "Asks for whatever the client can give",
        input: no_arguments,
        run: within_capabilities,
    },
];

fn sampling(call: &Call) -> Outcome {
    let ask = InputRequest::sample("sample", call.argument("prompt")?, 100);
    let answers = gather(call, &[ask], None)?;
    Ok(text_result(&format!("LLM response: {}", said(&answers["sample"]))))
}

fn elicitation(call: &Call) -> Outcome {
    let ask = InputRequest::elicit("form", call.argument("message")?, forms::contact());
    let answers = gather(call, &[ask], None)?;
    Ok(text_result(&format!("User response: {}", filled(&answers["form"]))))
}

fn form(call: &Call, message: &str, schema: Value) -> Outcome {
    let answers = gather(call, &[InputRequest::elicit("form", message, schema)], None)?;
    Ok(text_result(&format!("Elicitation completed: {}", filled(&answers["form"]))))
}

fn with_state(call: &Call) -> Outcome {
    let ask = InputRequest::elicit("confirm", "Please confirm", forms::confirmation());
    let answers = gather(call, &[ask], Some(&json!({"asked": "confirm"})))?;
    Ok(text_result(&format!("state-ok: {}", filled(&answers["confirm"]))))
}

fn multiple(call: &Call) -> Outcome {
    let asks =
        [ask_name(), InputRequest::sample("greeting", "Generate a greeting", 50), InputRequest::roots("client_roots")];
    let answers = gather(call, &asks, Some(&json!({"asked": "everything"})))?;
    let roots = &answers["client_roots"]["roots"];
    Ok(text_result(&format!("{}: {} ({roots})", name(&answers["user_name"]), said(&answers["greeting"]))))
}

fn multi_round(call: &Call) -> Outcome {
    // The first answer travels in the state, since the last round brings only the second.
    let known = carried_state(call)?.and_then(|state| state["name"].as_str().map(String::from));
    let first = match known {
        Some(name) => name,
        None => {
            let ask = InputRequest::elicit("step1", "Step 1: What is your name?", forms::one_text("name"));
            name(&gather(call, &[ask], Some(&json!({"round": 1})))?["step1"]).to_owned()
        }
    };
    let ask = InputRequest::elicit("step2", "Step 2: What is your favorite color?", forms::one_text("color"));
    let answers = gather(call, &[ask], Some(&json!({"round": 2, "name": first})))?;
    let color = answers["step2"]["content"]["color"].as_str().unwrap_or("no color");
    Ok(text_result(&format!("{first} likes {color}.")))
}

fn within_capabilities(call: &Call) -> Outcome {
    let mut asks = vec![
        ask_name(),
        InputRequest::sample("greeting", "Generate a greeting", 50),
        InputRequest::roots("client_roots"),
    ];
    asks.retain(|ask| call.has(ask.capability()));
    if asks.is_empty() {
        return Ok(text_result("The client can give nothing."));
    }
    let keys: Vec<String> = gather(call, &asks, None)?.into_iter().map(|(key, _)| key).collect();
    Ok(text_result(&format!("The client gave {}.", keys.join(", "))))
}

fn ask_name() -> InputRequest {
    InputRequest::elicit("user_name", "What is your name?", forms::one_text("name"))
}

/// The name in an answer; users may decline to give one.
fn name(answer: &Value) -> &str {
    answer["content"]["name"].as_str().unwrap_or("stranger")
}

/// What a model said; models may say it in several blocks.
fn said(answer: &Value) -> &str {
    let content = &answer["content"];
    content["text"].as_str().or(content[0]["text"].as_str()).unwrap_or("nothing")
}

/// What became of a form.
fn filled(answer: &Value) -> String {
    let action = answer["action"].as_str().unwrap_or_default();
    format!("action={action}, content={}", answer["content"])
}
