//! The lists of a server on disk.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pegboard_core::locks::lock;
use tokio::sync::Notify;

use super::{StartPhase, Upstream};
use crate::manifest::{CachedManifest, Fingerprint, Manifest, Manifests, Seal};

/// The shortest time between two writes, for servers whose lists change all the time.
const PAUSE: Duration = Duration::from_secs(5);

/// The manifest of a server on disk.
#[derive(Debug)]
pub(super) struct ManifestState {
    manifests: Arc<Manifests>,
    fingerprint: Fingerprint,
    /// The seal of the file, if known.
    seal: Arc<Mutex<Option<Seal>>>,
    /// Whether the file existed at the start.
    was_there: bool,
    /// Whether the server did not answer when it was last started.
    was_silent: AtomicBool,
    /// Whether the lists are still those of the file.
    is_recalled: AtomicBool,
    /// Whether the file says that the server asks its clients.
    has_asked: AtomicBool,
    /// Whether there are unsaved changes.
    is_news: AtomicBool,
    news: Notify,
}

impl Upstream {
    /// Uses the cached lists, unless the server was started meanwhile: servers do not wait for a disk
    /// that hangs.
    pub(crate) fn recall(&self, manifests: &Arc<Manifests>, recalled: CachedManifest) {
        let CachedManifest { fingerprint, manifest: kept, was_silent } = recalled;
        let Some(fingerprint) = fingerprint else { return };
        let has_begun = lock(&self.has_begun);
        if *has_begun {
            return;
        }
        let was_there = kept.is_some();
        let has_asked = kept.as_ref().is_some_and(|(manifest, _)| manifest.asks);
        let mut seal = None;
        if let Some((manifest, its)) = kept {
            seal = Some(its);
            *lock(&self.last_hello) = Some(Arc::new(manifest.hello));
            if manifest.asks {
                self.asks.record();
            }
            self.set_listed_capabilities(manifest.declared);
            let mut lists = manifest.lists;
            // Nothing is used before it was compared with the approved tools.
            if self.holds_unseen() {
                (lists.tools, lists.held) = (Arc::default(), Arc::clone(&lists.offered));
            }
            *self.lists.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(lists);
            tracing::debug!(server = self.name(), tools = self.lists().tools.len(), "cached tool list loaded");
        }
        let _ = self.kept.set(ManifestState {
            manifests: Arc::clone(manifests),
            fingerprint,
            seal: Arc::new(Mutex::new(seal)),
            was_there,
            was_silent: AtomicBool::new(was_silent),
            is_recalled: AtomicBool::new(was_there),
            has_asked: AtomicBool::new(has_asked),
            is_news: AtomicBool::new(false),
            news: Notify::new(),
        });
    }

    /// Returns whether there were cached lists at the start.
    pub(super) fn has_manifest(&self) -> bool {
        self.kept.get().is_some_and(|kept| kept.was_there)
    }

    /// Returns whether the start waits for the server: one that did not answer the last time would
    /// delay every start.
    pub(super) fn is_worth_waiting(&self) -> bool {
        !self.kept.get().is_some_and(|kept| kept.was_there || kept.was_silent.load(Ordering::Relaxed))
    }

    /// Records that the server did not answer in time.
    pub(super) async fn record_no_answer(&self) {
        self.note_silence(true).await;
    }

    /// Notes that the server was waited for in vain, if it still starts.
    pub(crate) async fn note_late(&self) {
        if self.is_worth_waiting() && !self.state().is_settled() {
            self.note_silence(true).await;
        }
    }

    async fn note_silence(&self, is_silent: bool) {
        let Some(kept) = self.kept.get() else { return };
        if kept.was_silent.swap(is_silent, Ordering::Relaxed) != is_silent {
            let (manifests, fingerprint) = (Arc::clone(&kept.manifests), kept.fingerprint);
            let _ = tokio::task::spawn_blocking(move || manifests.record_silence(&fingerprint, is_silent)).await;
        }
    }

    /// Returns whether the lists are those of an earlier run.
    pub fn is_from_manifest(&self) -> bool {
        self.kept.get().is_some_and(|kept| kept.is_recalled.load(Ordering::Relaxed))
    }

    /// Records that the server has sent its lists.
    pub(super) fn mark_lists_changed(&self) {
        if let Some(kept) = self.kept.get() {
            kept.is_recalled.store(false, Ordering::Relaxed);
            kept.is_news.store(true, Ordering::Relaxed);
            kept.news.notify_one();
        }
    }

    /// Saves changes; never returns.
    pub(super) async fn save_changes(&self) {
        let _ = self.context.phase.subscribe().wait_for(|phase| *phase >= StartPhase::Loaded).await;
        let Some(kept) = self.kept.get() else { return std::future::pending().await };
        loop {
            tokio::select! {
                () = kept.news.notified() => {}
                () = self.asks.asked_first() => {}
            }
            self.save().await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Saves unsaved changes.
    pub(super) async fn save(&self) {
        let (Some(kept), Some(hello)) = (self.kept.get(), self.hello()) else { return };
        let (asks, declared) = (self.asks.has_asked(), *lock(&self.listed_capabilities));
        let is_new_to_ask = kept.has_asked.swap(asks, Ordering::Relaxed) != asks;
        if !kept.is_news.swap(false, Ordering::Relaxed) && !is_new_to_ask {
            return;
        }
        let manifest = Manifest { hello: (*hello).clone(), lists: (*self.lists()).clone(), asks, declared };
        let (manifests, fingerprint, seal) = (Arc::clone(&kept.manifests), kept.fingerprint, Arc::clone(&kept.seal));
        let written = tokio::task::spawn_blocking(move || {
            let known = *lock(&seal);
            let now = manifests.save(&fingerprint, &manifest, known);
            *lock(&seal) = now;
        });
        let _ = written.await;
        self.note_silence(false).await;
    }
}
