//! The commands that the model writes, and the API through which they call tools.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use pegboard_core::Tool;
use pegboard_discovery::{Target, openapi};
use pegboard_upstream::with_causes;
use serde_json::Value;

pub(crate) use crate::code::ToolApi;
use crate::{
    Program,
    builder::BuildError,
    call_runner::{CallOutcome, CallRunner},
    code::{ApiSettings, InvokeFuture, InvokeOutcome, ToolInvoker},
    shell::{ApiAccess, Sandbox, Shell, ShellSettings},
};

/// The settings of commands.
#[derive(Debug, Default)]
pub(crate) struct CommandSettings {
    pub(crate) shell: Option<ShellSettings>,
    /// Whether each conversation works in a folder of its own.
    pub(crate) has_own_folder: bool,
}

impl CommandSettings {
    /// Returns the settings for the conversation `id`.
    fn shell_settings(self, id: &str) -> ShellSettings {
        match self.shell {
            Some(mut settings) => {
                if self.has_own_folder {
                    settings.folder.push(id);
                }
                settings
            }
            None => ShellSettings::new(std::env::temp_dir().join(format!("pegboard-{id}"))),
        }
    }
}

/// Runs commands.
#[derive(Debug)]
pub(crate) struct Commands(Shell);

impl Commands {
    /// Starts the tool API, and prepares the shell.
    pub(crate) async fn start(
        runner: &Arc<CallRunner>,
        settings: CommandSettings,
        id: &str,
        program: Option<Program>,
    ) -> Result<(Self, ToolApi), BuildError> {
        let settings = settings.shell_settings(id);
        let api = ToolApi::start(Arc::clone(runner) as Arc<dyn ToolInvoker>, ApiSettings::default()).await?;
        let reach = ApiAccess { address: api.address(), token: api.token().to_owned() };
        // Creating the shell tries the sandboxes, which blocks.
        let shell = tokio::task::spawn_blocking(move || Shell::new(settings, program, Some(reach)));
        Ok((Self(shell.await.map_err(|_| BuildError::Panicked)??), api))
    }

    pub(crate) async fn run(&self, command: &str, timeout: Option<Duration>) -> CallOutcome {
        match self.0.run(command, timeout).await {
            Ok(ran) => CallOutcome { is_error: ran.ended_by.is_some(), ..CallOutcome::ok(ran.to_string()) },
            Err(error) => CallOutcome::error(with_causes(&error)),
        }
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        self.0.sandbox()
    }
}

impl CallRunner {
    /// Returns the tool that a script names, or similar names.
    fn find(&self, server: Option<&str>, name: &str) -> Result<Arc<Tool>, Vec<String>> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone();
        openapi::find(&catalog, &self.selection, server, name)
    }
}

impl ToolInvoker for CallRunner {
    fn invoke<'a>(&'a self, server: Option<&'a str>, name: &'a str, arguments: Value) -> InvokeFuture<'a> {
        Box::pin(async move {
            let Ok(tool) = self.find(server, name) else { return InvokeOutcome::Unknown };
            let target = Target {
                is_wrapped: false,
                id: Some(tool.id().to_owned()),
                server: tool.server_name().map(str::to_owned),
                name: tool.upstream_name().to_owned(),
                arguments,
            };
            let CallOutcome { text, value, is_error } = self.run_call(target).await;
            InvokeOutcome::Done { text, value, is_error }
        })
    }

    fn similar_names(&self, server: Option<&str>, name: &str) -> Vec<String> {
        self.find(server, name).err().unwrap_or_default()
    }
}
