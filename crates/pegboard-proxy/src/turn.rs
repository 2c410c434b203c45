//! The path of a request that carries tools.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    http::Response,
};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use crate::{
    calls::Calls,
    conversation::{self, Conversations, Declared, History, Thinking},
    error::RequestError,
    forward::{self, Outgoing},
    json::{self, Object},
    mode::{Caller, Mode, Modes},
    proxy::Shared,
    report::Report,
    request::{self, Prefetched, Template},
    route::Route,
    splice::{Exchange, HiddenRounds},
    wires::{Splicer, Wire},
};

/// A request of a client with its whole body.
pub(crate) struct Incoming<'a> {
    pub(crate) route: Route,
    pub(crate) wire: &'static dyn Wire,
    /// Whether the request asks for its number of tokens, and not for an answer.
    pub(crate) is_count: bool,
    /// The model, where the path names it.
    pub(crate) model: Option<&'a str>,
    pub(crate) caller: Caller<'a>,
    /// The provider credential, to be hashed.
    pub(crate) credential: Vec<u8>,
    pub(crate) outgoing: Outgoing,
    pub(crate) body: Bytes,
    /// The room that the body takes.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// A request as it is sent to the provider.
struct Prepared {
    template: Template,
    history: History,
    declared: Vec<Declared>,
    calls: Calls,
    splicer: Box<dyn Splicer>,
    prefetched: Prefetched,
    report: Report,
    definition_tokens: usize,
}

/// What is done with a request.
enum Plan {
    Pass(Report),
    Change(Box<Prepared>),
}

impl Incoming<'_> {
    /// Answers the request.
    pub(crate) async fn answer(self, shared: &Shared) -> Result<Response<Body>, RequestError> {
        let start = Instant::now();
        let plan = self.plan(shared).await;
        let took = start.elapsed();
        match plan {
            Plan::Pass(report) => {
                shared.counters.count(self.route, &report, took);
                let response = shared.upstream.send(&self.outgoing, self.body.into()).await?;
                let mut response = forward::pass_response(response);
                report.mark(response.headers_mut());
                Ok(response)
            }
            Plan::Change(prepared) => {
                shared.counters.count(self.route, &prepared.report, took);
                shared.counters.of(self.route).definition_tokens_in += prepared.definition_tokens as u64;
                self.send(*prepared, shared).await
            }
        }
    }

    /// Decides what is done, away from the tasks that serve connections: a new list of tools takes time.
    async fn plan(&self, shared: &Shared) -> Plan {
        let planner = Planner {
            wire: self.wire,
            root: shared.conversations.root(
                self.route.as_str(),
                shared.settings.upstreams.get(self.route),
                &self.credential,
            ),
            body: self.body.clone(),
            conversations: Arc::clone(&shared.conversations),
            tool_sets: Arc::clone(&shared.tool_sets),
        };
        let model = self.model.map(str::to_owned);
        let (route, name, agent) = (self.route, self.caller.name.map(str::to_owned), self.caller.agent.to_owned());
        let modes = shared.settings.modes.clone();
        let planned = tokio::task::spawn_blocking(move || {
            let caller = Caller { name: name.as_deref(), agent: &agent };
            planner.plan(
                |named| {
                    let model = model.as_deref().unwrap_or(named).to_owned();
                    let mode = modes.of(route, &model, caller);
                    (model, mode)
                },
                &modes,
            )
        });
        planned.await.unwrap_or_else(|_| Plan::Pass(Report::pass("internal-error")))
    }

    async fn send(mut self, prepared: Prepared, shared: &Shared) -> Result<Response<Body>, RequestError> {
        // Several times the size of what is sent; it must not wait for the answer.
        drop((std::mem::take(&mut self.body), self.room.take()));
        let Prepared { template, mut history, declared, calls, splicer, prefetched, report, .. } = prepared;
        if let Some(note) = &prefetched.note
            && let Some(item) = self.wire.with_note(history.last_item(), note)
        {
            history.replace_last(&item);
        }
        request::prepare_headers(&mut self.outgoing.headers);
        if self.is_count {
            return self.count(&template, &history, &declared, &prefetched, &report, shared).await;
        }
        let exchange = Exchange {
            wire: self.wire,
            route: self.route,
            upstream: shared.upstream.clone(),
            outgoing: self.outgoing,
            template,
            history,
            declared,
            note: prefetched.note,
            calls: Some(calls),
            splicer,
            conversations: Arc::clone(&shared.conversations),
            counters: Arc::clone(&shared.counters),
            max_rounds: shared.settings.max_hidden_rounds,
            report,
            root: shared.conversations.root(
                self.route.as_str(),
                shared.settings.upstreams.get(self.route),
                &self.credential,
            ),
            hidden: HiddenRounds::starting_with(prefetched.items),
        };
        exchange.run().await
    }

    /// Asks for the number of tokens of the request that would be sent.
    async fn count(
        &self,
        template: &Template,
        history: &History,
        declared: &[Declared],
        prefetched: &Prefetched,
        report: &Report,
        shared: &Shared,
    ) -> Result<Response<Body>, RequestError> {
        let body = template.render(&history.text, &prefetched.items, &self.wire.tool_list(declared), None);
        let response = shared.upstream.send(&self.outgoing, body.into()).await?;
        let mut response = forward::pass_response(response);
        report.mark(response.headers_mut());
        Ok(response)
    }
}

/// Plans a request.
struct Planner {
    wire: &'static dyn Wire,
    root: conversation::Link,
    body: Bytes,
    conversations: Arc<Conversations>,
    tool_sets: Arc<crate::catalog::ToolSets>,
}

impl Planner {
    fn plan(&self, mode_of: impl Fn(&str) -> (String, Mode), modes: &Modes) -> Plan {
        let Some(body) = std::str::from_utf8(&self.body).ok().and_then(Object::parse) else {
            return Plan::Pass(Report::pass("unreadable-request"));
        };
        let (model, mode) = mode_of(&body.text("model").unwrap_or_default());
        if mode == Mode::Pass {
            return Plan::Pass(Report::pass("mode"));
        }
        let Some(list) = body.get("tools").filter(|_| body.has("tools")) else {
            return Plan::Pass(Report::pass("no-tools"));
        };
        let (tools, is_new) = self.tool_sets.get(list.get(), self.wire);
        let pass = |reason| Plan::Pass(Report { tools: tools.len(), sent: tools.len(), ..Report::pass(reason) });
        if let Some(reason) = request::pass_reason(&tools, modes).or_else(|| self.wire.bypass(&body)) {
            return pass(reason);
        }
        if is_new {
            let tools = Arc::clone(&tools);
            // While the model reads the request.
            tokio::task::spawn_blocking(move || tools.prepare());
        }
        match self.prepare(&body, &tools, &model, mode, modes) {
            Ok(prepared) => Plan::Change(Box::new(prepared)),
            Err(reason) => pass(reason),
        }
    }

    fn prepare(
        &self,
        body: &Object<'_>,
        tools: &Arc<crate::catalog::ToolSet>,
        model: &str,
        mode: Mode,
        modes: &Modes,
    ) -> Result<Prepared, &'static str> {
        let items = body.get(self.wire.history_key()).and_then(|history| self.wire.items(history));
        let items = items.ok_or("unreadable-history")?;
        let previous = self.wire.previous(body);
        let restore = |thinking| {
            conversation::restore(&self.conversations, self.wire, self.root, previous.as_deref(), &items, thinking)
        };
        let mut history = restore(Thinking::Kept)?;
        let is_miss = history.called.iter().any(|name| tools.is_deferrable(name));
        if is_miss {
            history = restore(Thinking::Dropped)?;
        }
        let session = tools.session().ok_or("no-search")?;
        let delivery = request::delivery(self.wire, history.declared.as_deref(), model, mode);
        let choice = self.wire.choice(body);
        let declared = request::declare(self.wire, tools, delivery, &history, &choice, modes)?;
        let report = Report { mode, tools: tools.len(), sent: declared.len(), rounds: None, reason: None, is_miss };
        let mut calls = Calls::new(session, Arc::clone(tools), delivery);
        let prefetched = match mode {
            Mode::Prefetch => request::prefetch(self.wire, &history, &mut calls),
            _ => Prefetched::default(),
        };
        let mut template = Template::new(body, self.wire.history_key());
        if let Some(previous) = &history.previous {
            template.set(self.wire.previous_key(), &json::quoted(previous));
        }
        let splicer = self.wire.splicer(body);
        let definition_tokens = tools.tokens;
        Ok(Prepared { template, history, declared, calls, splicer, prefetched, report, definition_tokens })
    }
}
