//! Mail that is sent, answered and filed.

use serde_json::{Value, json};

use super::{Tools, drive};
use crate::demo::{
    verbs::{self, Call},
    world::{Outcome, Refusal, World, known_as, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("send", send),
    ("reply", reply),
    ("forward", forward),
    ("delete-message", delete),
    ("download-attachment", download),
];

const ME: &str = "ana@acme.example";

fn send(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut attachments = Vec::new();
    for (at, wanted) in call.arguments.list("attachments").iter().enumerate() {
        let file = world.find(drive::FILES, &text_of(&wanted["path"]))?;
        attachments
            .push(json!({"id": format!("a{}", at + 1), "filename": wanted["filename"], "content": file["content"]}));
    }
    call.arguments.set("attachments", attachments);
    post(world, Value::Object(call.arguments.0.clone()))
}

/// Files a message under Sent and delivers it if it is for the mailbox itself: there is
/// nobody else in this world to get it.
fn post(world: &mut World, mut message: Value) -> Outcome {
    message["folder"] = "Sent".into();
    let sent = world.make("mail/messages", message, false)?;
    let is_for_me = |field: &&str| sent[field].as_array().is_some_and(|to| to.contains(&ME.into()));
    let is_delivered = ["to", "cc", "bcc"].iter().any(is_for_me);
    if is_delivered {
        deliver(world, sent.clone())?;
    }
    Ok(
        json!({"message": format!("sent {} to {}", text_of(&sent["id"]), sent["to"]), "sent": sent, "delivered_to_own_inbox": is_delivered}),
    )
}

/// Puts a message into the inbox, or where the filters want it.
fn deliver(world: &mut World, mut message: Value) -> Result<(), Refusal> {
    message.as_object_mut().map(|fields| fields.shift_remove("id"));
    message["folder"] = "INBOX".into();
    message["read"] = false.into();
    let filters = world.all("mail/filters").to_vec();
    for filter in &filters {
        if !is_caught(&message, &filter["match"]) {
            continue;
        }
        let actions = &filter["actions"];
        if actions["delete"] == true {
            message["folder"] = "Trash".into();
        }
        if let Some(folder) = actions["move_to"].as_str() {
            message["folder"] = folder.into();
        }
        if actions["label"].is_string() {
            verbs::extend(&mut message, "labels", &actions["label"]);
        }
    }
    world.make("mail/messages", message, false)?;
    Ok(())
}

fn is_caught(message: &Value, conditions: &Value) -> bool {
    let holds = |(name, wanted): (&String, &Value)| {
        let field = name.trim_end_matches("_contains");
        text_of(&message[field]).to_lowercase().contains(&text_of(wanted).to_lowercase())
    };
    conditions.as_object().is_some_and(|conditions| conditions.iter().all(holds))
}

fn reply(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let original = verbs::targets(world, call)?.swap_remove(0);
    let mut to = vec![original["from"].clone()];
    if call.arguments.is("reply_all") {
        to.extend(original["to"].as_array().into_iter().flatten().filter(|to| **to != *ME).cloned());
    }
    let subject = format!("Re: {}", text_of(&original["subject"]).trim_start_matches("Re: "));
    post(
        world,
        json!({"to": to, "subject": subject, "body": call.arguments.text("body"), "in_reply_to": original["id"]}),
    )
}

fn forward(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let original = verbs::targets(world, call)?.swap_remove(0);
    let (from, body) = (text_of(&original["from"]), text_of(&original["body"]));
    let body = format!("{}\n\n--- from {from} ---\n{body}", call.arguments.text("note")).trim_start().to_owned();
    let subject = format!("Fwd: {}", text_of(&original["subject"]));
    post(
        world,
        json!({"to": call.arguments.value("to"), "subject": subject, "body": body, "attachments": original["attachments"]}),
    )
}

fn delete(world: &mut World, call: &mut Call<'_>) -> Outcome {
    if call.arguments.take("permanent") == true {
        return verbs::delete(world, call);
    }
    call.arguments.set("folder", "Trash");
    verbs::change(world, call)
}

fn download(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let message = world.find("mail/messages", call.arguments.text("message_id"))?;
    let attachments = message["attachments"].as_array().cloned().unwrap_or_default();
    let wanted = call.arguments.text("attachment_id");
    let Some(attachment) = attachments.iter().find(|attachment| attachment["id"] == *wanted) else {
        let known: Vec<String> = attachments.iter().map(|attachment| text_of(&attachment["id"])).collect();
        return Err(format!("the message has no attachment `{wanted}`; {}", known_as(&known)).into());
    };
    let file = drive::save(world, call.arguments.text("save_to"), json!({"content": attachment["content"]}))?;
    Ok(
        json!({"message": format!("{} is at {}", text_of(&attachment["filename"]), text_of(&file["path"])), "file": drive::entry(&file)}),
    )
}
