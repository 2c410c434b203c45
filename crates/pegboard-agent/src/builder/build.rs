//! Builds an agent from its parts.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock, RwLock},
};

use pegboard_discovery::HostTool;
use pegboard_llm::{Client, client::ClientError};
use pegboard_upstream::{
    Fleet, FleetOptions,
    config::file::{self, ConfigFileError},
};
use tokio::sync::Mutex;

use super::{AgentBuilder, BuildError, SavedConversation};
use crate::{
    Program,
    agent::{Agent, ModelClient, Shared},
    call_runner::CallRunner,
    commands::Commands,
    conversation_state::ConversationState,
    custom::{RegisterError, Registry},
    outputs::{OutputError, Outputs},
    settings::Mode,
    sources::Sources,
};

impl AgentBuilder {
    /// Starts the servers, waits for them, and begins the conversation. A server that does not
    /// start is not an error: see [`Agent::failed_servers`].
    ///
    /// # Errors
    /// If a setting is invalid or a required resource is missing.
    pub async fn build(mut self) -> Result<Agent, BuildError> {
        if self.limits.cost.is_some() && self.prices.is_none() {
            return Err(BuildError::NoPrices);
        }
        let client = self.model_client()?;
        let SavedConversation { id, saved, writer } =
            SavedConversation::open(self.saved.take(), self.transcript.take()).await?;
        let program = self.program.take().or_else(Program::find);
        let registry = self.registry()?;
        let fleet = self.start_servers(program.as_ref())?;
        fleet.settled(self.limits.startup).await;
        let selection = self.selection.clone().exempt(HostTool::OFFERS.map(HostTool::name));
        let outputs = self.outputs(&id, program.as_ref())?;
        let mut sources = Sources::new(Arc::clone(&fleet), registry.clone(), selection.clone(), &[])
            .with_policy(self.policy.clone())
            .with_names(self.names.clone(), self.prefixes)
            .with_host_tools(self.human.is_some(), outputs.is_some());
        sources.refresh();
        self.grants.resolve(sources.catalog(), &selection)?;
        let (mode, reason) = self.decide_mode(&sources, &selection);
        let conversation = self.conversation(mode, &mut sources, &selection, outputs.is_some())?;
        let runner = self.configure_runner(CallRunner::new(fleet, registry, selection), outputs);
        runner.set_catalog(sources.catalog().clone());
        let mut state = ConversationState::new(id.clone(), conversation, sources);
        if let Some(saved) = &saved {
            state.restore(saved)?;
        }
        let commands = std::mem::take(&mut self.commands);
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            client,
            runner: Arc::new(runner),
            limits: self.limits,
            prices: self.prices,
            mode,
            reason,
            unused_delivery: self.search.delivery.filter(|_| mode != Mode::ToolSearch),
            transcript: writer,
            learner: self.learner,
            snapshot: RwLock::default(),
            final_answer: self.final_answer,
            api: OnceLock::new(),
        });
        shared.update_snapshot(&*shared.state.lock().await);
        if mode == Mode::CodeExecution {
            let (commands, api) = Commands::start(&shared.runner, commands, &id, program).await?;
            let _ = (shared.runner.commands.set(commands), shared.api.set(api));
        }
        if let Some(outputs) = &shared.runner.outputs {
            tokio::spawn(Outputs::remove_old_periodically(Arc::downgrade(outputs)));
        }
        Ok(Agent { shared })
    }

    fn model_client(&mut self) -> Result<Arc<dyn ModelClient>, ClientError> {
        Ok(match self.client.take() {
            Some(client) => client,
            None => Arc::new(Client::from_env(self.model.provider)?),
        })
    }

    fn registry(&mut self) -> Result<Registry, RegisterError> {
        let registry = Registry::new();
        let mut tools = std::mem::take(&mut self.tools);
        tools.extend(self.final_answer.as_ref().map(|answer| answer.tool.clone()));
        tools.into_iter().try_for_each(|tool| registry.add(tool))?;
        Ok(registry)
    }

    fn start_servers(&mut self, program: Option<&Program>) -> Result<Arc<Fleet>, ConfigFileError> {
        let mut servers = match &self.config {
            Some(path) => file::read_servers_from(path)?,
            None => Vec::new(),
        };
        let mut names: BTreeSet<String> = servers.iter().map(|server| server.name.clone()).collect();
        let further = std::mem::take(&mut self.servers);
        servers.extend(further.into_iter().filter(|server| names.insert(server.name.clone())));
        let supervisor = program.map(|program| {
            let mut command = program.command("supervise");
            command.push("--".into());
            command
        });
        let (supervisor, pins, logins) = (supervisor.unwrap_or_default(), self.pins.take(), self.logins.clone());
        let options = FleetOptions { supervisor, pins, logins, ..FleetOptions::default() };
        let (fleet, mut notices) = Fleet::start_with(servers, options);
        // Notifications of servers are not used here, but must not pile up.
        tokio::spawn(async move { while notices.recv().await.is_some() {} });
        Ok(Arc::new(fleet))
    }

    /// Creates the store of large outputs. Commands have files of their own.
    fn outputs(&mut self, id: &str, program: Option<&Program>) -> Result<Option<Arc<Outputs>>, OutputError> {
        let settings = self.outputs.take().filter(|_| self.mode != Mode::CodeExecution);
        settings.map(|settings| Outputs::new(settings, id, program.cloned()).map(Arc::new)).transpose()
    }

    /// Applies the settings to the call runner.
    fn configure_runner(&mut self, mut runner: CallRunner, outputs: Option<Arc<Outputs>>) -> CallRunner {
        runner.outputs = outputs;
        runner.human = self.human.take();
        runner.approval = self.approval;
        runner.grants = self.grants.clone();
        runner.policy = self.policy.take();
        runner.tool_time = self.limits.tool_time;
        runner.output_bytes = self.limits.output_bytes;
        runner
    }
}
