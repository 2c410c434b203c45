//! The thread that turns notes into entries.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    ActivitySettings, ContentsPlace, Entry, Kind, Log, WorkerParts,
    disk::{ActivityFile, Retention},
    entry::now,
    observe::{Happened, Note},
};
use crate::{
    events::{Audience, Events},
    lock,
};

/// How often savings are written.
const SAVE_INTERVAL: Duration = Duration::from_secs(30);

/// What the thread works with.
pub(super) struct Worker {
    parts: WorkerParts,
    log: Arc<Mutex<Log>>,
    events: Arc<Events>,
    settings: ActivitySettings,
    file: Option<ActivityFile>,
    saved: Instant,
    /// The number of the next entry.
    next: u64,
}

impl Worker {
    /// Reads the entries of earlier runs, and opens their file.
    pub(super) fn open(
        parts: WorkerParts,
        log: Arc<Mutex<Log>>,
        events: Arc<Events>,
        settings: &ActivitySettings,
    ) -> Self {
        let file = parts.folder.as_deref().and_then(|folder| open_file(folder, settings, &log));
        let next = lock(&log).newest(None) + 1;
        Self { parts, log, events, settings: settings.clone(), file, saved: Instant::now(), next }
    }

    /// Keeps entries until the end of the gateway.
    pub(super) fn work(mut self, notes: &Receiver<Note>) {
        loop {
            match notes.recv_timeout(SAVE_INTERVAL) {
                Ok(Note::Happened(happened)) => self.keep(*happened),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Note::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.saved.elapsed() >= SAVE_INTERVAL {
                self.save();
            }
        }
        self.save();
    }

    fn save(&mut self) {
        self.saved = Instant::now();
        lock(&self.log).trim(self.settings.entries, oldest(&self.settings));
        self.parts.savings.save();
        if let Some(file) = &mut self.file
            && let Err(error) = file.flush().and_then(|()| file.expire(oldest(&self.settings)))
        {
            tracing::warn!(%error, "activity no longer written to disk");
            self.file = None;
        }
    }

    fn keep(&mut self, mut happened: Happened) {
        happened.entry.tokens = happened.tokens();
        self.parts.savings.count_entry(&happened.entry);
        if !happened.is_kept {
            return;
        }
        self.redact(&mut happened);
        happened.entry.seq = self.next;
        self.next += 1;
        let (caller, mut log) = (happened.caller, lock(&self.log));
        let listener = happened.listener.take();
        let entry = self.finished(&mut log, happened);
        log.trim(self.settings.entries, oldest(&self.settings));
        let contents = log.contents_of(entry.seq).filter(|_| self.settings.contents == ContentsPlace::Disk).cloned();
        drop(log);
        if let Some(listener) = listener {
            listener.tell(entry.seq);
        }
        if let Some(file) = &mut self.file
            && let Err(error) = file.append(&entry, contents)
        {
            tracing::warn!(%error, "activity no longer written to disk");
            self.file = None;
        }
        self.events.publish("activity", Audience::Caller(caller), || json!({"entry": entry}));
    }

    /// Adds the entry to the log, with the names of its tools and the search that it came from.
    fn finished(&self, log: &mut Log, happened: Happened) -> Arc<Entry> {
        let Happened { mut entry, conversation, tools, contents, .. } = happened;
        if let (Kind::Call, Some(id)) = (entry.kind, tools.first()) {
            if let Some(tool) = self.parts.catalog.catalog().find(id) {
                entry.tool = Some(tool.name().to_owned());
            }
            if let Some((search, rank)) = log.search_of(&conversation, id) {
                (entry.search, entry.rank) = (Some(search), Some(rank));
            }
        } else if entry.kind == Kind::Search {
            log.note_search(&conversation, entry.seq, tools);
        }
        let has_contents = self.settings.contents != ContentsPlace::None && entry.kind != Kind::List;
        log.add(entry, has_contents.then_some(contents))
    }

    /// Removes secrets from what is kept.
    fn redact(&self, happened: &mut Happened) {
        match self.parts.fleet.upgrade() {
            Some(fleet) => happened.redact(|text| fleet.without_secrets(text)),
            // The secrets of a gateway that has ended are not known any more.
            None => happened.redact(|_| String::new()),
        }
    }
}

/// Opens the file, and adds the entries of earlier runs to the log. A file that is not wanted any more
/// is deleted.
fn open_file(folder: &Path, settings: &ActivitySettings, log: &Mutex<Log>) -> Option<ActivityFile> {
    if !settings.is_on_disk || settings.entries == 0 {
        if let Err(error) = ActivityFile::delete(folder) {
            tracing::warn!(folder = %folder.display(), %error, "cannot delete the activity of earlier runs");
        }
        return None;
    }
    let has_contents = settings.contents == ContentsPlace::Disk;
    let retention = Retention { entries: settings.entries, oldest: oldest(settings), has_contents };
    match ActivityFile::open(folder, retention) {
        Ok((file, entries)) => {
            let mut log = lock(log);
            entries.into_iter().for_each(|(entry, contents)| log.restore(entry, contents));
            log.trim(settings.entries, oldest(settings));
            Some(file)
        }
        Err(error) => {
            tracing::info!(folder = %folder.display(), %error, "activity kept in memory only");
            None
        }
    }
}

/// Returns the time before which entries are dropped.
fn oldest(settings: &ActivitySettings) -> u64 {
    now().saturating_sub(u64::try_from(settings.lifetime.as_millis()).unwrap_or(u64::MAX))
}
