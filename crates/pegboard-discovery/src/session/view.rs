//! The view of a session for dialects.

use pegboard_core::{Ranker, Tool, Vectors};

use super::Session;
use crate::dialects::DialectView;

impl Session {
    /// Calls `work` with the view for dialects.
    pub(super) fn with_view<T>(&self, work: impl FnOnce(&DialectView<'_>) -> T) -> T {
        self.with_view_of(&*self.ranker, &Vectors::default(), work)
    }

    pub(super) fn with_view_of<T>(
        &self,
        ranker: &dyn Ranker,
        vectors: &Vectors,
        work: impl FnOnce(&DialectView<'_>) -> T,
    ) -> T {
        let (first, rest) = self.visible_tools();
        let is_shown = |name: &str| first.iter().chain(&rest).any(|shown| shown.name() == name);
        let shown_name = |tool: &Tool| {
            let shown = first.iter().chain(&rest).find(|shown| std::ptr::eq(&*shown.tool, tool));
            shown.map(|shown| shown.name().to_owned())
        };
        let is_removable = |name: &str| {
            self.loaded.is_loaded(name)
                || (is_shown(name) && self.pre_discovered_tools().iter().any(|tool| self.names.shown(tool) == name))
        };
        work(&DialectView {
            catalog: &self.catalog,
            selection: &self.selection,
            ranker,
            vectors,
            names: &self.names,
            settings: &self.settings,
            is_shown: &is_shown,
            shown_name: &shown_name,
            is_removable: &is_removable,
            is_static: &|tool| self.is_static(tool),
            room: self.loaded.room(self.settings.max_loaded),
        })
    }
}
