//! Which of a server's tools may be used, as far as that depends on what was approved.

use std::{sync::Arc, time::Duration};

use pegboard_core::locks::lock;
use pegboard_state::Stamp;
use tokio::time::Instant;

use super::Upstream;
use crate::{
    config::{Pinning, TransportConfig},
    listing::{Item, Lists},
    pins::{Offered, PinKind, PinReport, Pins, Review},
};

/// The interval of checks for new approvals, and the shortest time between two writes of waiting tools, for servers whose
/// tools change all the time.
const REVIEW_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of tools that are named in the log; others are counted.
const MAX_LOGGED: usize = 10;

/// The approvals of a server, as of the last review.
#[derive(Debug, Default)]
pub(super) struct Pinned {
    reports: Arc<Vec<PinReport>>,
    stamp: Option<Stamp>,
    written: Option<Instant>,
    is_unwritten: bool,
}

impl Upstream {
    /// Returns the tools that wait for approval.
    pub fn pins(&self) -> Arc<Vec<PinReport>> {
        Arc::clone(&lock(&self.pinned).reports)
    }

    /// Returns the approvals, if the tools of the server are compared with them.
    pub(super) fn approvals(&self) -> Option<&Arc<Pins>> {
        // A server that is part of this program changes with it alone; it is pinned only if the configuration
        // says so.
        let is_own = matches!(self.config.transport, TransportConfig::Local(_)) && self.config.pinning.is_none();
        let is_pinned = self.config.is_enabled && !is_own && self.config.pinning() != Pinning::Off;
        self.context.pins.as_ref().filter(|_| is_pinned)
    }

    /// Returns whether tools must not be used before they were compared with the approved ones.
    pub(crate) fn holds_unseen(&self) -> bool {
        self.approvals().is_some() && self.config.holds_unseen()
    }

    /// Accepts lists of the server, and holds back the tools that must not be used.
    pub(super) async fn accept_lists(&self, lists: Lists) {
        let _reviewing = self.reviewing.lock().await;
        let lists = self.reviewed(lists).await;
        self.replace_lists(lists);
    }

    /// Compares the known tools with the approved ones again; returns whether other tools may be used now.
    pub(super) async fn review_pins(&self) -> bool {
        let _reviewing = self.reviewing.lock().await;
        let before = self.lists();
        let lists = self.reviewed(Lists::clone(&before)).await;
        let is_same = Arc::ptr_eq(&lists.tools, &before.tools);
        self.replace_lists(lists);
        !is_same
    }

    async fn reviewed(&self, lists: Lists) -> Lists {
        let Some(pins) = self.approvals().cloned() else { return lists };
        let may_write = lock(&self.pinned).written.is_none_or(|then| then.elapsed() >= REVIEW_INTERVAL);
        let (config, offered) = (self.config.clone(), self.own_tool_lists.with_reviewed(&lists.offered));
        let variants = self.own_tool_lists.variants();
        let review = move || {
            pins.review(&config, Offered { tools: &offered, variants: &variants, is_of_client: false }, may_write)
        };
        let review = tokio::task::spawn_blocking(review).await;
        let review = review.unwrap_or_else(|_| self.review_failed(&lists));
        self.narrow(lists, review)
    }

    /// [`review_pins`](Self::review_pins) before the server runs. Reads files.
    pub(crate) fn review_known(&self) {
        let Some(pins) = self.approvals() else { return };
        // A review that runs already has newer lists.
        let Ok(_reviewing) = self.reviewing.try_lock() else { return };
        let lists = Lists::clone(&self.lists());
        // Without lists there is nothing to compare.
        if lists.offered.is_empty() {
            return;
        }
        let review = pins.review(&self.config, &*lists.offered, true);
        let lists = self.narrow(lists, review);
        self.replace_lists(lists);
    }

    /// Returns the review that applies if the comparison failed: servers that hold tools hold all of them.
    fn review_failed(&self, lists: &Lists) -> Review {
        let offered = if self.holds_unseen() { &lists.offered[..] } else { &[] };
        Review { held: offered.iter().map(|item| item.key.clone()).collect(), ..Review::default() }
    }

    fn replace_lists(&self, lists: Lists) {
        *self.lists.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(lists);
    }

    /// Returns the lists without the held tools. Unchanged lists stay the same in memory.
    fn narrow(&self, mut lists: Lists, review: Review) -> Lists {
        let Review { reports, held, stamp, is_unwritten, is_new_server } = review;
        if is_new_server {
            self.log_new_server(&reports);
        } else {
            self.log_reports(&reports);
        }
        let is_other_stamp = {
            let mut pinned = lock(&self.pinned);
            if !is_unwritten {
                pinned.written = Some(Instant::now());
            }
            let is_other = pinned.stamp != stamp;
            (pinned.stamp, pinned.is_unwritten) = (stamp, is_unwritten);
            if *pinned.reports != reports {
                pinned.reports = Arc::new(reports);
            }
            is_other
        };
        // Signalled by every review, because connections of clients compare their own lists.
        if is_other_stamp {
            self.approvals_changed.send_modify(|changes| *changes += 1);
        }
        let is_held = |item: &&Item| held.contains(&item.key);
        let now: Vec<Item> = lists.offered.iter().filter(is_held).cloned().collect();
        let before = self.lists();
        let keys = |items: &[Item]| items.iter().map(|item| item.key.clone()).collect::<Vec<_>>();
        if Arc::ptr_eq(&lists.offered, &before.offered) && keys(&now) == keys(&before.held) {
            (lists.tools, lists.held) = (Arc::clone(&before.tools), Arc::clone(&before.held));
        } else if now.is_empty() {
            (lists.tools, lists.held) = (Arc::clone(&lists.offered), Arc::default());
        } else {
            let used = lists.offered.iter().filter(|item| !is_held(item)).cloned().collect();
            (lists.tools, lists.held) = (Arc::new(used), Arc::new(now));
        }
        lists
    }

    /// Logs that the server is held because it is new, once.
    fn log_new_server(&self, reports: &[PinReport]) {
        if self.pins().is_empty() && !reports.is_empty() {
            let (server, tools) = (self.name(), reports.len());
            let hint = format!("review and approve its tools with `pegboard approve {server}`");
            tracing::warn!(server, tools, hint, "new server held");
        }
    }

    /// Logs reports that are new, once.
    fn log_reports(&self, reports: &[PinReport]) {
        let before = self.pins();
        let is_known = |report: &PinReport| {
            before.iter().any(|known| {
                (&known.tool, known.kind, known.is_variant) == (&report.tool, report.kind, report.is_variant)
            })
        };
        let news: Vec<&PinReport> = reports.iter().filter(|report| !is_known(report)).collect();
        for report in news.iter().take(MAX_LOGGED) {
            let (server, tool) = (self.name(), &*pegboard_core::text::line(&report.tool));
            match (report.kind, report.is_held) {
                (PinKind::Removed, _) => tracing::info!(server, tool, "approved tool removed by its server"),
                (PinKind::New, false) => tracing::warn!(server, tool, "new tool not approved"),
                (PinKind::New, true) => tracing::warn!(server, tool, "new tool held until approved"),
                (_, false) => tracing::warn!(server, tool, "changed tool not approved"),
                (_, true) => tracing::warn!(server, tool, "changed tool held until approved"),
            }
        }
        if !news.is_empty() {
            let (more, server) = (news.len().saturating_sub(MAX_LOGGED), self.name());
            match news.iter().any(|report| report.is_held) {
                true => tracing::warn!(server, more, "tools held until approved; see `pegboard approve --list`"),
                false => tracing::warn!(server, more, "unapproved tools; see `pegboard approve --list`"),
            }
        }
    }

    /// Follows changes of the approvals on disk; never returns.
    pub(super) async fn watch_approvals(&self) {
        let Some(pins) = self.approvals().cloned() else { return std::future::pending().await };
        loop {
            tokio::time::sleep(REVIEW_INTERVAL).await;
            if self.lists().offered.is_empty() {
                continue;
            }
            let (pins, config) = (Arc::clone(&pins), self.config.clone());
            let stamp = tokio::task::spawn_blocking(move || pins.stamp(&config)).await.unwrap_or_default();
            let (is_other, is_unwritten) = {
                let pinned = lock(&self.pinned);
                (stamp != pinned.stamp, pinned.is_unwritten)
            };
            if (is_other || is_unwritten) && self.review_pins().await {
                tracing::info!(server = self.name(), "approvals changed");
                self.context.changed();
            }
        }
    }

    /// Writes waiting tools that were not written yet.
    pub(super) async fn write_waiting(&self) {
        if lock(&self.pinned).is_unwritten {
            lock(&self.pinned).written = None;
            self.review_pins().await;
        }
    }
}

#[cfg(test)]
mod tests;
