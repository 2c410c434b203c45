//! Commands that the model writes, and the API that they call tools by.

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
    builder::BuildError,
    call_runner::{Done, Hands},
    code::{ApiSettings, Invoke, Invoked, Invoking},
    program::Program,
    shell::{Api, Sandbox, Shell, ShellSettings},
};

/// How commands run, as far as it is set.
#[derive(Debug, Default)]
pub(crate) struct CommandSettings {
    pub(crate) shell: Option<ShellSettings>,
    /// Each conversation works in a folder of its own.
    pub(crate) has_own_folder: bool,
}

impl CommandSettings {
    /// Returns the settings for the conversation `id`.
    fn shell_of(self, id: &str) -> ShellSettings {
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
    /// Serves the tools to commands, and gets ready to run them.
    pub(crate) async fn start(
        hands: &Arc<Hands>,
        settings: CommandSettings,
        id: &str,
        program: Option<Program>,
    ) -> Result<(Self, ToolApi), BuildError> {
        let settings = settings.shell_of(id);
        let api = ToolApi::start(Arc::clone(hands) as Arc<dyn Invoke>, ApiSettings::default()).await?;
        let reach = Api { address: api.address(), token: api.token().to_owned() };
        // It tries the sandboxes for real.
        let shell = tokio::task::spawn_blocking(move || Shell::new(settings, program, Some(reach)));
        Ok((Self(shell.await.map_err(|_| BuildError::Broken)??), api))
    }

    pub(crate) async fn run(&self, command: &str, timeout: Option<Duration>) -> Done {
        match self.0.run(command, timeout).await {
            Ok(ran) => Done { is_error: ran.ended_by.is_some(), ..Done::ok(ran.to_string()) },
            Err(error) => Done::error(with_causes(&error)),
        }
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        self.0.sandbox()
    }
}

impl Hands {
    /// The tool that a script means, or the names nearest to what it says.
    fn find(&self, server: Option<&str>, name: &str) -> Result<Arc<Tool>, Vec<String>> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone();
        openapi::find(&catalog, &self.selection, server, name)
    }
}

impl Invoke for Hands {
    fn invoke<'a>(&'a self, server: Option<&'a str>, name: &'a str, arguments: Value) -> Invoking<'a> {
        Box::pin(async move {
            let Ok(tool) = self.find(server, name) else { return Invoked::Unknown };
            let target = Target {
                is_wrapped: false,
                id: Some(tool.id().to_owned()),
                server: tool.server_name().map(str::to_owned),
                name: tool.upstream_name().to_owned(),
                arguments,
            };
            let Done { text, value, is_error } = self.carry_out(target).await;
            Invoked::Done { text, value, is_error }
        })
    }

    fn nearest(&self, server: Option<&str>, name: &str) -> Vec<String> {
        self.find(server, name).err().unwrap_or_default()
    }
}
