//! How the parts of an agent are put together.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock, RwLock},
};

use pegboard_discovery::HostTool;
use pegboard_llm::{Client, client::ClientError};
use pegboard_upstream::{
    Fleet, FleetOptions,
    config::file::{self, FileError},
};
use tokio::sync::Mutex;

use super::{AgentBuilder, BuildError, History};
use crate::{
    agent::{Agent, ModelClient, Shared},
    call_runner::Hands,
    commands::Commands,
    conversation_state::Talk,
    custom::{RegisterError, Registry},
    outputs::{OutputError, Outputs},
    program::Program,
    settings::Mode,
    sources::Sources,
};

impl AgentBuilder {
    /// Starts the servers, waits for them, and begins the conversation. A server that does
    /// not start is no error: [`Agent::failures`] tells of it.
    ///
    /// # Errors
    /// When what was asked for cannot be had.
    pub async fn build(mut self) -> Result<Agent, BuildError> {
        if self.limits.cost.is_some() && self.prices.is_none() {
            return Err(BuildError::NoPrices);
        }
        let client = self.model_client()?;
        let History { id, saved, writer } = History::open(self.saved.take(), self.transcript.take()).await?;
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
        let (mode, reason) = self.decide(&sources, &selection);
        let conversation = self.conversation(mode, &mut sources, &selection, outputs.is_some())?;
        let hands = self.hands(Hands::new(fleet, registry, selection), outputs);
        hands.set_catalog(sources.catalog().clone());
        let mut talk = Talk::new(id.clone(), conversation, sources);
        if let Some(saved) = &saved {
            talk.restore(saved)?;
        }
        let commands = std::mem::take(&mut self.commands);
        let shared = Arc::new(Shared {
            talk: Mutex::new(talk),
            client,
            hands: Arc::new(hands),
            limits: self.limits,
            prices: self.prices,
            mode,
            reason,
            unused_delivery: self.search.delivery.filter(|_| mode != Mode::ToolSearch),
            transcript: writer,
            learner: self.learner,
            glance: RwLock::default(),
            final_answer: self.final_answer,
            api: OnceLock::new(),
        });
        shared.look(&*shared.talk.lock().await);
        if mode == Mode::CodeExecution {
            let (commands, api) = Commands::start(&shared.hands, commands, &id, program).await?;
            let _ = (shared.hands.commands.set(commands), shared.api.set(api));
        }
        if let Some(outputs) = &shared.hands.outputs {
            tokio::spawn(Outputs::keep_clean(Arc::downgrade(outputs)));
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

    fn start_servers(&mut self, program: Option<&Program>) -> Result<Arc<Fleet>, FileError> {
        let mut servers = match &self.config {
            Some(path) => file::servers_from(path)?,
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
        // What servers say of their own accord is nobody's here; it must not pile up.
        tokio::spawn(async move { while notices.recv().await.is_some() {} });
        Ok(Arc::new(fleet))
    }

    /// Where large outputs go. Commands have files of their own.
    fn outputs(&mut self, id: &str, program: Option<&Program>) -> Result<Option<Arc<Outputs>>, OutputError> {
        let settings = self.outputs.take().filter(|_| self.mode != Mode::CodeExecution);
        settings.map(|settings| Outputs::new(settings, id, program.cloned()).map(Arc::new)).transpose()
    }

    /// The hands with what was set for them.
    fn hands(&mut self, mut hands: Hands, outputs: Option<Arc<Outputs>>) -> Hands {
        hands.outputs = outputs;
        hands.human = self.human.take();
        hands.approval = self.approval;
        hands.grants = self.grants.clone();
        hands.policy = self.policy.take();
        hands.tool_time = self.limits.tool_time;
        hands.output_bytes = self.limits.output_bytes;
        hands
    }
}
