//! What is kept of a server between runs.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pegboard_core::locks::lock;
use tokio::sync::Notify;

use super::{Gate, Upstream};
use crate::manifest::{CachedManifest, Fingerprint, Manifest, Manifests, Seal};

/// The shortest time between two writes: a server whose lists change all the time must not
/// keep the disk busy.
const PAUSE: Duration = Duration::from_secs(5);

/// Where a server's manifest is, and what of it is known.
#[derive(Debug)]
pub(super) struct Kept {
    manifests: Arc<Manifests>,
    fingerprint: Fingerprint,
    /// Of what lies on the disk, as far as we know.
    seal: Arc<Mutex<Option<Seal>>>,
    /// Whether there was one to begin with.
    was_there: bool,
    /// Whether the server did not answer when it was last started.
    was_silent: AtomicBool,
    /// Whether the lists are still those that lay there.
    is_recalled: AtomicBool,
    /// Whether it lies there that the server asks its clients.
    has_asked: AtomicBool,
    /// Whether there is something to be written.
    is_news: AtomicBool,
    news: Notify,
}

impl Upstream {
    /// Takes in what was kept of it, unless it was started meanwhile: a disk that hangs must
    /// not keep servers waiting, and then they know better.
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
            let mut lists = manifest.lists;
            // Nothing is used before it was held against what was approved.
            if self.holds_unseen() {
                (lists.tools, lists.held) = (Arc::default(), Arc::clone(&lists.offered));
            }
            *self.lists.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(lists);
            tracing::debug!(server = self.name(), tools = self.lists().tools.len(), "cached tool list loaded");
        }
        let _ = self.kept.set(Kept {
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

    /// Whether it was known what it offers before it was started.
    pub(super) fn has_manifest(&self) -> bool {
        self.kept.get().is_some_and(|kept| kept.was_there)
    }

    /// Whether there is a reason to wait for it: one that did not answer the last time would
    /// keep everybody waiting at every start.
    pub(super) fn is_worth_waiting(&self) -> bool {
        !self.kept.get().is_some_and(|kept| kept.was_there || kept.was_silent.load(Ordering::Relaxed))
    }

    /// Notes that the server did not answer within its time.
    pub(super) async fn stayed_silent(&self) {
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

    /// Whether its lists are those of an earlier run, and it was not asked yet.
    pub fn is_from_manifest(&self) -> bool {
        self.kept.get().is_some_and(|kept| kept.is_recalled.load(Ordering::Relaxed))
    }

    /// Notes that the server itself has said what it offers.
    pub(super) fn learned(&self) {
        if let Some(kept) = self.kept.get() {
            kept.is_recalled.store(false, Ordering::Relaxed);
            kept.is_news.store(true, Ordering::Relaxed);
            kept.news.notify_one();
        }
    }

    /// Keeps what the server offers, for ever.
    pub(super) async fn keep(&self) {
        let _ = self.crew.gate.subscribe().wait_for(|gate| *gate >= Gate::Recalled).await;
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

    /// Writes what is not written yet.
    pub(super) async fn save(&self) {
        let (Some(kept), Some(hello)) = (self.kept.get(), self.hello()) else { return };
        let asks = self.asks.has_asked();
        let is_new_to_ask = kept.has_asked.swap(asks, Ordering::Relaxed) != asks;
        if !kept.is_news.swap(false, Ordering::Relaxed) && !is_new_to_ask {
            return;
        }
        let manifest = Manifest { hello: (*hello).clone(), lists: (*self.lists()).clone(), asks };
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
