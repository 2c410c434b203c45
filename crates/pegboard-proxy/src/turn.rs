//! The path of a request that carries tools.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    http::Response,
};
use tokio::time::Instant;

use crate::{
    calls::{Calls, Delivery},
    catalog::{ToolSet, ToolSets},
    conversation::{self, Conversations, Declared, History, Link},
    error::RequestError,
    forward::{self, Outgoing, TakenRoom},
    json::{self, Object, with_field},
    mode::{Caller, Mode, Modes},
    proxy::Shared,
    references::References,
    report::Report,
    request::{self, Prefetched, Template},
    route::Route,
    splice::{Exchange, HiddenTurn},
    wires::{PassedHistory, Splicer, Wire},
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
    /// The beginning of all conversations of the client with the provider.
    pub(crate) root: Link,
    pub(crate) outgoing: Outgoing,
    pub(crate) body: Bytes,
    /// The room that the body takes.
    pub(crate) room: Option<TakenRoom>,
}

/// A request as it is sent to the provider.
struct Prepared {
    model: String,
    template: Template,
    history: History,
    declared: Vec<Declared>,
    /// The request's mark for the prompt cache at its tools.
    mark: Option<String>,
    root: Link,
    calls: Calls,
    splicer: Box<dyn Splicer>,
    prefetched: Prefetched,
    report: Report,
    definition_tokens: usize,
}

/// What is done with a request.
enum Plan {
    /// It passes through; with another body if the provider knows the conversation in another form than the client.
    Pass(Report, Option<String>),
    Change(Box<Prepared>),
}

impl Incoming<'_> {
    /// Answers the request.
    pub(crate) async fn answer(mut self, shared: &Shared) -> Result<Response<Body>, RequestError> {
        let start = Instant::now();
        let plan = self.plan(shared).await;
        let took = start.elapsed();
        match plan {
            Plan::Pass(report, body) => {
                shared.counters.count(self.route, &report, took);
                // It must not wait for the answer.
                drop(self.room.take());
                let body = body.map_or_else(|| self.body.into(), reqwest::Body::from);
                let response = shared.upstream.send(&self.outgoing, body).await?;
                let mut response = forward::pass_response(response);
                report.mark_response(&mut response);
                Ok(response)
            }
            Plan::Change(prepared) => {
                shared.counters.count(self.route, &prepared.report, took);
                if !self.is_count {
                    shared.counters.of(self.route).definition_tokens_in += prepared.definition_tokens as u64;
                }
                self.send(*prepared, shared).await
            }
        }
    }

    /// Decides what is done, away from the tasks that serve connections: a new list of tools takes time.
    async fn plan(&self, shared: &Shared) -> Plan {
        let planner = Planner {
            wire: self.wire,
            root: self.root,
            body: self.body.clone(),
            conversations: Arc::clone(&shared.conversations),
            tool_sets: Arc::clone(&shared.tool_sets),
            route: self.route,
            references: Arc::clone(&shared.references),
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
        planned.await.unwrap_or_else(|_| Plan::Pass(Report::pass("internal-error"), None))
    }

    async fn send(mut self, prepared: Prepared, shared: &Shared) -> Result<Response<Body>, RequestError> {
        // Several times the size of what is sent; it must not wait for the answer.
        drop((std::mem::take(&mut self.body), self.room.take()));
        let Prepared { model, template, mut history, declared, mark, root, calls, splicer, prefetched, report, .. } =
            prepared;
        if let Some(note) = &prefetched.note
            && let Some(item) = self.wire.with_note(history.last_item(), note)
        {
            history.replace_last(&item);
        }
        request::prepare_headers(&mut self.outgoing.headers);
        if self.is_count {
            let tools = request::tool_list(self.wire, &declared, mark.as_deref());
            let body = template.render(&history.text, &prefetched.items, &tools, None);
            return self.count(body, &report, shared).await;
        }
        let exchange = Exchange {
            wire: self.wire,
            route: self.route,
            upstream: shared.upstream.clone(),
            outgoing: self.outgoing,
            template,
            history,
            declared,
            mark,
            note: prefetched.note,
            calls: Some(calls),
            splicer,
            conversations: Arc::clone(&shared.conversations),
            references: Arc::clone(&shared.references),
            model,
            counters: Arc::clone(&shared.counters),
            max_rounds: shared.settings.max_hidden_rounds,
            report,
            root,
            hidden: HiddenTurn::starting_with(prefetched.items),
            is_retried: false,
        };
        exchange.run().await
    }

    /// Asks for the number of tokens of the request that would be sent.
    async fn count(&self, body: String, report: &Report, shared: &Shared) -> Result<Response<Body>, RequestError> {
        let response = shared.upstream.send(&self.outgoing, body.into()).await?;
        let mut response = forward::pass_response(response);
        report.mark_response(&mut response);
        Ok(response)
    }
}

/// Plans a request.
struct Planner {
    wire: &'static dyn Wire,
    root: Link,
    body: Bytes,
    conversations: Arc<Conversations>,
    tool_sets: Arc<ToolSets>,
    route: Route,
    references: Arc<References>,
}

impl Planner {
    fn plan(&self, mode_of: impl Fn(&str) -> (String, Mode), modes: &Modes) -> Plan {
        let Some(body) = std::str::from_utf8(&self.body).ok().and_then(Object::parse) else {
            return Plan::Pass(Report::pass("unreadable-request"), None);
        };
        let (model, mode) = mode_of(&body.text("model").unwrap_or_default());
        if mode == Mode::Pass {
            // The mode may have been another one when the conversation began.
            return self.pass(&body, Report::pass("mode"));
        }
        let Some(list) = body.get("tools").filter(|_| body.has("tools")) else {
            return self.pass(&body, Report::pass_tools("no-tools", 0));
        };
        let (tools, is_new) = self.tool_sets.get(list.get(), self.wire);
        let pass = |reason| self.pass(&body, Report::pass_tools(reason, tools.len()));
        if let Some(reason) = tools.bypass.or_else(|| self.wire.bypass(&body)) {
            return pass(reason);
        }
        let history = match self.restore(&body, &|name| tools.is_deferrable(name)) {
            Ok(history) => history,
            Err(reason) => return pass(reason),
        };
        // A conversation with hidden turns goes on as it began, also with fewer tools.
        if let Some(reason) = request::pass_reason(&tools, modes).filter(|_| history.declared.is_none()) {
            return pass(reason);
        }
        if is_new {
            let tools = Arc::clone(&tools);
            // While the model reads the request.
            tokio::task::spawn_blocking(move || tools.prepare());
        }
        match self.prepare(&body, &tools, history, &model, mode, modes) {
            Ok(prepared) => Plan::Change(Box::new(prepared)),
            Err(reason) => pass(reason),
        }
    }

    /// Restores the history of the request. An error is the reason to pass it through.
    fn restore(&self, body: &Object<'_>, is_deferrable: &dyn Fn(&str) -> bool) -> Result<History, &'static str> {
        let previous = self.wire.previous(body);
        let key = self.wire.history_key();
        let items = match body.get(key).filter(|_| body.has(key)) {
            Some(history) => self.wire.items(history).ok_or("unreadable-history")?,
            None if previous.is_some() => Vec::new(),
            None => return Err("unreadable-history"),
        };
        conversation::restore(&self.conversations, self.wire, self.root, previous.as_deref(), &items, is_deferrable)
    }

    /// Lets a request pass. The provider may know its conversation in another form than the client.
    fn pass(&self, body: &Object<'_>, report: Report) -> Plan {
        let form = self.wire.history_when_passed();
        if form == PassedHistory::Unchanged {
            return Plan::Pass(report, None);
        }
        // Without hidden turns, nothing is changed.
        let Ok(history) = self.restore(body, &|_| false) else { return Plan::Pass(report, None) };
        let is_behind_hidden = history.first_hidden.is_some();
        let is_other_response = history.previous != self.wire.previous(body);
        if !is_behind_hidden && !is_other_response {
            return Plan::Pass(report, None);
        }
        if form == PassedHistory::WithoutThinking {
            let changed = self.without_thinking(body, history.first_hidden.unwrap_or_default());
            return Plan::Pass(Report { is_miss: changed.is_some(), ..report }, changed);
        }
        let mut template = Template::new(body, self.wire.history_key());
        if let Some(previous) = &history.previous {
            template.set(self.wire.previous_key(), &json::quoted(previous));
        }
        let tools = body.get("tools").map_or("null", |tools| tools.get());
        let report = Report { is_miss: history.is_miss, ..report };
        Plan::Pass(report, Some(template.render(&history.text, &[], tools, None)))
    }

    /// Returns the request without the thinking from an item on, because it is not valid without the hidden turns.
    fn without_thinking(&self, body: &Object<'_>, first: usize) -> Option<String> {
        let items = self.wire.items(body.get(self.wire.history_key())?)?;
        let parsed: Vec<serde_json::Value> = items.iter().filter_map(|item| serde_json::from_str(item).ok()).collect();
        let kept = conversation::open_loop(self.wire, &parsed);
        let change = |(at, item): (usize, &std::borrow::Cow<'_, str>)| {
            if at < first || Some(at) == kept { item.clone().into_owned() } else { self.wire.without_thinking(item) }
        };
        let changed: Vec<String> = items.iter().enumerate().map(change).collect();
        let is_same = changed.iter().zip(&items).all(|(changed, item)| *changed == **item);
        let list = format!("[{}]", changed.join(","));
        (!is_same).then(|| {
            with_field(std::str::from_utf8(&self.body).unwrap_or_default(), self.wire.history_key(), Some(&list))
        })
    }

    /// Continues a conversation that has references to tools without them.
    fn replace_references(&self, tools: &ToolSet, history: &mut History) {
        if let Some(declared) = history.declared.as_ref().filter(|declared| !conversation::is_constant(declared)) {
            history.declared = request::declare_without_references(self.wire, tools, declared);
        }
        history.rewrite(|item| request::item_without_references(self.wire, tools, item));
    }

    fn prepare(
        &self,
        body: &Object<'_>,
        tools: &Arc<ToolSet>,
        mut history: History,
        model: &str,
        mode: Mode,
        modes: &Modes,
    ) -> Result<Prepared, &'static str> {
        let session = tools.session().ok_or("no-search")?;
        let are_rejected = self.references.are_rejected(self.route, model);
        let delivery = request::delivery(self.wire, history.declared.as_deref(), model, mode, are_rejected);
        if delivery == Delivery::Reference && !self.wire.has_references(model) {
            return Err("model-changed");
        }
        if delivery == Delivery::Constant && history.may_have_references {
            self.replace_references(tools, &mut history);
        }
        let choice = self.wire.choice(body);
        let declared = request::declare(self.wire, tools, delivery, &history, &choice, modes)?;
        let (sent, is_miss) = (declared.len(), history.is_miss);
        let report = Report { mode, tools: Some(tools.len()), sent: Some(sent), rounds: None, reason: None, is_miss };
        let mut calls = Calls::new(session, Arc::clone(tools), delivery);
        let prefetched = match mode {
            Mode::Prefetch => request::prefetch(self.wire, &history, &mut calls),
            _ => Prefetched::default(),
        };
        let mut template = Template::new(body, self.wire.history_key());
        if let Some(previous) = &history.previous {
            template.set(self.wire.previous_key(), &json::quoted(previous));
        }
        Ok(Prepared {
            model: model.to_owned(),
            template,
            history,
            declared,
            mark: tools.cache_mark.clone(),
            root: self.root,
            calls,
            splicer: self.wire.splicer(body),
            prefetched,
            report,
            definition_tokens: tools.tokens,
        })
    }
}

#[cfg(test)]
mod tests;
