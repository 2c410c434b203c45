//! The methods that clients call.

use std::{sync::Arc, time::Instant};

use pegboard_upstream::{
    Call, ListKind, State, Upstream,
    era::{Era, MODERN_VERSION},
    json::{Fields, Raw, is_unambiguous, raw},
    rpc::{Id, RpcError},
};
use serde_json::{json, value::RawValue};

use crate::{
    bounds::{self, required},
    catalog::directory::Entry,
    exchange::{Exchange, level},
    forward::calls::Forward,
    gateway::Gateway,
    lock, trace,
};

/// How long clients may keep a list without asking again, in milliseconds.
const LIST_TTL: u64 = 30_000;

impl Gateway {
    /// Answers one request other than `initialize`.
    ///
    /// # Errors
    /// What the client is told when it cannot be answered.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        exchange: &Exchange,
        id: &Id,
        method: &str,
        params: Option<Raw>,
    ) -> Result<Raw, RpcError> {
        let began = Instant::now();
        let outcome = self.dispatch(exchange, id, method, params).await;
        trace::answered(&outcome, began);
        outcome
    }

    async fn dispatch(
        self: &Arc<Self>,
        exchange: &Exchange,
        id: &Id,
        method: &str,
        params: Option<Raw>,
    ) -> Result<Raw, RpcError> {
        if params.as_deref().is_some_and(|params| !is_unambiguous(params)) {
            let message = "`params` must not give a key twice, nor be nested without end";
            return Err(RpcError::new(RpcError::INVALID_PARAMS, message));
        }
        let params = match params.as_deref() {
            Some(params) => Fields::of(params)
                .ok_or_else(|| RpcError::new(RpcError::INVALID_PARAMS, "`params` must be an object"))?,
            None => Fields::new(),
        };
        bounds::check_request(id, &params, exchange.progress.as_ref())?;
        match (method, exchange.era) {
            ("tools/list", _) => self.list_tools(exchange, &params).await,
            ("tools/call", _) => self.call_tool(exchange, params).await,
            ("prompts/list", _) => self.list(exchange, ListKind::Prompts, &params).await,
            ("prompts/get", _) => self.get_prompt(exchange, params).await,
            ("resources/list", _) => self.list(exchange, ListKind::Resources, &params).await,
            ("resources/templates/list", _) => self.list(exchange, ListKind::Templates, &params).await,
            ("resources/read", _) => self.read_resource(exchange, params).await,
            ("completion/complete", _) => self.complete(exchange, params).await,
            ("server/discover", Era::Modern) => Ok(self.discover(exchange).await),
            ("subscriptions/listen", Era::Modern) => self.listen(exchange, id, &params).await,
            ("ping", Era::Legacy) => Ok(raw(&json!({}))),
            ("logging/setLevel", Era::Legacy) => self.set_level(exchange, &params).await,
            ("resources/subscribe", Era::Legacy) => self.subscribe(exchange, &params).await,
            ("resources/unsubscribe", Era::Legacy) => self.unsubscribe(exchange, &params).await,
            _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, format!("no method `{}`", shorten(method)))),
        }
    }

    async fn discover(&self, exchange: &Exchange) -> Raw {
        self.almost_ready().await;
        let profile = self.setup().profile;
        let dialect = Self::dialect(profile, Era::Modern);
        let view = self.view(&exchange.viewer, dialect);
        let mut result = Fields::new().with("resultType", "complete").with("supportedVersions", &[MODERN_VERSION]);
        result.set("capabilities", Self::capabilities());
        if let Some(instructions) = self.instructions(&view, profile) {
            result.set("instructions", raw(&instructions));
        }
        self.add_cache_hints(&mut result);
        self.sign(&mut result);
        result.to_raw()
    }

    /// Lets a result say who made it, as modern results do.
    fn sign(&self, result: &mut Fields) {
        let own = Fields::new().with("io.modelcontextprotocol/serverInfo", &Self::server_info());
        result.set("_meta", own.to_raw());
    }

    fn add_cache_hints(&self, result: &mut Fields) {
        // What is still to come must not be missed for long.
        result.set("ttlMs", raw(&if self.is_started() { LIST_TTL } else { 0 }));
        result.set("cacheScope", raw(if self.is_private() { "private" } else { "public" }));
    }

    /// One page of a list, as the client's era wants it.
    pub(crate) fn page(
        &self,
        exchange: &Exchange,
        kind: ListKind,
        items: &[&RawValue],
        params: &Fields,
    ) -> Result<Raw, RpcError> {
        let size = match self.setup().page_size {
            0 => usize::MAX,
            size => size,
        };
        let wrong = || RpcError::new(RpcError::INVALID_PARAMS, "`cursor` is none of ours");
        let start = match params.get("cursor").filter(|cursor| cursor.get() != "null") {
            None => 0,
            Some(_) => {
                let cursor = params.text("cursor").ok_or_else(wrong)?;
                let start = cursor.parse::<usize>().map_err(|_| wrong())?;
                if start == 0 || start >= items.len().max(1) {
                    return Err(wrong());
                }
                start
            }
        };
        let end = start.saturating_add(size).min(items.len());
        let mut result = Fields::new();
        if exchange.era == Era::Modern {
            result.set("resultType", raw("complete"));
        }
        result.set(kind.field(), raw(&items[start..end]));
        if end < items.len() {
            result.set("nextCursor", raw(&end.to_string()));
        }
        if exchange.era == Era::Modern {
            self.add_cache_hints(&mut result);
            self.sign(&mut result);
        }
        Ok(result.to_raw())
    }

    async fn list(&self, exchange: &Exchange, kind: ListKind, params: &Fields) -> Result<Raw, RpcError> {
        self.ready().await;
        let directory = self.directory();
        let visible = directory.entries(kind).iter().filter(|entry| is_visible(exchange, entry));
        let items: Vec<&RawValue> = visible.map(|entry| &*entry.raw).collect();
        self.page(exchange, kind, &items, params)
    }

    async fn get_prompt(&self, exchange: &Exchange, mut params: Fields) -> Result<Raw, RpcError> {
        let name = required(&params, "name")?;
        self.ready().await;
        let directory = self.directory();
        let entry = directory.prompt(&name).filter(|entry| is_visible(exchange, entry));
        let Some(entry) = entry else {
            let names = directory.entries(ListKind::Prompts).iter().filter(|entry| is_visible(exchange, entry));
            let nearest = pegboard_core::naming::nearest(&name, names.map(|entry| entry.shown.as_str()), 3);
            return Err(RpcError::new(RpcError::INVALID_PARAMS, unknown("prompt", &name, &nearest)));
        };
        params.set("name", raw(&entry.key));
        let (server, name) = (Arc::clone(&entry.server), Some(entry.key.clone()));
        let forward =
            Forward { server: Arc::clone(&server), method: "prompts/get", params, name, mirrored: Vec::new() };
        self.forward(exchange, forward).await.map_err(|error| error.into_rpc(&server))
    }

    async fn read_resource(&self, exchange: &Exchange, mut params: Fields) -> Result<Raw, RpcError> {
        let uri = required(&params, "uri")?;
        let (server, own) = self.resource(exchange, &uri).await?;
        params.set("uri", raw(&own));
        let (name, method) = (Some(own.clone()), "resources/read");
        let forward = Forward { server: Arc::clone(&server), method, params, name, mirrored: Vec::new() };
        let result = self.forward(exchange, forward).await;
        let result = result.map_err(|error| not_found(error.into_rpc(&server), exchange, &uri))?;
        Ok(if own == uri { result } else { self.with_shown_uris(&server, result) })
    }

    /// A result whose contents carry the URIs that clients know them by.
    fn with_shown_uris(&self, server: &str, result: Raw) -> Raw {
        let Some(mut fields) = Fields::of(&result) else { return result };
        let Some(contents) = fields.read::<Vec<Fields>>("contents") else { return result };
        let directory = self.directory();
        let renamed = |mut content: Fields| {
            if let Some(uri) = content.text("uri") {
                content.set("uri", raw(&directory.uris.shown(server, &uri)));
            }
            content
        };
        let contents: Vec<Fields> = contents.into_iter().map(renamed).collect();
        fields.set("contents", raw(&contents));
        fields.to_raw()
    }

    /// The server and its own URI behind the one that a client uses.
    async fn resource(&self, exchange: &Exchange, uri: &str) -> Result<(Arc<str>, String), RpcError> {
        self.ready().await;
        let found = self.directory().resource(uri);
        let found = found.filter(|(server, _)| exchange.viewer.selection.allows_server(server));
        let missing = || {
            let code = RpcError::RESOURCE_NOT_FOUND;
            not_found(RpcError::new(code, format!("no resource `{}`", shorten(uri))), exchange, uri)
        };
        found.ok_or_else(missing)
    }

    async fn complete(&self, exchange: &Exchange, mut params: Fields) -> Result<Raw, RpcError> {
        let wrong = |message: &str| RpcError::new(RpcError::INVALID_PARAMS, message);
        let mut reference = params.object("ref").ok_or_else(|| wrong("`ref` is required"))?;
        self.ready().await;
        let directory = self.directory();
        let allows = |server: &str| exchange.viewer.selection.allows_server(server);
        let server = match reference.text("type").as_deref() {
            Some("ref/prompt") => {
                let name = required(&reference, "name")?;
                let entry = directory.prompt(&name).filter(|entry| allows(&entry.server));
                let entry = entry.ok_or_else(|| wrong(&unknown("prompt", &name, &[])))?;
                reference.set("name", raw(&entry.key));
                Arc::clone(&entry.server)
            }
            Some("ref/resource") => {
                let uri = required(&reference, "uri")?;
                let mut templates = directory.entries(ListKind::Templates).iter();
                let template = templates.find(|entry| entry.shown == uri || entry.key == uri);
                let found = template.map(|entry| (Arc::clone(&entry.server), entry.key.clone()));
                let found = found.or_else(|| directory.resource(&uri)).filter(|(server, _)| allows(server));
                let (server, own) = found.ok_or_else(|| wrong(&unknown("resource", &uri, &[])))?;
                reference.set("uri", raw(&own));
                server
            }
            _ => return Err(wrong("`ref.type` must be `ref/prompt` or `ref/resource`")),
        };
        params.set("ref", reference.to_raw());
        let method = "completion/complete";
        let forward = Forward { server: Arc::clone(&server), method, params, name: None, mirrored: Vec::new() };
        self.forward(exchange, forward).await.map_err(|error| error.into_rpc(&server))
    }

    async fn set_level(&self, exchange: &Exchange, params: &Fields) -> Result<Raw, RpcError> {
        let wanted = required(params, "level")?;
        if level(&wanted).is_none() {
            return Err(RpcError::new(RpcError::INVALID_PARAMS, format!("no log level `{}`", shorten(&wanted))));
        }
        if let Some(session) = &exchange.session {
            session.set_log_level(&wanted);
            self.keep(session).await;
        }
        self.fleet.servers().iter().for_each(|upstream| self.tell_level(upstream));
        Ok(raw(&json!({})))
    }

    /// Tells a legacy server the most talkative level that any client has set; each client
    /// hears its own.
    pub(crate) fn tell_level(&self, upstream: &Arc<Upstream>) {
        let levels = self.sessions.all().into_iter().filter_map(|session| session.chosen_log_level());
        let Some(lowest) = levels.min_by_key(|one| level(one)) else { return };
        let is_told =
            upstream.hello().is_some_and(|hello| hello.era == Era::Legacy && hello.capabilities.has("logging"));
        if is_told && upstream.state() == State::Ready {
            let upstream = Arc::clone(upstream);
            tokio::spawn(async move {
                let timeout = upstream.config().timeouts.call;
                let params = || Fields::new().with("level", &lowest);
                let _ = upstream.call(|_| Call::new("logging/setLevel", params(), timeout)).await;
            });
        }
    }

    async fn subscribe(&self, exchange: &Exchange, params: &Fields) -> Result<Raw, RpcError> {
        let uri = required(params, "uri")?;
        self.resource(exchange, &uri).await?;
        let Some(session) = exchange.session.as_ref().filter(|session| session.is_lasting) else {
            return Err(RpcError::new(RpcError::INVALID_REQUEST, "a subscription needs a session; initialize first"));
        };
        let is_new = lock(&session.subscriptions).add(&uri, &self.subscription_bytes, exchange.party())?;
        if is_new {
            self.watches.add(self, &uri).await;
            self.keep(session).await;
        }
        Ok(raw(&json!({})))
    }

    async fn unsubscribe(&self, exchange: &Exchange, params: &Fields) -> Result<Raw, RpcError> {
        let uri = required(params, "uri")?;
        self.resource(exchange, &uri).await?;
        if let Some(session) = &exchange.session
            && lock(&session.subscriptions).remove(&uri)
        {
            self.watches.remove(self, &uri).await;
            self.keep(session).await;
        }
        Ok(raw(&json!({})))
    }
}

fn is_visible(exchange: &Exchange, entry: &Entry) -> bool {
    exchange.viewer.selection.allows_server(&entry.server)
}

fn unknown(what: &str, name: &str, nearest: &[&str]) -> String {
    match nearest {
        [] => format!("no {what} `{}`", shorten(name)),
        nearest => format!("no {what} `{}`; nearest names: {}", shorten(name), nearest.join(", ")),
    }
}

/// A missing resource as the client's era says it.
fn not_found(mut error: RpcError, exchange: &Exchange, uri: &str) -> RpcError {
    let names_a_uri = Fields::of_optional(error.data.as_deref()).has("uri");
    match exchange.era {
        Era::Modern if error.code == RpcError::RESOURCE_NOT_FOUND => {
            error.code = RpcError::INVALID_PARAMS;
            error.data.get_or_insert_with(|| raw(&json!({"uri": uri})));
        }
        Era::Legacy if error.code == RpcError::INVALID_PARAMS && names_a_uri => {
            error.code = RpcError::RESOURCE_NOT_FOUND;
        }
        _ => {}
    }
    error
}

/// Something that a client sent, fit to be sent back.
pub(crate) fn shorten(text: &str) -> String {
    pegboard_core::text::brief(text, 200)
}
