//! The start of an agent's conversation.

use std::sync::Arc;

use pegboard_core::{Ranker, Selection};
use pegboard_discovery::{DialectName, Hits, Holder, Session, Settings, host::offers::offers_section};
use pegboard_llm::{Conversation, Delivery};
use pegboard_upstream::ListKind;

use super::{AgentBuilder, BuildError};
use crate::{settings::Mode, sources::Sources};

/// Number of tool slots that are reserved for meta-tools, tools of the agent and always-on tools.
const RESERVED_SLOTS: usize = 32;

impl AgentBuilder {
    /// Returns the mode, and why it was chosen.
    pub(super) fn decide_mode(&self, sources: &Sources, selection: &Selection) -> (Mode, String) {
        if self.mode != Mode::Auto {
            return (self.mode, "requested".to_owned());
        }
        let decision = self.search.exposure.decide(sources.catalog(), selection);
        (if decision.is_on { Mode::ToolSearch } else { Mode::Normal }, decision.reason)
    }

    /// Creates the conversation about the tools of `sources`.
    pub(super) fn conversation(
        &self,
        mode: Mode,
        sources: &mut Sources,
        selection: &Selection,
        has_outputs: bool,
    ) -> Result<Conversation, BuildError> {
        let (dialect, settings, wish) = self.dialect_settings(mode, has_outputs);
        sources.reserve(dialect.meta_names());
        sources.refresh();
        let catalog = sources.catalog().clone();
        let ranker = self.ranker()?;
        if ranker.vector_source().is_some() {
            // Embed the tools before the first search needs them.
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

    /// Returns the dialect, its settings and the delivery for a mode.
    fn dialect_settings(&self, mode: Mode, has_outputs: bool) -> (DialectName, Settings, Option<Delivery>) {
        let mut settings = self.search.settings.clone();
        settings.output_offloading = has_outputs;
        settings.validation.is_on.get_or_insert(true);
        settings.hits = Hits::Listed;
        // The provider's limit, less the reserved slots.
        let most = self.model.provider.max_tools().saturating_sub(RESERVED_SLOTS);
        settings.max_loaded = if settings.max_loaded == 0 { most } else { settings.max_loaded.min(most) };
        match mode {
            Mode::CodeExecution => (DialectName::Code, settings, None),
            Mode::ToolSearch | Mode::Auto => (self.search.dialect, settings, self.search.delivery),
            Mode::Normal => {
                // With more tools than that, search is used after all.
                settings.max_tools_limit = most;
                (DialectName::Gateway, settings, Some(Delivery::Inject))
            }
        }
    }

    fn ranker(&self) -> Result<Arc<dyn Ranker>, BuildError> {
        let ranker = self.search.ranker().map_err(BuildError::UnknownRanker)?;
        Ok(match &self.learner {
            Some(learner) => learner.ranker(Holder::Local, ranker),
            None => ranker,
        })
    }

    /// Returns the system prompt, followed by the list of prompts and resources.
    fn system_text(&self, mode: Mode, sources: &Sources) -> String {
        let offers = match mode {
            Mode::CodeExecution => String::new(),
            _ => offers_section(&sources.offers(ListKind::Prompts), &sources.offers(ListKind::Resources)),
        };
        let parts = [self.system.clone().unwrap_or_default(), offers];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
    }
}
