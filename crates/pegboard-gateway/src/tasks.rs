//! Tasks: calls that go on after their request (the extension `io.modelcontextprotocol/tasks`).
//!
//! A server answers a call with the id of a task, and the client asks for the state of the task by
//! that id. The id for the client is sealed: it names the server and is bound to the caller, so
//! that nothing has to be kept for it and a restart does not end it.

use std::{path::Path, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use pegboard_mcp::{
    json::{Fields, Raw, raw},
    rpc::RpcError,
};
use pegboard_state::{Folder, Key, Sealer};
use serde_json::{json, value::RawValue};

use crate::{caller::Caller, setup::Setup};

/// The extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The beginning of the ids of the gateway.
const PREFIX: &str = "task_";

/// A request about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskMethod {
    Get,
    Update,
    Cancel,
}

impl TaskMethod {
    /// Returns the method with this name.
    pub(crate) fn named(method: &str) -> Option<Self> {
        [Self::Get, Self::Update, Self::Cancel].into_iter().find(|one| one.as_str() == method)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "tasks/get",
            Self::Update => "tasks/update",
            Self::Cancel => "tasks/cancel",
        }
    }
}

/// A task of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) server: Arc<str>,
    /// Its id at the server.
    pub(crate) id: String,
    /// The tool that it runs, as its caller named it.
    pub(crate) tool: String,
}

/// Makes and reads the ids of tasks for clients.
#[derive(Debug, Default)]
pub(crate) struct TaskIds {
    /// `None` if the system has no randomness: then no task is passed on.
    sealer: Option<Sealer>,
}

impl TaskIds {
    /// Uses the key of the state folder; without one, ids end with this process.
    pub(crate) fn open(folder: Option<&Path>) -> Self {
        let kept = folder.and_then(|folder| Folder::open(folder).and_then(|folder| Key::of(&folder)).ok());
        let key = kept.map_or_else(Key::random, Ok);
        Self { sealer: key.and_then(|key| Sealer::new(&key, "tasks")).ok() }
    }

    /// Returns the id of a task for a caller.
    ///
    /// # Errors
    /// When it cannot be sealed, or the caller's token was removed.
    fn shown(&self, setup: &Setup, caller: Caller, task: &Task) -> Result<String, RpcError> {
        let content = json!([&*task.server, task.id, task.tool]).to_string();
        let sealed = self.sealer.as_ref().zip(owner(setup, caller));
        let sealed = sealed.and_then(|(sealer, owner)| sealer.seal(&owner, content.as_bytes()).ok());
        let failed = || RpcError::new(RpcError::INTERNAL, "cannot make an id for the task of the server");
        Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(sealed.ok_or_else(failed)?)))
    }

    /// Returns the task of a caller.
    ///
    /// # Errors
    /// When there is none with this id. The same error for every reason, so that ids cannot be
    /// tried out.
    pub(crate) fn find(&self, setup: &Setup, caller: Caller, shown: &str) -> Result<Task, RpcError> {
        let opened = || {
            let sealed = URL_SAFE_NO_PAD.decode(shown.strip_prefix(PREFIX)?).ok()?;
            let content = self.sealer.as_ref()?.open(&owner(setup, caller)?, &sealed)?;
            let (server, id, tool) = serde_json::from_slice::<(String, String, String)>(&content).ok()?;
            Some(Task { server: server.into(), id, tool })
        };
        opened().ok_or_else(|| unknown_task(shown))
    }

    /// Returns the result of a call with the id for its caller, if the result is a task.
    ///
    /// # Errors
    /// When there is no such id.
    pub(crate) fn with_shown_id(
        &self,
        setup: &Setup,
        caller: Caller,
        server: &Arc<str>,
        tool: &str,
        result: Raw,
    ) -> Result<Raw, RpcError> {
        let Some((mut fields, id)) = task_of(&result) else { return Ok(result) };
        let task = Task { server: Arc::clone(server), id, tool: tool.to_owned() };
        fields.set("taskId", raw(&self.shown(setup, caller, &task)?));
        Ok(fields.to_raw())
    }
}

/// Returns the fields of a result that is a task, and the id of the task.
fn task_of(result: &RawValue) -> Option<(Fields, String)> {
    // Looking is cheaper than taking apart.
    if !result.get().contains("\"taskId\"") {
        return None;
    }
    let fields = Fields::of(result)?;
    let id = fields.text("taskId").filter(|_| fields.text("resultType").as_deref() == Some("task"))?;
    Some((fields, id))
}

/// Returns the bytes that a caller's ids are bound to, unless its token was removed.
fn owner(setup: &Setup, caller: Caller) -> Option<Vec<u8>> {
    Some(match caller {
        Caller::Anybody => b"anybody".to_vec(),
        Caller::Pipe => b"pipe".to_vec(),
        // The number of a holder is another one after a restart.
        Caller::Token(holder) => [b"token ", setup.token(holder)?.secret.expose().as_bytes()].concat(),
    })
}

/// Returns the error for a task that the caller does not have.
pub(crate) fn unknown_task(shown: &str) -> RpcError {
    RpcError::new(RpcError::INVALID_PARAMS, format!("unknown task `{}`", crate::text::shorten(shown)))
}

/// Checks that the client of a request declares the extension.
///
/// # Errors
/// When it does not.
pub(crate) fn check_declared(capabilities: &RawValue) -> Result<(), RpcError> {
    if has_extension(Fields::of(capabilities).as_ref(), EXTENSION) {
        return Ok(());
    }
    let data = json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}});
    let message = format!("this request needs the client capability `extensions.{EXTENSION}`");
    Err(RpcError::new(RpcError::MISSING_CAPABILITY, message).with_data(&data))
}

/// Returns whether capabilities have an extension.
pub(crate) fn has_extension(capabilities: Option<&Fields>, extension: &str) -> bool {
    capabilities.and_then(|all| all.object("extensions")).is_some_and(|extensions| extensions.has(extension))
}

/// Returns the capabilities of a client with a session, without the extension: its protocol version
/// has no such results.
pub(crate) fn without_tasks(capabilities: Raw) -> Raw {
    if !capabilities.get().contains(EXTENSION) {
        return capabilities;
    }
    let Some(mut fields) = Fields::of(&capabilities) else { return capabilities };
    let Some(mut extensions) = fields.object("extensions") else { return capabilities };
    extensions.remove(EXTENSION);
    fields.set("extensions", extensions.to_raw());
    fields.to_raw()
}

#[cfg(test)]
mod tests {
    use pegboard_core::{Secret, Selection};
    use pegboard_http::Principal;

    use super::*;
    use crate::{GatewaySettings, Token, testing};

    fn settings(secrets: &[&str]) -> GatewaySettings {
        let token = |secret: &&str| Token {
            name: String::new(),
            secret: Secret::new(*secret),
            selection: Selection::everything(),
            limits: None,
        };
        GatewaySettings { tokens: secrets.iter().map(token).collect(), ..GatewaySettings::default() }
    }

    #[test]
    fn an_id_is_its_callers_alone_also_after_a_restart() {
        let folder = std::env::temp_dir().join(format!("pegboard-tasks-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let (ann, bob) = (Caller::Token(Principal(0)), Caller::Token(Principal(1)));
        let setup = testing::setups(settings(&["secret of ann", "secret of bob"])).current();
        let ids = TaskIds::open(Some(&folder));
        let result = raw(&json!({"resultType": "task", "taskId": "7", "status": "working", "n": 1.0}));
        let shown = ids.with_shown_id(&setup, ann, &"one".into(), "slow", result).expect("an id");
        let fields = Fields::of(&shown).expect("an object");
        let id = fields.text("taskId").expect("an id");
        assert!(id.starts_with("task_") && !shown.get().contains("\"7\""), "{shown}");
        assert_eq!(fields.get("n").map(RawValue::get), Some("1.0"));
        let task = Task { server: "one".into(), id: "7".to_owned(), tool: "slow".to_owned() };
        assert_eq!(ids.find(&setup, ann, &id).ok(), Some(task.clone()));
        let theirs = ids.find(&setup, bob, &id).expect_err("it is another caller's");
        assert_eq!(theirs.code, RpcError::INVALID_PARAMS);
        assert!(theirs.message.starts_with("unknown task `task_"), "{theirs}");
        for wrong in ["", "7", "task_", "task_AAAA", &id[..id.len() - 1]] {
            assert!(ids.find(&setup, ann, wrong).is_err(), "{wrong}");
        }
        // Another process, in which the holders have other numbers.
        let setup = testing::setups(settings(&["secret of bob", "secret of ann"])).current();
        let restarted = TaskIds::open(Some(&folder));
        assert_eq!(restarted.find(&setup, bob, &id).ok(), Some(task), "the second is ann by now");
        assert!(restarted.find(&setup, ann, &id).is_err());
        assert!(TaskIds::open(None).find(&setup, bob, &id).is_err(), "another installation");
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn only_tasks_get_another_id() {
        let setup = testing::setups(settings(&[])).current();
        for result in [json!({"content": []}), json!({"structuredContent": {"taskId": "7"}}), json!({"taskId": "7"})] {
            let given = raw(&result);
            let shown = TaskIds::open(None).with_shown_id(&setup, Caller::Pipe, &"one".into(), "t", given.clone());
            assert_eq!(shown.expect("a result").get(), given.get());
        }
    }

    #[test]
    fn the_extension_is_declared_or_not() {
        let check = |capabilities: serde_json::Value, expected: bool| {
            assert_eq!(check_declared(&raw(&capabilities)).is_ok(), expected, "{capabilities}");
            assert!(check_declared(&without_tasks(raw(&capabilities))).is_err());
        };
        check(json!({}), false);
        check(json!({"extensions": {"io.modelcontextprotocol/ui": {}}}), false);
        check(json!({"extensions": {EXTENSION: {}}, "sampling": {}}), true);
        let error = check_declared(&raw(&json!({}))).expect_err("not declared");
        assert_eq!(error.code, -32021);
        let data = error.data.map(|data| data.get().to_owned()).unwrap_or_default();
        assert_eq!(data, r#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#);
    }
}
