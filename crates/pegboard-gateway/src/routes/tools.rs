//! Listing and calling tools.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use pegboard_core::Vectors;
use pegboard_discovery::{Answer, DialectName, Listed, Reply, Session, Target, estimate_tokens};
use pegboard_upstream::{
    ListKind,
    era::Era,
    json::{Fields, Raw, SharedRaw, raw},
    rpc::RpcError,
};
use serde_json::{Value, json, value::RawValue};
use tracing::{Instrument as _, Span};

use crate::{
    bounds::required,
    catalog::directory,
    doors::legacy_form,
    exchange::{Exchange, text_result},
    forward::calls::{Forward, ForwardError},
    gateway::Gateway,
    metrics::Refused,
    middleware::{Blocked, CallLevel, Middleware},
    settings::Profile,
    trace,
};

impl Gateway {
    pub(crate) async fn list_tools(&self, exchange: &Exchange, params: &Fields) -> Result<Raw, RpcError> {
        self.ready().await;
        let is_legacy = exchange.era == Era::Legacy;
        let shows_everything = self.shows_everything(exchange);
        let items: Vec<SharedRaw> = self.with_tools(exchange, |tools| {
            if shows_everything { everything(tools) } else { tools.listed().iter().map(listed).collect() }
        });
        self.count_list(exchange, &items, shows_everything);
        let items: Vec<SharedRaw> =
            items.into_iter().map(|item| if is_legacy { legacy_form::tool(item) } else { item }).collect();
        let items: Vec<&RawValue> = items.iter().map(|item| &**item).collect();
        self.page(exchange, ListKind::Tools, &items, params)
    }

    /// Whether the client gets the whole list.
    fn shows_everything(&self, exchange: &Exchange) -> bool {
        let profile = exchange.session.as_ref().map_or_else(|| self.setup().profile, |session| session.profile);
        let dialect = Self::dialect(profile, exchange.era);
        profile == Profile::Passthrough || !self.view(&exchange.viewer, dialect).is_search_on
    }

    pub(crate) async fn call_tool(&self, exchange: &Exchange, params: Fields) -> Result<Raw, RpcError> {
        let name = required(&params, "name")?;
        let arguments = match params.get("arguments").filter(|arguments| arguments.get() != "null") {
            None => json!({}),
            Some(arguments) => serde_json::from_str(arguments.get())
                .map_err(|_| RpcError::new(RpcError::INVALID_PARAMS, "`arguments` must be JSON"))?,
        };
        if !arguments.is_object() {
            return Err(RpcError::new(RpcError::INVALID_PARAMS, "`arguments` must be an object"));
        }
        self.wait_for_tool(exchange, &name, &arguments).await;
        if let Some(refusal) = self.held_back(exchange, &name, &arguments) {
            return Ok(refusal);
        }
        let began = Instant::now();
        let span = if is_search(&name) { trace::search_span(&name) } else { Span::none() };
        // Asked for before the conversation is held: others may go on with it meanwhile.
        let vectors = match self.with_tools(exchange, |tools| tools.vectors_for(&name, &arguments)) {
            Some(soon) => soon.instrument(span.clone()).await,
            None => Vectors::default(),
        };
        let called = |tools: &mut Session| (tools.call_with(&name, &arguments, &vectors), tools.lead().cloned());
        let (answer, lead) = span.in_scope(|| self.with_tools(exchange, called));
        note_search(&span, &answer);
        if answer.target.is_some() || is_meta(&name) {
            Span::current().record("tool", &name);
        }
        drop(span);
        if answer.is_misfit {
            self.metrics.refused(Refused::Arguments);
        }
        for searched in &answer.searched {
            self.metrics.searched(!searched.hits.is_empty(), began.elapsed());
        }
        self.record(exchange, &answer);
        if self.setup().is_search_logged {
            log_searches(&answer, began);
        }
        if answer.list_changed
            && let Some(session) = &exchange.session
        {
            self.keep_if_changed(session).await;
            session.announce_with("notifications/tools/list_changed", &exchange.outlet).await;
        }
        match answer.target {
            Some(target) => {
                let result = self.call_target(exchange, &name, params, target).await;
                if let (Some(lead), Ok(result)) = (lead, &result)
                    && has_worked(result)
                {
                    self.learn(exchange, &lead);
                }
                result
            }
            None => Ok(self.reply(exchange, &answer)),
        }
    }

    /// Waits for servers that are starting, unless the tool is there already.
    async fn wait_for_tool(&self, exchange: &Exchange, name: &str, arguments: &Value) {
        let is_there = self.with_tools(exchange, |tools| tools.find(inner_name(name, arguments)).is_some());
        if !is_there {
            self.ready().await;
        }
    }

    /// The answer of a meta-tool, or a refusal.
    fn reply(&self, exchange: &Exchange, answer: &Answer) -> Raw {
        let text = match &answer.reply {
            Reply::Text(text) => text.clone(),
            Reply::Json(value) => value.to_string(),
        };
        let mut result = text_result(&text, answer.is_error);
        if let Some(metadata) = &answer.metadata {
            result.set("_meta", raw(&json!({"pegboard/metadata": metadata})));
        }
        if exchange.era == Era::Modern {
            result.set("resultType", raw("complete"));
        }
        result.to_raw()
    }

    /// Calls a server's tool.
    async fn call_target(
        &self,
        exchange: &Exchange,
        called: &str,
        mut params: Fields,
        target: Target,
    ) -> Result<Raw, RpcError> {
        let server: Arc<str> = target.server.unwrap_or_default().into();
        let setup = self.setup();
        let steps = setup.middleware_of(&server);
        if let Some(Blocked { rule, is_logged }) =
            steps.iter().find_map(|step| step.forbids(&target.name, &target.arguments))
        {
            if is_logged {
                tracing::warn!(server = %server, tool = target.name, rule = rule.name, "call blocked");
            }
            return Err(RpcError::new(RpcError::INVALID_PARAMS, rule.message.clone()));
        }
        // Arguments pass as they were written, not as they were understood.
        let given = params.get("arguments").map(ToOwned::to_owned);
        let inner = given.as_deref().and_then(Fields::of).filter(|_| is_meta(called));
        let inner = inner.map(|inner| inner.get("arguments").map(ToOwned::to_owned));
        match inner {
            Some(Some(arguments)) if arguments.get().starts_with('{') => params.set("arguments", arguments),
            Some(_) => params.set("arguments", raw(&target.arguments)),
            None => {}
        }
        params.set("name", raw(&target.name));
        let mirrored = self.mirrored_values(&server, &target.name, &target.arguments);
        let (name, method) = (Some(target.name.clone()), "tools/call");
        let forward = Forward { server: Arc::clone(&server), method, params, name, mirrored };
        let began = Instant::now();
        let span =
            trace::call_span(&server, &target.name, forward.params.get("arguments").map_or(0, |it| it.get().len()));
        let result = self.forward(exchange, forward).instrument(span.clone()).await;
        self.count_call(&server, began, &result);
        span.in_scope(|| {
            note_call(&span, &result);
            log_call(steps, &server, &target.name, &target.arguments, began, result.as_ref().err());
        });
        drop(span);
        match result {
            Ok(result) => Ok(self.with_shown_links(&server, result)),
            Err(error @ (ForwardError::Rpc(_) | ForwardError::Cut)) => Err(error.into_rpc(&server)),
            // The model can do something about a server that is away; its client cannot.
            Err(error @ (ForwardError::Lost(_) | ForwardError::Refused(_))) => {
                let text = match &error {
                    ForwardError::Refused(refusal) => format!("`{called}` was not called: {refusal}"),
                    error => format!("server `{server}`: {error}"),
                };
                let mut result = text_result(&text, true);
                if exchange.era == Era::Modern {
                    result.set("resultType", raw("complete"));
                }
                Ok(result.to_raw())
            }
        }
    }

    /// Takes note of what a list spared its client.
    fn count_list(&self, exchange: &Exchange, items: &[SharedRaw], shows_everything: bool) {
        self.metrics.lists.fetch_add(1, Ordering::Relaxed);
        if shows_everything {
            return;
        }
        let tokens = |items: &[SharedRaw]| items.iter().map(|item| estimate_tokens(item.get()) as u64).sum::<u64>();
        let version = self.with_tools(exchange, |tools| tools.catalog().version());
        let all = || tokens(&self.with_tools(exchange, |tools| everything(tools)));
        let viewer = &exchange.viewer;
        self.metrics.saved((version, viewer.caller, viewer.setup), tokens(items), all);
    }

    /// Takes note of a call.
    fn count_call(&self, server: &str, began: Instant, result: &Result<Raw, ForwardError>) {
        if matches!(result, Err(ForwardError::Refused(_))) {
            return;
        }
        let calls = self.metrics.server(server);
        calls.times.add(began.elapsed());
        match result {
            Ok(result) if is_error(result) => calls.errors.fetch_add(1, Ordering::Relaxed),
            Ok(_) => 0,
            Err(_) => calls.failed.fetch_add(1, Ordering::Relaxed),
        };
    }

    fn mirrored_values(&self, server: &str, tool: &str, arguments: &Value) -> Vec<(String, String)> {
        let directory = self.directory();
        if !directory.mirrors_any() {
            return Vec::new();
        }
        let parameters = directory.mirrored(server, tool).iter();
        parameters.filter_map(|one| Some((one.header.clone(), one.value(arguments)?))).collect()
    }

    /// A result whose links to resources can be read here.
    fn with_shown_links(&self, server: &str, result: Raw) -> Raw {
        if !result.get().contains("\"resource_link\"") {
            return result;
        }
        let Some(mut fields) = Fields::of(&result) else { return result };
        let Some(contents) = fields.read::<Vec<Fields>>("content") else { return result };
        let directory = self.directory();
        let renamed = |mut content: Fields| {
            if content.text("type").as_deref() == Some("resource_link")
                && let Some(uri) = content.text("uri")
            {
                content.set("uri", raw(&directory.uris.shown(server, &uri)));
            }
            content
        };
        let contents: Vec<Fields> = contents.into_iter().map(renamed).collect();
        fields.set("content", raw(&contents));
        fields.to_raw()
    }
}

/// Whether a result says that the tool failed. Large ones are not read for that.
fn is_error(result: &RawValue) -> bool {
    const LARGE: usize = 64 << 10;
    let text = result.get();
    text.len() < LARGE
        && text.contains("\"isError\"")
        && Fields::of(result).and_then(|fields| fields.read("isError")) == Some(true)
}

/// Whether a tool has done its work, and neither failed nor asks for more.
fn has_worked(result: &RawValue) -> bool {
    !is_error(result) && !result.get().contains("\"input_required\"")
}

/// The tool that a call means: the one that a meta-tool is to call, or the one that it names.
pub(crate) fn inner_name<'a>(name: &'a str, arguments: &'a Value) -> &'a str {
    arguments.get("name").and_then(Value::as_str).filter(|_| is_meta(name)).unwrap_or(name)
}

/// Whether a name is one of a meta-tool, in any dialect.
fn is_meta(name: &str) -> bool {
    DialectName::ALL.iter().any(|dialect| dialect.meta_names().contains(&name))
}

/// Whether a name is one of a meta-tool that searches.
fn is_search(name: &str) -> bool {
    (name.contains("search") || name.contains("Search")) && is_meta(name)
}

/// Notes in its span what a search found.
fn note_search(span: &Span, answer: &Answer) {
    if span.is_disabled() {
        return;
    }
    let hits: usize = answer.searched.iter().map(|searched| searched.hits.len()).sum();
    let outcome = match (answer.is_error, hits) {
        (true, _) => "error",
        (false, 0) => "miss",
        (false, _) => "hit",
    };
    span.record("outcome", outcome);
    span.record("hits", hits);
    span.record("tools", answer.searched.iter().map(|searched| searched.tools).max().unwrap_or_default());
    let bytes = match &answer.reply {
        Reply::Text(text) => text.len(),
        Reply::Json(value) => value.to_string().len(),
    };
    span.record("bytes", bytes);
}

/// Notes in its span what a call came to.
fn note_call(span: &Span, result: &Result<Raw, ForwardError>) {
    if span.is_disabled() {
        return;
    }
    match result {
        Ok(result) => {
            span.record("outcome", if is_error(result) { "error" } else { "ok" });
            span.record("bytes", result.get().len());
        }
        Err(_) => {
            span.record("outcome", "failed");
        }
    }
}

fn everything(tools: &Session) -> Vec<SharedRaw> {
    let selection = tools.selection();
    let visible = tools.catalog().iter().filter(|tool| selection.allows(tool));
    visible.map(|tool| directory::definition(tool, &tools.name_of(tool))).collect()
}

/// What a client is told of a visible tool.
fn listed(listed: &Listed<'_>) -> SharedRaw {
    match listed.tool {
        Some(tool) => directory::definition(tool, &listed.definition.name),
        None => {
            let mut definition = listed.definition.to_json();
            if listed.definition.name.contains("search") || listed.definition.name.contains("Search") {
                definition["annotations"] = json!({"readOnlyHint": true, "openWorldHint": false});
            }
            raw(&definition).into()
        }
    }
}

fn log_searches(answer: &Answer, began: Instant) {
    for searched in &answer.searched {
        tracing::info!(
            target: "pegboard::search",
            "🔍 Tool search query: {:?}\n   Index size: {} tools\n   Matches before threshold: {}\n   \
             Matches after threshold: {}\n   Search time: {}ms",
            searched.query, searched.tools, searched.matches, searched.hits.len(), began.elapsed().as_millis()
        );
    }
}

fn log_call(
    steps: &[Middleware],
    server: &str,
    tool: &str,
    arguments: &Value,
    began: Instant,
    error: Option<&ForwardError>,
) {
    for step in steps {
        let Middleware::Logging { has_arguments, level } = step else { continue };
        let ms = began.elapsed().as_millis();
        let arguments = if *has_arguments { arguments.to_string() } else { String::new() };
        match (error, level) {
            (Some(error), CallLevel::Error) => tracing::error!(server, tool, ms, arguments, %error, "call failed"),
            (Some(error), _) => tracing::warn!(server, tool, ms, arguments, %error, "call failed"),
            (None, CallLevel::Trace) => tracing::trace!(server, tool, ms, arguments, "call"),
            (None, CallLevel::Debug) => tracing::debug!(server, tool, ms, arguments, "call"),
            (None, CallLevel::Info) => tracing::info!(server, tool, ms, arguments, "call"),
            (None, CallLevel::Warn) => tracing::warn!(server, tool, ms, arguments, "call"),
            (None, CallLevel::Error) => tracing::error!(server, tool, ms, arguments, "call"),
        }
    }
}
