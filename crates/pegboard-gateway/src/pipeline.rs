//! The pipeline of a request, from top to bottom.
//!
//! A door turns bytes into a [`Request`] and the [`Reply`] back into bytes. This file has the
//! steps between them in their order, each with its reason.
//!
//! ```text
//! authenticate -> limits -> session -> resolve -> pins -> policy -> arguments
//!     -> search | forward -> offload -> record
//! ```

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pegboard_core::{Tool, Vectors};
use pegboard_discovery::{CallAnswer, Target};
use pegboard_http::PeerAddress;
use pegboard_mcp::{
    json::{Fields, raw},
    rpc::{Id, RpcError},
};
use pegboard_upstream::ListKind;
use serde_json::{Value, json, value::RawValue};

use crate::{
    activity::{Activity, Observation},
    caller::{Caller, Viewer},
    catalog::own::ClientRef,
    exchange::Exchange,
    forward::calls::{Forward, ForwardError, Forwarder},
    greetings::Greetings,
    limits::{AdmissionControl, TooMuchUnread},
    metrics::Metrics,
    offload::{OffloadedResults, ResultOwner},
    progress::RefreshProgress,
    record::Record,
    request::{Caching, Client, Failure, Forwarded, Greeting, Operation, Outcome, Reply, Request, Text, ToolCall},
    routes::{
        entries::Entries,
        lists::{self, Counters},
    },
    savings::SavingsLedger,
    sessions::{ClientSession, Sessions},
    setup::{Setup, Setups},
    shares::{Claim, Party},
    startup::{GREETING_WAIT, Startup},
    steps::{
        arguments, measure, offload, pins, policy,
        resolve::{self, Called, Resolved},
    },
    subscriptions::Subscriptions,
    tasks::{self, Task, TaskIds, TaskMethod},
    trace,
};

/// How long clients may cache a list, in milliseconds.
const LIST_TTL: u64 = 30_000;

/// How long a part of a kept result waits for the caller's other calls.
const READ_WAIT: Duration = Duration::from_secs(30);

/// The parts that the steps need.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) setups: Arc<Setups>,
    pub(crate) startup: Arc<Startup>,
    pub(crate) limits: Arc<AdmissionControl>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) greetings: Arc<Greetings>,
    pub(crate) entries: Entries,
    pub(crate) forwarder: Arc<Forwarder>,
    pub(crate) results: Arc<OffloadedResults>,
    pub(crate) tasks: TaskIds,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) record: Arc<Record>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) savings: Arc<SavingsLedger>,
    /// How far changes of the servers are in the lists.
    pub(crate) progress: Arc<RefreshProgress>,
}

impl Pipeline {
    /// Runs the steps before the body of a request is read. The returned claim must be kept until
    /// the request is answered.
    ///
    /// # Errors
    /// When the caller is not authorized, or exceeds a limit.
    pub(crate) fn admit(
        &self,
        caller: Caller,
        address: Option<PeerAddress>,
        bytes: usize,
        max_body_bytes: usize,
    ) -> Result<Claim, Failure> {
        // Authenticate: the listener has checked the token; the settings can have changed since.
        self.setups.viewer(caller).ok_or(Failure::Unauthenticated)?;
        // Limits: bodies are in memory for as long as their requests are answered, and one caller
        // must not fill it.
        let party = Party::of(caller, address);
        self.limits.open_body(party, bytes, max_body_bytes).ok_or(Failure::TooManyBytes)
    }

    /// Applies the limits to an answer: it stays in memory until its client has read it, and one
    /// caller must not fill the memory with unread answers.
    ///
    /// # Errors
    /// When there is no room for an answer of so many bytes.
    pub(crate) fn open_answer(&self, party: Party, bytes: usize) -> Result<Option<Claim>, TooMuchUnread> {
        self.limits.open_answer(party, bytes, self.setups.current().unread_bytes_per_caller)
    }

    /// Runs the steps of a request, or answers its parse error.
    pub(crate) async fn answer(&self, request: Result<Request, RpcError>) -> Outcome {
        let began = Instant::now();
        let outcome = match request {
            Ok(request) => self.steps(request).await,
            Err(error) => Err(error.into()),
        };
        trace::record_outcome(&outcome, began);
        outcome
    }

    async fn steps(&self, request: Request) -> Outcome {
        // Authenticate: a body can take its time, and meanwhile a token can be withdrawn.
        let viewer = self.setups.viewer(request.caller).ok_or(Failure::Unauthenticated)?;
        // Limits: a stream without end takes one of its caller's places for as long as it lasts.
        let _place = self.place(&request)?;
        // Session: what was loaded before decides what the request sees; one without a session
        // sees what its caller does.
        let party = request.party();
        let Request { id, session, operation, client, .. } = request;
        let session = self.sessions.find_for_request(session, &viewer, party, &operation).await?;
        if let Operation::Initialize(asked) = operation {
            self.note_client(asked.capabilities.as_deref());
            self.wait_until_declared(GREETING_WAIT.min(self.setups.current().startup_wait)).await;
            let (session, greeting) = Box::pin(self.sessions.initialize(viewer, party, asked)).await;
            return Ok(Reply::Begun(session, greeting));
        }
        let exchange = self.exchange(client, viewer, session);
        self.note_client(Some(&exchange.capabilities));
        let work = self.route(&exchange, &id, operation);
        let mut work = std::pin::pin!(work);
        let Some(session) = &exchange.session else { return work.await };
        // A client may take a request back.
        let in_progress = session.begin(&id);
        tokio::select! {
            // What is done is done.
            biased;
            outcome = &mut work => outcome,
            () = in_progress.cancelled() => Err(Failure::Cancelled),
        }
    }

    /// Lets servers know what a client can be asked for.
    fn note_client(&self, capabilities: Option<&RawValue>) {
        let capabilities = capabilities.map_or_else(|| raw(&json!({})), ToOwned::to_owned);
        self.forwarder.fleet.note_client(&capabilities);
    }

    /// Waits until the lists are those for what clients can be asked for, at most `limit`.
    async fn wait_until_declared(&self, limit: Duration) {
        let fleet = &self.forwarder.fleet;
        if !fleet.is_declaring() {
            return;
        }
        let listed = async {
            fleet.wait_until_declared().await;
            let changes = *fleet.changes().borrow();
            self.progress.wait_until_reached(changes).await;
        };
        let _ = tokio::time::timeout(limit, listed).await;
    }

    fn place(&self, request: &Request) -> Result<Option<Claim>, Failure> {
        let Operation::Listen(_) = &request.operation else { return Ok(None) };
        let most = self.setups.current().streams_per_caller;
        self.limits.open_stream(request.party(), most).map(Some).ok_or(Failure::TooManyStreams)
    }

    fn exchange(&self, client: Client, viewer: Viewer, session: Option<Arc<ClientSession>>) -> Exchange {
        let Client { name, console, address, pipe, capabilities, log_level, progress, outlet, trace } = client;
        let mut exchange = Exchange {
            viewer,
            client: name,
            console,
            address,
            pipe,
            session: None,
            shape: self.setups.current().profile.constant_shape(),
            capabilities: capabilities.unwrap_or_else(|| raw(&json!({}))),
            log_level,
            progress,
            outlet,
            owner: 0,
            trace,
        };
        let Some(session) = session else {
            exchange.owner = self.sessions.next_owner();
            return exchange;
        };
        trace::record_session(&session);
        // The session may have seen newer settings.
        exchange.viewer = session.viewer();
        (exchange.shape, exchange.owner) = (session.profile.shape(), session.owner);
        (exchange.capabilities, exchange.log_level) = (session.capabilities.clone(), None);
        exchange.session = Some(session);
        exchange
    }

    async fn route(&self, exchange: &Exchange, id: &Id, operation: Operation) -> Outcome {
        if let Some(session) = &exchange.session {
            for method in session.take_pending_announcements() {
                exchange.notify(method, None).await;
            }
        }
        let setup = self.setups.current();
        match operation {
            Operation::Ping | Operation::Initialize(_) => return Ok(Reply::Done),
            Operation::CallTool(call) => {
                let mut observed = self.activity.observe(&setup, exchange, &call);
                let outcome = self.call_tool(&setup, exchange, call, &mut observed).await;
                observed.finish(&outcome);
                return outcome;
            }
            Operation::SetLevel(level) => self.sessions.set_level(exchange.session.as_ref(), &level).await,
            Operation::Listen(wanted) => {
                if wanted.has_tasks {
                    tasks::check_declared(&exchange.capabilities)?;
                }
                Box::pin(self.subscriptions.listen(exchange, id, wanted)).await?;
                return Ok(Reply::Listened);
            }
            Operation::Discover => {
                self.startup.wait_until_ready_for_greeting(&setup).await;
                self.wait_until_declared(GREETING_WAIT.min(setup.startup_wait)).await;
                return Ok(self.discover(&setup, exchange));
            }
            // What follows is about what the servers offer: while they start, it is not known yet.
            operation => {
                self.startup.wait_until_ready(&setup).await;
                self.wait_until_declared(setup.startup_wait).await;
                return Box::pin(self.route_to_servers(&setup, exchange, operation)).await;
            }
        }
        Ok(Reply::Done)
    }

    async fn route_to_servers(&self, setup: &Setup, exchange: &Exchange, operation: Operation) -> Outcome {
        let (catalog, caching) = (&self.entries.catalog, self.caching(setup));
        match operation {
            Operation::ListTools(cursor) => {
                let began = Instant::now();
                let counters = Counters { metrics: &self.metrics, savings: &self.savings };
                let counters = cursor.is_none().then_some(counters);
                let (items, tokens) = lists::tools(catalog, setup, exchange, counters);
                if counters.is_some() {
                    self.activity.record_list(setup, exchange, items.len(), tokens, began.elapsed());
                }
                lists::page(ListKind::Tools, items, cursor, setup.page_size, caching)
            }
            Operation::List(kind, cursor) => {
                lists::page(kind, self.entries.list(exchange, kind), cursor, setup.page_size, caching)
            }
            Operation::GetPrompt(name, params) => self.entries.get_prompt(exchange, &name, params).await,
            Operation::ReadResource(uri, params) => self.entries.read_resource(exchange, uri, params).await,
            Operation::Complete(reference, params) => self.entries.complete(exchange, reference, params).await,
            Operation::Task(method, id, params) => self.task(setup, exchange, method, &id, params).await,
            Operation::Subscribe(uri) => {
                self.entries.resource(exchange, &uri)?;
                let lasting = exchange.session.as_ref().filter(|session| session.is_lasting);
                let needed =
                    || RpcError::new(RpcError::INVALID_REQUEST, "a subscription needs a session; initialize first");
                self.sessions.subscribe(lasting.ok_or_else(needed)?, &uri, exchange.party()).await?;
                Ok(Reply::Done)
            }
            Operation::Unsubscribe(uri) => {
                // A resource that is no longer listed can still be followed.
                let is_followed = match &exchange.session {
                    Some(session) => self.sessions.unsubscribe(session, &uri).await,
                    None => false,
                };
                if !is_followed {
                    self.entries.resource(exchange, &uri)?;
                }
                Ok(Reply::Done)
            }
            _ => Ok(Reply::Done),
        }
    }

    fn discover(&self, setup: &Setup, exchange: &Exchange) -> Reply {
        let instructions = self.entries.catalog.with_tools(setup, exchange, |tools| self.greetings.instructions(tools));
        let extensions = self.greetings.extensions(&exchange.viewer.selection);
        Reply::Discovered(Greeting { version: None, instructions, extensions }, self.caching(setup))
    }

    fn caching(&self, setup: &Setup) -> Caching {
        // What is still to come must not be missed for long.
        let ttl_ms = if self.startup.is_over() { LIST_TTL } else { 0 };
        Caching { ttl_ms, is_private: !setup.tokens.is_empty() }
    }

    /// Runs the steps of a tool call.
    async fn call_tool(
        &self,
        setup: &Setup,
        exchange: &Exchange,
        call: ToolCall,
        observed: &mut Observation<'_>,
    ) -> Outcome {
        let catalog = &self.entries.catalog;
        let began = Instant::now();
        // Resolve: the session says whether the name means a meta-tool, a tool that a meta-tool is
        // to call, or a tool by its own name. Nothing guesses that from names again.
        //
        // Policy, then arguments: before a tool is called, the rules of its server may forbid it,
        // and headers must repeat the arguments that they have to repeat. Both under the one lock
        // of the session, so that what was checked is what is called.
        let directory = catalog.directory_for(setup, &ClientRef::of_exchange(exchange));
        let check = |tool: &Tool, given: &Value, is_wrapped: bool| {
            policy::check(setup, tool, given)?;
            // A meta-tool's own arguments are not the tool's.
            arguments::check_headers(&directory, tool, given, call.headers.as_ref().filter(|_| !is_wrapped))
        };
        let bytes = call.params.get("arguments").map_or(0, |arguments| arguments.get().len());
        let resolve = async |vectors: Option<&Vectors>| {
            // Limits: a long query, or rules over long arguments, keep a processor busy; one caller
            // must not keep it from the others.
            let _turn = self.limits.begin_work(exchange.party(), bytes).await?;
            catalog.with_tools(setup, exchange, |tools| resolve::call(tools, &call, vectors, check))
        };
        let called = match resolve(None).await? {
            Resolved::Called(called) if called.unknown.is_some() && !self.startup.is_over() => {
                // A server that is still starting may have the tool.
                self.startup.wait_until_ready(setup).await;
                resolve(None).await?.wait_for_vectors(resolve).await?
            }
            resolved => resolved.wait_for_vectors(resolve).await?,
        };
        // Pins: a tool without approval is hidden; a call of it gets the reason.
        if let Some(name) = &called.unknown
            && let Some(held) = pins::held_back_reply(&directory, &exchange.viewer.selection, name)
        {
            return Ok(Reply::Text(held));
        }
        // Record: what was searched for and what is called now, for metrics, logs and rankers.
        measure::record_answer(&self.metrics, &called, began.elapsed());
        self.record.record_answer(exchange, &called.answer);
        observed.answered(&called);
        if setup.is_search_logged {
            measure::log_searches(&called.answer, began);
        }
        if called.answer.list_changed
            && let Some(session) = &exchange.session
        {
            self.sessions.save_if_changed(session).await;
            session.announce_with("notifications/tools/list_changed", &exchange.outlet).await;
        }
        let Called { answer: CallAnswer { target, reply, metadata, is_error, .. }, lead, .. } = called;
        // Search: a meta-tool has answered.
        let Some(target) = target else {
            return Ok(Reply::Text(Text { text: reply.into_text(), is_error, metadata }));
        };
        // Offload, the other way: a part of a result that was kept.
        if target.id.is_none() {
            return Ok(Reply::Text(self.read_result(setup, exchange, &target.arguments).await));
        }
        // Forward: the tool's server is called, with the arguments as they were written.
        // On the heap, like everything else here that a search does not need: what a future holds at
        // its widest is copied whenever it is moved.
        let tool = call.called_tool(target.is_wrapped);
        let server: Arc<str> = target.server.as_deref().unwrap_or_default().into();
        let outcome = Box::pin(self.forward(setup, exchange, call, target, observed)).await;
        // Offload: a result that is too long to show becomes a reference.
        let outcome = match outcome {
            Ok(Reply::Forwarded(mut forwarded)) => {
                let caller = exchange.viewer.caller;
                forwarded.result = self.tasks.with_shown_id(setup, caller, &server, &tool, forwarded.result)?;
                Ok(self.offload(setup, exchange, server, &tool, forwarded).await)
            }
            outcome => outcome,
        };
        // Record: a call that has done its work says something about the search before it.
        if let (Some(lead), Ok(Reply::Forwarded(forwarded))) = (lead, &outcome)
            && measure::is_success(&forwarded.result)
            && setup.learner.is_some()
            && let Some(mut step) = catalog.with_tools(setup, exchange, |tools| tools.confirm_lead(&lead))
        {
            step.query = self.forwarder.fleet.without_secrets(&step.query);
            setup.learn(exchange.viewer.caller, &step);
        }
        outcome
    }

    async fn offload(
        &self,
        setup: &Setup,
        exchange: &Exchange,
        server: Arc<str>,
        tool: &str,
        forwarded: Forwarded,
    ) -> Reply {
        let Some(settings) = &setup.offload else { return Reply::Forwarded(forwarded) };
        let owner = ResultOwner { caller: exchange.viewer.caller, party: exchange.party(), server };
        match Box::pin(offload::offload(&self.results, settings, owner, tool, forwarded)).await {
            Ok(forwarded) => Reply::Forwarded(forwarded),
            Err(error) => Reply::Text(Text::error(format!("`{tool}` was called, but {error}"))),
        }
    }

    /// Passes a request about a task on to the server that runs it. The result of a finished task is
    /// treated like the result of a call.
    async fn task(
        &self,
        setup: &Setup,
        exchange: &Exchange,
        method: TaskMethod,
        shown: &str,
        mut params: Fields,
    ) -> Outcome {
        tasks::check_declared(&exchange.capabilities)?;
        let Viewer { caller, selection, .. } = &exchange.viewer;
        let Task { server, id, tool } = self.tasks.find(setup, *caller, shown)?;
        let directory = self.entries.catalog.directory_for(setup, &ClientRef::of_exchange(exchange));
        let is_visible = directory.has_visible_tool(selection, &server);
        if !is_visible || self.forwarder.fleet.find(&server).is_none() {
            return Err(tasks::unknown_task(shown).into());
        }
        params.set("taskId", raw(&id));
        let (name, method) = (Some(id), method.as_str());
        let forward = Forward { server: Arc::clone(&server), method, params, name, mirrored: Vec::new() };
        let forwarded = self.forwarder.forward(exchange, forward).await;
        let mut forwarded = forwarded.map_err(|error| error.into_rpc(&server))?;
        let Some(mut fields) = Fields::of(&forwarded.result).filter(|fields| fields.has("taskId")) else {
            return Ok(Reply::Forwarded(forwarded));
        };
        fields.set("taskId", raw(shown));
        if let Some(result) = fields.get("result").map(ToOwned::to_owned) {
            let inner = Forwarded { result, era: forwarded.era, is_resource: false, room: None };
            let inner = self.entries.with_shown_links(&server, inner);
            match self.offload(setup, exchange, server, &tool, inner).await {
                Reply::Forwarded(inner) => fields.set("result", inner.result),
                Reply::Text(Text { text, .. }) => {
                    let content = json!({"content": [{"type": "text", "text": text}], "isError": true});
                    fields.set("result", raw(&content));
                }
                _ => {}
            }
        }
        forwarded.result = fields.to_raw();
        Ok(Reply::Forwarded(forwarded))
    }

    /// Reads a part of a result that was too long to show.
    async fn read_result(&self, setup: &Setup, exchange: &Exchange, arguments: &Value) -> Text {
        let Some(settings) = &setup.offload else {
            return Text::error("results are no longer offloaded; call the tool again".to_owned());
        };
        let Viewer { caller, selection, .. } = &exchange.viewer;
        // Limits: a search in a long result is work like a call.
        let limits = setup.limits_of(*caller);
        let _turn = match self.limits.admit(limits, exchange.party(), READ_WAIT).await {
            Ok(turn) => turn,
            Err(refusal) => {
                let refused = ForwardError::from(refusal);
                refused.reject_reason().into_iter().for_each(|reason| self.metrics.count_rejection(reason));
                return Text::error(format!("the result was not read: {refusal}"));
            }
        };
        let directory = self.entries.catalog.directory_for(setup, &ClientRef::of_exchange(exchange));
        let is_visible = |server: &str| directory.has_visible_tool(selection, server);
        let read = self.results.read(settings, *caller, exchange.party(), &is_visible, arguments);
        match Box::pin(read).await {
            Ok(text) => Text { text, ..Text::default() },
            Err(error) => Text::error(error.to_text()),
        }
    }

    async fn forward(
        &self,
        setup: &Setup,
        exchange: &Exchange,
        call: ToolCall,
        target: Target,
        observed: &mut Observation<'_>,
    ) -> Outcome {
        let server: Arc<str> = target.server.as_deref().unwrap_or_default().into();
        let directory = self.entries.catalog.directory_for(setup, &ClientRef::of_exchange(exchange));
        let mirrored = arguments::mirrored_headers(&directory, &server, &target);
        let params = arguments::as_written(call.params, &call.arguments, &target);
        let (name, method) = (Some(target.name.clone()), "tools/call");
        let forward = Forward { server: Arc::clone(&server), method, params, name, mirrored };
        let result = measure::measure_call(&self.metrics, setup, &target, forward, |forward| {
            self.forwarder.forward(exchange, forward)
        });
        match result.await {
            Ok(forwarded) => Ok(Reply::Forwarded(self.entries.with_shown_links(&server, forwarded))),
            Err(error @ (ForwardError::Rpc(_) | ForwardError::Cut | ForwardError::Unread(_))) => {
                observed.lost();
                Err(error.into_rpc(&server).into())
            }
            // The model can do something about a server that is away; its client cannot.
            Err(ForwardError::LimitExceeded(refusal)) => {
                Ok(Reply::Text(Text::error(format!("`{}` was not called: {refusal}", call.name))))
            }
            Err(ForwardError::Lost(error)) if error.is_unsent() => {
                Ok(Reply::Text(Text::error(format!("`{}` was not called: server `{server}`: {error}", call.name))))
            }
            Err(error @ ForwardError::Lost(_)) => {
                observed.lost();
                Ok(Reply::Text(Text::error(format!("server `{server}`: {error}"))))
            }
        }
    }
}

#[cfg(test)]
mod tests;
