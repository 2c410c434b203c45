//! Resources and prompts: collections, their objects, and prompts about them.

use std::sync::PoisonError;

use pegboard_mcp::rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    DemoServer,
    plan::qualified,
    verbs::brief,
    world::{Collection, fill, text_of},
};

/// A prompt with its subject attached.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prompt {
    description: String,
    /// The name and the description of the only argument.
    argument: (String, String),
    /// The collection of the object that the argument names.
    about: String,
    /// The text of the prompt; the argument's name in braces is replaced.
    text: String,
}

/// Returns a resource for every collection of a server and for its initial documents. Later objects
/// are read through the templates, so that the list stays valid.
pub(super) fn resources(server: &str, collections: &[(&str, &Collection)]) -> Vec<Value> {
    let mut resources = Vec::new();
    for (name, collection) in collections {
        resources.push(json!({
            "uri": format!("demo://{server}/{name}"),
            "name": name,
            "description": format!("All {} of the demo", name.replace('_', " ")),
            "mimeType": "application/json",
        }));
        for object in collection.objects().iter().filter(|object| object["content"].is_string()) {
            let key = text_of(&object[&collection.key]);
            let uri = format!("demo://{server}/{name}/{}", key.trim_start_matches('/'));
            resources.push(json!({"uri": uri, "name": key, "mimeType": "text/plain"}));
        }
    }
    resources
}

/// Returns one template for each collection.
pub(super) fn templates(server: &str, collections: &[(&str, &Collection)]) -> Vec<Value> {
    let template = |(name, collection): &(&str, &Collection)| {
        json!({
            "uriTemplate": format!("demo://{server}/{name}/{{+id}}"),
            "name": collection.noun,
            "description": format!("One {} of the demo", collection.noun.replace('_', " ")),
        })
    };
    collections.iter().map(template).collect()
}

impl DemoServer {
    /// Answers `resources/read`.
    pub(super) fn read(&self, params: &Value) -> Result<Value, RpcError> {
        let uri = params["uri"].as_str().unwrap_or_default();
        let unknown = || RpcError::new(RpcError::INVALID_PARAMS, "resource not found").with_data(&json!({"uri": uri}));
        let path = uri.strip_prefix(&format!("demo://{}/", self.name)).ok_or_else(unknown)?;
        let (name, key) = path.split_once('/').map_or((path, None), |(name, key)| (name, Some(key)));
        let world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let collection = world.collection(&qualified(&self.name, name)).map_err(|_| unknown())?;
        let (mime_type, text) = match key {
            None => {
                let objects: Vec<Value> = collection.objects().iter().cloned().map(brief).collect();
                ("application/json", Value::from(objects).to_string())
            }
            Some(key) => {
                let object = world.find(&qualified(&self.name, name), key).map_err(|_| unknown())?;
                match object["content"].as_str() {
                    Some(content) => ("text/plain", content.to_owned()),
                    None => ("application/json", object.to_string()),
                }
            }
        };
        let contents = json!([{"uri": uri, "mimeType": mime_type, "text": text}]);
        Ok(json!({"contents": contents, "ttlMs": 0, "cacheScope": "private"}))
    }

    /// Returns the list of prompts.
    pub(super) fn prompts(&self) -> Vec<Value> {
        let listed = |(name, prompt): (&String, &Prompt)| {
            let (argument, description) = &prompt.argument;
            let arguments = json!([{"name": argument, "description": description, "required": true}]);
            json!({"name": name, "description": prompt.description, "arguments": arguments})
        };
        self.data.prompts.iter().map(listed).collect()
    }

    /// Answers `prompts/get`.
    pub(super) fn prompt(&self, params: &Value) -> Result<Value, RpcError> {
        let wrong = |message: String| RpcError::new(RpcError::INVALID_PARAMS, message);
        let name = params["name"].as_str().unwrap_or_default();
        let prompt = self.data.prompts.get(name).ok_or_else(|| wrong(format!("unknown prompt: `{name}`")))?;
        let argument = &prompt.argument.0;
        let key = match &params["arguments"][argument] {
            Value::Null => return Err(wrong(format!("the argument `{argument}` is missing"))),
            key => text_of(key),
        };
        let world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let object = world.find(&qualified(&self.name, &prompt.about), &key).map_err(|refusal| wrong(refusal.0))?;
        let uri = format!("demo://{}/{}/{key}", self.name, prompt.about);
        let resource = json!({"uri": uri, "mimeType": "application/json", "text": object.to_string()});
        let messages = json!([
            {"role": "user", "content": {"type": "text", "text": fill(&prompt.text, &|_| key.as_str().into())}},
            {"role": "user", "content": {"type": "resource", "resource": resource}},
        ]);
        Ok(json!({"description": prompt.description, "messages": messages}))
    }
}
