//! One conversation's tool state.

mod follow;
mod saved;

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use pegboard_core::{Catalog, Ranker, Selection, Tool, selection};
use serde_json::Value;

use self::saved::FORMAT;
use crate::{
    arguments::CalledAs,
    dialects::{Dialect, DialectName, View},
    host::HostTool,
    names::{Names, echo},
    outcome::{Effect, Reply, Searched, ToolDefinition},
    prompt,
    settings::Settings,
    usage::{Lead, Step, Trail},
};

/// Why a session cannot begin or be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A dialect that selects among tools was given none.
    #[error("tools is required")]
    NoTools,
    /// A saved session that this build cannot read.
    #[error("a session of format {found}, this build reads {FORMAT}")]
    Format {
        /// What it says of itself.
        found: String,
    },
    /// A saved session of another dialect.
    #[error("a session of the dialect `{found}`")]
    OtherDialect {
        /// Which.
        found: String,
    },
    /// A saved session that lacks something.
    #[error("the saved session has no `{field}`")]
    Incomplete {
        /// What it lacks.
        field: &'static str,
    },
}

/// What a call leads to: a catalog tool, or something that the host does.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The identity of the catalog tool; `None` for what the host does itself.
    pub id: Option<String>,
    /// Its server.
    pub server: Option<String>,
    /// Its own name there.
    pub name: String,
    /// The arguments to call it with.
    pub arguments: Value,
}

/// Tools for a provider that searches them by itself.
#[derive(Clone, Debug)]
pub struct Native {
    /// What the model sees from the start.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// What it may find.
    pub deferred: Vec<ToolDefinition>,
    /// The search tool, for models that call one instead of searching inside.
    pub search: Option<Arc<ToolDefinition>>,
}

/// What a call led to.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What the model gets to read; for a catalog tool, nothing yet.
    pub reply: Reply,
    /// What user interfaces get beside it.
    pub metadata: Option<Value>,
    /// Whether the call failed.
    pub is_error: bool,
    /// The catalog tool to call, if that is what it led to.
    pub target: Option<Target>,
    /// Whether the visible list is another one now.
    pub list_changed: bool,
    /// Tools that had to give way to what was loaded, by the cap on loaded tools.
    pub evicted: Vec<String>,
    /// The searches that it took.
    pub searched: Vec<Searched>,
    /// Whether it failed because the arguments do not fit the tool's schema.
    pub is_misfit: bool,
}

/// A catalog tool that is visible, as the model is told of it. Made once, so that listing
/// costs nothing but pointers.
#[derive(Clone, Debug)]
struct Shown {
    tool: Arc<Tool>,
    definition: Arc<ToolDefinition>,
}

impl Shown {
    fn new(tool: &Arc<Tool>, name: &str) -> Self {
        Self { tool: Arc::clone(tool), definition: Arc::new(ToolDefinition::of(tool, name)) }
    }

    fn name(&self) -> &str {
        &self.definition.name
    }

    fn listed(&self) -> Listed<'_> {
        Listed { definition: &self.definition, tool: Some(&self.tool) }
    }
}

/// A tool that the model sees.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// What the model is told of it.
    pub definition: &'a Arc<ToolDefinition>,
    /// The catalog tool that it is; `None` for a meta-tool.
    pub tool: Option<&'a Arc<Tool>>,
}

#[derive(Clone, Debug)]
struct Loaded {
    shown: Shown,
    is_pinned: bool,
    /// When it was loaded or called last.
    used: u64,
}

/// A loaded tool that the catalog does not have now. It is loaded again when it comes back:
/// a server that restarts has no tools for a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Away {
    id: String,
    shown_as: String,
    is_pinned: bool,
    used: u64,
}

impl Away {
    /// Those that are remembered; the oldest give way.
    const MOST: usize = 1000;

    fn of(loaded: &Loaded) -> Self {
        Self {
            id: loaded.shown.tool.id().to_owned(),
            shown_as: loaded.shown.name().to_owned(),
            is_pinned: loaded.is_pinned,
            used: loaded.used,
        }
    }

    /// The tool, if it is back.
    fn find(&self, catalog: &Catalog, selection: &Selection) -> Option<Loaded> {
        let tool = catalog.find(&self.id).filter(|tool| selection.allows(tool))?;
        Some(Loaded { shown: Shown::new(tool, &self.shown_as), is_pinned: self.is_pinned, used: self.used })
    }
}

/// What is visible whatever is loaded, for one snapshot.
#[derive(Debug, Default)]
struct Fixed {
    /// Tools that are never hidden, or the first that a gateway exposes.
    first: Vec<Shown>,
    meta: Vec<Arc<ToolDefinition>>,
    /// Always-on categories, then pre-discovered tools.
    always: Vec<Shown>,
    reminder: Option<String>,
}

/// Which tools one conversation sees, and under which names.
#[derive(Debug)]
pub struct Session {
    dialect: DialectName,
    settings: Settings,
    catalog: Catalog,
    selection: Selection,
    ranker: Arc<dyn Ranker>,
    names: Arc<Names>,
    categories: Vec<String>,
    pre_discovered: Vec<String>,
    /// Identities of pre-discovered tools that were put away.
    removed: BTreeSet<String>,
    loaded: Vec<Loaded>,
    away: Vec<Away>,
    /// What a search of the gateway exposes instead of the first tools.
    exposed: Option<Vec<Shown>>,
    fixed: Arc<Fixed>,
    list_changes: u64,
    clock: u64,
    trail: Trail,
    lead: Option<Lead>,
}

impl Session {
    /// A new conversation.
    ///
    /// # Errors
    /// When the dialect needs tools and there are none.
    pub fn new(
        dialect: DialectName,
        settings: Settings,
        catalog: Catalog,
        selection: Selection,
        ranker: Arc<dyn Ranker>,
    ) -> Result<Self, SessionError> {
        let session = Self::expecting(dialect, settings, catalog, selection, ranker);
        if dialect == DialectName::Select && session.selection.count(&session.catalog) == 0 {
            return Err(SessionError::NoTools);
        }
        Ok(session)
    }

    /// [`new`](Self::new) over a catalog that may have no tools yet: they come by
    /// [`update`](Self::update).
    pub fn expecting(
        dialect: DialectName,
        settings: Settings,
        catalog: Catalog,
        selection: Selection,
        ranker: Arc<dyn Ranker>,
    ) -> Self {
        let selection = if settings.output_offloading {
            selection.exempt(HostTool::OUTPUTS.map(HostTool::name))
        } else {
            selection
        };
        let names = Arc::new(Names::new(&catalog, &selection, dialect.meta_names()));
        let mut session = Self {
            dialect,
            settings,
            catalog,
            selection,
            ranker,
            names,
            categories: Vec::new(),
            pre_discovered: Vec::new(),
            removed: BTreeSet::new(),
            loaded: Vec::new(),
            away: Vec::new(),
            exposed: None,
            fixed: Arc::default(),
            list_changes: 0,
            clock: 0,
            trail: Trail::default(),
            lead: None,
        };
        session.fix();
        session
    }

    /// Makes these tools visible from the start. Names that no visible tool has are ignored.
    #[must_use]
    pub fn with_pre_discovered(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.pre_discovered.extend(names);
        self.fix();
        self
    }

    /// What the prompt says there is, instead of what the catalog tells.
    #[must_use]
    pub fn with_categories(mut self, categories: impl IntoIterator<Item = String>) -> Self {
        self.categories.extend(categories);
        self
    }

    /// The dialect in use.
    pub fn dialect(&self) -> &'static dyn Dialect {
        self.dialect.dialect()
    }

    /// Its name.
    pub fn dialect_name(&self) -> DialectName {
        self.dialect
    }

    /// How often the visible list has changed.
    pub fn list_changes(&self) -> u64 {
        self.list_changes
    }

    /// The tools that the model sees now, in their order.
    pub fn visible(&self) -> Vec<Arc<ToolDefinition>> {
        self.listed().into_iter().map(|listed| Arc::clone(listed.definition)).collect()
    }

    /// The same with the catalog tools behind them, for doors that show more than a name,
    /// a description and a schema.
    pub fn listed(&self) -> Vec<Listed<'_>> {
        let (first, rest) = self.shown();
        let meta = self.fixed.meta.iter().map(|definition| Listed { definition, tool: None });
        let mut listed = Vec::with_capacity(first.len() + meta.len() + rest.len());
        listed.extend(first.into_iter().map(Shown::listed));
        if self.dialect().lists_last() {
            listed.extend(rest.into_iter().map(Shown::listed));
            listed.extend(meta);
        } else {
            listed.extend(meta);
            listed.extend(rest.into_iter().map(Shown::listed));
        }
        listed
    }

    /// The name that a catalog tool is called by here.
    pub fn name_of(&self, tool: &Tool) -> String {
        self.names.shown(tool)
    }

    /// The one catalog tool that a call of `name` would mean, visible now or not.
    pub fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.names.find(name)
    }

    /// The catalog that the conversation is about.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What of it may be seen.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// The names of [`visible`](Self::visible).
    pub fn visible_names(&self) -> Vec<String> {
        self.visible().into_iter().map(|tool| tool.name.clone()).collect()
    }

    /// Answers a call of any name: a meta-tool, or a tool of the catalog.
    pub fn call(&mut self, name: &str, arguments: &Value) -> Answer {
        let answer = self.answer(name, arguments);
        self.lead = self.trail.follow(&answer);
        answer
    }

    /// The search that the last call may have come from. Whoever has carried the call out says
    /// so by [`arrive`](Self::arrive).
    pub fn lead(&self) -> Option<&Lead> {
        self.lead.as_ref()
    }

    /// A call has done its work; what there is to learn from that.
    pub fn arrive(&mut self, lead: &Lead) -> Option<Step> {
        self.trail.arrive(lead)
    }

    fn answer(&mut self, name: &str, arguments: &Value) -> Answer {
        let outcome = self.with_view(|view| self.dialect().call(name, arguments, view));
        let Some(outcome) = outcome else { return self.call_catalog_tool(name, arguments) };
        let changes_list =
            outcome.effects.iter().any(|effect| !matches!(effect, Effect::Invoke { .. } | Effect::Host { .. }));
        let before = changes_list.then(|| self.visible_names());
        let mut answer = Answer {
            reply: outcome.reply,
            metadata: outcome.metadata,
            is_error: outcome.is_error,
            target: None,
            list_changed: false,
            evicted: Vec::new(),
            searched: outcome.searched,
            is_misfit: false,
        };
        for effect in outcome.effects {
            match effect {
                Effect::Load(tools) => answer.evicted.extend(self.load(&tools)),
                Effect::Unload(names) => self.unload(&names),
                Effect::Replace(tools) => self.expose(&tools),
                Effect::Invoke { tool, arguments } => self.invoke(&tool, arguments, true, &mut answer),
                Effect::Host { tool, arguments } => {
                    let name = tool.name().to_owned();
                    answer.target = Some(Target { id: None, server: None, name, arguments });
                }
            }
        }
        answer.list_changed = before.is_some_and(|before| before != self.visible_names());
        self.list_changes += u64::from(answer.list_changed);
        answer
    }

    /// A call of a tool that is not a meta-tool. One that is not loaded runs all the same:
    /// hiding saves context, it is no permission.
    fn call_catalog_tool(&mut self, name: &str, arguments: &Value) -> Answer {
        let (first, rest) = self.shown();
        let loaded = first.iter().chain(&rest).find(|shown| shown.name() == name).map(|shown| Arc::clone(&shown.tool));
        let mut answer = Answer {
            reply: Reply::Text(String::new()),
            metadata: None,
            is_error: false,
            target: None,
            list_changed: false,
            evicted: Vec::new(),
            searched: Vec::new(),
            is_misfit: false,
        };
        let is_loaded = loaded.is_some();
        let tool = loaded.or_else(|| self.names.find(name));
        let refused = tool.as_ref().and_then(|tool| self.with_view(|view| self.dialect().refuse(tool, view)));
        if let Some(refused) = refused {
            answer.reply = refused.reply;
            answer.is_error = true;
            return answer;
        }
        match tool {
            Some(tool) if !is_loaded && !self.settings.run_unloaded => {
                let definition = ToolDefinition::of(&tool, &self.names.shown(&tool)).to_json();
                answer.reply =
                    Reply::Text(format!("`{}` is not loaded; load it first. It is: {definition}", echo(name)));
                answer.is_error = true;
            }
            Some(tool) => self.invoke(&tool, arguments.clone(), false, &mut answer),
            None => {
                answer.reply = Reply::Text(self.names.unknown(name));
                answer.is_error = true;
            }
        }
        answer
    }

    /// The names of all tools that may be seen, visible now or not, in catalog order.
    pub fn known_names(&self) -> Vec<String> {
        let tools = self.catalog.iter().filter(|tool| self.selection.allows(tool));
        tools.map(|tool| self.names.shown(tool)).collect()
    }

    /// What the system prompt says about finding tools.
    pub fn prompt(&self) -> String {
        let categories = match self.categories.as_slice() {
            [] => prompt::categories(&self.catalog, &self.selection),
            given => given.to_vec(),
        };
        let instructions = |categories: &[String]| self.with_view(|view| self.dialect().instructions(view, categories));
        if let Some(template) = &self.settings.prompt_template {
            let listed: Vec<String> = categories.iter().map(|category| format!("- {category}")).collect();
            return prompt::fill(
                template,
                &[("{instructions}", &instructions(&[])), ("{categories}", &listed.join("\n"))],
            );
        }
        let mut text = instructions(&categories);
        if self.settings.strict && !text.is_empty() {
            text.push_str(&format!("\n\n{}", self.dialect().strict_rule()));
        }
        text
    }

    /// What a provider that searches by itself is handed: the tools it sees, those it may
    /// find, and the search tool for models that call one.
    pub fn native(&self) -> Native {
        let shown = || self.fixed.first.iter().chain(&self.fixed.always);
        let is_shown = |tool: &Arc<Tool>| shown().any(|shown| Arc::ptr_eq(&shown.tool, tool));
        let lists = self.dialect().lists_catalog();
        let hidden = self.catalog.iter().filter(|tool| lists && self.selection.allows(tool) && !is_shown(tool));
        let deferred = hidden.map(|tool| ToolDefinition::of(tool, &self.names.shown(tool))).collect();
        let tools = shown().map(|shown| Arc::clone(&shown.definition)).collect();
        Native { tools, deferred, search: self.fixed.meta.first().cloned() }
    }

    /// The name of the tool that searches, where there is one now.
    pub fn search_name(&self) -> Option<&str> {
        self.fixed.meta.first().map(|meta| meta.name.as_str())
    }

    /// A conversation of a sub-agent: the same catalog, at most what this one may see, and
    /// nothing loaded.
    ///
    /// # Errors
    /// When the dialect needs tools and the narrower selection shows none.
    pub fn sub_session(&self, selection: Selection) -> Result<Self, SessionError> {
        let selection = self.selection.narrowed_to(selection);
        let ranker = Arc::clone(&self.ranker);
        let session = Self::new(self.dialect, self.settings.clone(), self.catalog.clone(), selection, ranker)?;
        Ok(session.with_pre_discovered(self.pre_discovered.clone()))
    }

    /// A conversation with the same settings and the same first list that has not begun. It
    /// shares what was worked out for this one, and so costs next to nothing.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            dialect: self.dialect,
            settings: self.settings.clone(),
            catalog: self.catalog.clone(),
            selection: self.selection.clone(),
            ranker: Arc::clone(&self.ranker),
            names: Arc::clone(&self.names),
            categories: self.categories.clone(),
            pre_discovered: self.pre_discovered.clone(),
            removed: self.removed.clone(),
            loaded: Vec::new(),
            away: Vec::new(),
            exposed: None,
            fixed: Arc::clone(&self.fixed),
            list_changes: 0,
            clock: 0,
            trail: Trail::default(),
            lead: None,
        }
    }

    /// Keeps a loaded tool from being evicted; whether it is loaded.
    pub fn pin(&mut self, name: &str) -> bool {
        let loaded = self.loaded.iter_mut().find(|loaded| loaded.shown.name() == name);
        loaded.map(|loaded| loaded.is_pinned = true).is_some()
    }

    /// Calls `work` with what dialects may look at.
    fn with_view<T>(&self, work: impl FnOnce(&View<'_>) -> T) -> T {
        let (first, rest) = self.shown();
        let is_shown = |name: &str| first.iter().chain(&rest).any(|shown| shown.name() == name);
        let is_tool_shown = |tool: &Tool| first.iter().chain(&rest).any(|shown| std::ptr::eq(&*shown.tool, tool));
        let is_removable = |name: &str| {
            let is_loaded = self.loaded.iter().any(|loaded| loaded.shown.name() == name);
            is_loaded
                || (is_shown(name) && self.pre_discovered_tools().iter().any(|tool| self.names.shown(tool) == name))
        };
        work(&View {
            catalog: &self.catalog,
            selection: &self.selection,
            ranker: &*self.ranker,
            names: &self.names,
            settings: &self.settings,
            is_shown: &is_shown,
            is_tool_shown: &is_tool_shown,
            is_removable: &is_removable,
            is_static: &|tool| self.is_static(tool),
        })
    }

    /// Whether a tool is shown whatever was searched for.
    fn is_static(&self, tool: &Tool) -> bool {
        !tool.deferred().unwrap_or_else(|| self.dialect().defers(tool))
    }

    /// Works out what is visible whatever is loaded. Done once for a snapshot.
    fn fix(&mut self) {
        let lists = self.dialect().lists_catalog();
        let mut seen: HashSet<*const Tool> = HashSet::new();
        let mut show =
            |tool: &Arc<Tool>| seen.insert(Arc::as_ptr(tool)).then(|| Shown::new(tool, &self.names.shown(tool)));
        let first: Vec<Shown> = if self.dialect().lists_last() {
            self.with_view(|view| self.dialect().exposed_at_first(view)).iter().filter_map(&mut show).collect()
        } else {
            let tools = self.catalog.iter().filter(|tool| self.selection.allows(tool) && self.is_static(tool));
            tools.filter(|_| lists).filter_map(&mut show).collect()
        };
        let mut always: Vec<Shown> =
            self.catalog.iter().filter(|tool| self.is_always_on(tool)).filter_map(&mut show).collect();
        for name in self.pre_discovered.iter().filter(|_| lists) {
            let tools = self.names.resolve(name);
            let kept = tools.iter().filter(|tool| !self.removed.contains(tool.id()));
            always.extend(kept.filter_map(&mut show));
        }
        let meta = self.with_view(|view| self.dialect().meta_tools(view)).into_iter().map(Arc::new).collect();
        let mut reminder = self.with_view(|view| self.dialect().reminder(view));
        if let (Some(text), Some(template)) = (&mut reminder, &self.settings.reminder_template) {
            let names = |view: &View<'_>| view.deferred().map(|tool| view.names.shown(tool)).collect::<Vec<_>>();
            *text = prompt::fill(template, &[("{names}", &self.with_view(names).join("\n"))]);
        }
        self.fixed = Arc::new(Fixed { first, meta, always, reminder });
    }

    /// The catalog tools that are visible, each once: the first ones, and behind them the
    /// always-on categories, the pre-discovered tools and the loaded ones in the order of
    /// their loading.
    fn shown(&self) -> (Vec<&Shown>, Vec<&Shown>) {
        let first: Vec<&Shown> = self.exposed.as_ref().unwrap_or(&self.fixed.first).iter().collect();
        let is_first = |shown: &&Shown| !first.iter().any(|other| Arc::ptr_eq(&other.tool, &shown.tool));
        let rest = self.fixed.always.iter().chain(self.loaded.iter().map(|loaded| &loaded.shown));
        // A gateway's search may expose what is shown behind it as well.
        let rest: Vec<&Shown> = if self.exposed.is_some() { rest.filter(is_first).collect() } else { rest.collect() };
        (first, rest)
    }

    fn expose(&mut self, tools: &[(Arc<Tool>, String)]) {
        self.exposed = Some(tools.iter().map(|(tool, name)| Shown::new(tool, name)).collect());
    }

    fn is_always_on(&self, tool: &Tool) -> bool {
        let is_special = selection::is_always_on(tool);
        let is_reader = HostTool::OUTPUTS.iter().any(|reader| reader.name() == tool.name());
        let reads_outputs = self.settings.output_offloading && tool.is_own() && is_reader;
        (is_special || reads_outputs) && self.selection.allows(tool)
    }

    /// Loads tools; the names of those that had to give way.
    fn load(&mut self, tools: &[(Arc<Tool>, String)]) -> Vec<String> {
        if !self.dialect().lists_catalog() {
            return Vec::new();
        }
        for (tool, name) in tools {
            self.clock += 1;
            let used = self.clock;
            let fixed = self.fixed.first.iter().chain(&self.fixed.always);
            let is_fixed = self.exposed.is_none() && fixed.into_iter().any(|shown| Arc::ptr_eq(&shown.tool, tool));
            // The same tool under the same name: comparing addresses first is cheap.
            let is_it = |loaded: &&mut Loaded| Arc::ptr_eq(&loaded.shown.tool, tool) && loaded.shown.name() == name;
            match self.loaded.iter_mut().find(is_it) {
                Some(loaded) => loaded.used = used,
                None if is_fixed => {}
                None => self.loaded.push(Loaded { shown: Shown::new(tool, name), is_pinned: false, used }),
            }
        }
        self.evict()
    }

    /// Lets the least recently used tools go until the cap is kept. The order of the others
    /// stays, and pinned tools stay.
    fn evict(&mut self) -> Vec<String> {
        let mut evicted = Vec::new();
        while self.settings.max_loaded > 0 && self.loaded.len() > self.settings.max_loaded {
            let free = self.loaded.iter().enumerate().filter(|(_, loaded)| !loaded.is_pinned);
            let Some((oldest, _)) = free.min_by_key(|(_, loaded)| loaded.used) else { break };
            evicted.push(self.loaded.remove(oldest).shown.name().to_owned());
        }
        evicted
    }

    fn unload(&mut self, names: &[String]) {
        self.away.retain(|away| !names.contains(&away.shown_as));
        self.loaded.retain(|loaded| !names.iter().any(|name| name == loaded.shown.name()));
        let pre_discovered = self.pre_discovered_tools();
        let gone = pre_discovered.iter().filter(|tool| names.contains(&self.names.shown(tool)));
        let gone: Vec<String> = gone.map(|tool| tool.id().to_owned()).collect();
        if !gone.is_empty() {
            self.removed.extend(gone);
            self.fix();
        }
    }

    fn pre_discovered_tools(&self) -> Vec<Arc<Tool>> {
        let tools = self.pre_discovered.iter().flat_map(|name| self.names.resolve(name));
        tools.filter(|tool| !self.is_always_on(tool) && !self.is_static(tool)).collect()
    }

    /// Lets a call go to its tool, unless its arguments do not fit.
    fn invoke(&mut self, tool: &Arc<Tool>, arguments: Value, is_wrapped: bool, answer: &mut Answer) {
        let name = self.names.shown(tool);
        let called = CalledAs { name: &name, is_wrapped };
        let is_usual = self.dialect().checks_arguments();
        match self.settings.validation.refusal(tool, &arguments, is_usual, &called) {
            Some(text) => {
                answer.reply = Reply::Text(text);
                (answer.is_error, answer.is_misfit) = (true, true);
            }
            None => answer.target = Some(self.target(tool, arguments)),
        }
    }

    /// Where a call goes, noting that the tool was used.
    fn target(&mut self, tool: &Arc<Tool>, arguments: Value) -> Target {
        let loaded = self.loaded.iter().find(|loaded| Arc::ptr_eq(&loaded.shown.tool, tool));
        let shown = loaded.map(|loaded| loaded.shown.name().to_owned());
        if let Some(shown) = shown {
            self.touch(&shown);
        }
        Target {
            id: Some(tool.id().to_owned()),
            server: tool.server_name().map(str::to_owned),
            name: tool.upstream_name().to_owned(),
            arguments,
        }
    }

    /// Notes that a loaded tool was used.
    fn touch(&mut self, name: &str) {
        self.clock += 1;
        let used = self.clock;
        if let Some(loaded) = self.loaded.iter_mut().find(|loaded| loaded.shown.name() == name) {
            loaded.used = used;
        }
    }
}

#[cfg(test)]
mod tests;
