//! How an agent's conversation begins.

use std::sync::Arc;

use pegboard_core::{Ranker, Selection};
use pegboard_discovery::{DialectName, Hits, Holder, Session, Settings, host::offers::offers_section};
use pegboard_llm::{Conversation, ConversationError, Delivery};
use pegboard_upstream::ListKind;

use super::AgentBuilder;
use crate::{settings::Mode, sources::Sources};

/// Tools that are visible beside what is found or shown by number: meta-tools, tools of the
/// agent itself, some that are always on.
const BESIDE: usize = 32;

impl AgentBuilder {
    /// The mode, and why it is that one.
    pub(super) fn decide(&self, sources: &Sources, selection: &Selection) -> (Mode, String) {
        if self.mode != Mode::Auto {
            return (self.mode, "requested".to_owned());
        }
        let decision = self.search.exposure.decide(sources.catalog(), selection);
        (if decision.is_on { Mode::ToolSearch } else { Mode::Normal }, decision.reason)
    }

    /// A conversation about the tools of `sources`.
    pub(super) fn conversation(
        &self,
        mode: Mode,
        sources: &mut Sources,
        selection: &Selection,
        has_outputs: bool,
    ) -> Result<Conversation, ConversationError> {
        let (dialect, settings, wish) = self.manner(mode, has_outputs);
        sources.reserve(dialect.meta_names());
        sources.refresh();
        let catalog = sources.catalog().clone();
        let ranker = self.ranker();
        if ranker.vector_source().is_some() {
            // Tools are embedded before the first search needs them.
            let (ranker, catalog) = (Arc::clone(&ranker), catalog.clone());
            drop(tokio::task::spawn_blocking(move || ranker.prepare(&catalog)));
        }
        let session = Session::expecting(dialect, settings, catalog, selection.clone(), ranker)
            .with_pre_discovered(self.pre_discovered.clone())
            .with_categories(self.search.categories.clone());
        let conversation = Conversation::expecting(self.model.clone(), session, wish)?;
        let mut conversation = conversation.with_cache(self.cache).with_extra(self.extra.clone());
        let system = self.system_text(mode, sources);
        if !system.is_empty() {
            conversation = conversation.with_system(system);
        }
        Ok(match self.limits.turn_tokens {
            Some(most) => conversation.with_max_tokens(most),
            None => conversation,
        })
    }

    /// How the model gets at its tools in a mode.
    fn manner(&self, mode: Mode, has_outputs: bool) -> (DialectName, Settings, Option<Delivery>) {
        let mut settings = self.search.settings.clone();
        settings.output_offloading = has_outputs;
        settings.validation.is_on.get_or_insert(true);
        settings.hits = Hits::Listed;
        // What the provider takes at most, less what is visible beside what is found.
        let most = self.model.provider.max_tools().saturating_sub(BESIDE);
        settings.max_loaded = if settings.max_loaded == 0 { most } else { settings.max_loaded.min(most) };
        match mode {
            Mode::CodeExecution => (DialectName::Code, settings, None),
            Mode::ToolSearch | Mode::Auto => (self.search.dialect, settings, self.search.delivery),
            Mode::Normal => {
                // More than that, and there is a search after all.
                settings.max_tools_limit = most;
                (DialectName::Gateway, settings, Some(Delivery::Inject))
            }
        }
    }

    fn ranker(&self) -> Arc<dyn Ranker> {
        match &self.learner {
            Some(learner) => learner.ranker(Holder::Local, self.search.ranker()),
            None => self.search.ranker(),
        }
    }

    /// What the model is told to be, and which prompts and resources there are.
    fn system_text(&self, mode: Mode, sources: &Sources) -> String {
        let kept = match mode {
            Mode::CodeExecution => String::new(),
            _ => offers_section(&sources.kept(ListKind::Prompts), &sources.kept(ListKind::Resources)),
        };
        let parts = [self.system.clone().unwrap_or_default(), kept];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
    }
}
