//! Searches and calls as they happen, for the user who runs the gateway.
//!
//! A request passes a note on and continues; a thread turns notes into entries, keeps a limited
//! number of them, publishes them to consoles and writes them to disk. An entry has metadata only:
//! who, what was searched for, what was found and called, how long it took. Arguments and results
//! are kept beside the newest entries, in memory, unless the settings say otherwise.

mod disk;
mod entry;
mod log;
mod observe;
mod worker;

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use pegboard_upstream::Fleet;
use serde::Serialize;
use tokio::sync::oneshot;

pub(crate) use self::{
    entry::{Entry, Kind, Outcome, Source, now},
    log::{Contents, Filter, Log, SessionCounts},
    observe::Observation,
};
use self::{observe::Note, worker::Worker};
use crate::{caller::Viewer, catalog::CatalogView, events::Events, lock, savings::SavingsLedger, setup::Setup};

/// Maximum number of notes that wait for the thread.
const QUEUE: usize = 1024;

/// Where arguments and results are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentsPlace {
    /// Nowhere.
    None,
    /// In memory, beside the newest entries.
    #[default]
    Memory,
    /// In memory and in the file of the entries.
    Disk,
}

impl ContentsPlace {
    /// All places by name.
    pub const NAMES: [&'static str; 3] = ["none", "memory", "disk"];

    /// Returns the name that users use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }

    /// Returns the place with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::None, Self::Memory, Self::Disk].into_iter().find(|place| place.as_str() == name)
    }
}

/// What is kept of searches and calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivitySettings {
    /// Maximum number of entries; 0 keeps none.
    pub entries: usize,
    /// How long entries are kept.
    pub lifetime: Duration,
    /// Whether metadata is written to disk.
    pub is_on_disk: bool,
    /// Where arguments and results are kept.
    pub contents: ContentsPlace,
}

impl Default for ActivitySettings {
    fn default() -> Self {
        Self {
            entries: 10_000,
            lifetime: Duration::from_secs(30 * 86_400),
            is_on_disk: true,
            contents: ContentsPlace::default(),
        }
    }
}

/// What a million tokens cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prices {
    /// Such as `USD`.
    pub currency: String,
    /// For clients that are not named.
    pub per_million_tokens: f64,
    /// For clients of these names.
    pub clients: Vec<ClientPrice>,
}

/// What a million tokens of one client cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientPrice {
    /// The name that the client gives itself.
    pub client: String,
    /// The price.
    pub per_million_tokens: f64,
}

impl Prices {
    /// Returns the price of a million tokens of a client.
    pub(crate) fn of_client(&self, client: &str) -> f64 {
        let own = self.clients.iter().find(|price| price.client == client);
        own.map_or(self.per_million_tokens, |price| price.per_million_tokens)
    }
}

/// The settings of what the console shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsoleSettings {
    /// What is kept of searches and calls.
    pub activity: ActivitySettings,
    /// The prices of tokens, if they are to be shown as money.
    pub prices: Option<Prices>,
    /// The folder for the files of the console. `None` keeps nothing on disk.
    pub folder: Option<PathBuf>,
}

/// What wants to know the number of the entry of one request.
#[derive(Clone, Debug)]
pub(crate) struct EntryListener(Arc<Mutex<Option<oneshot::Sender<u64>>>>);

impl EntryListener {
    pub(crate) fn new() -> (Self, oneshot::Receiver<u64>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(sender)))), receiver)
    }

    fn tell(&self, number: u64) {
        if let Some(sender) = lock(&self.0).take() {
            let _ = sender.send(number);
        }
    }
}

/// The activity of a gateway.
#[derive(Debug)]
pub(crate) struct Activity {
    log: Arc<Mutex<Log>>,
    events: Arc<Events>,
    parts: WorkerParts,
    worker: OnceLock<Option<Running>>,
    is_late: AtomicBool,
}

/// The parts that the thread needs.
#[derive(Clone, Debug)]
struct WorkerParts {
    fleet: Weak<Fleet>,
    catalog: Arc<CatalogView>,
    savings: Arc<SavingsLedger>,
    folder: Option<PathBuf>,
}

/// The thread that keeps entries.
#[derive(Debug)]
struct Running {
    queue: SyncSender<Note>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Activity {
    pub(crate) fn new(
        fleet: &Arc<Fleet>,
        catalog: Arc<CatalogView>,
        savings: Arc<SavingsLedger>,
        folder: Option<PathBuf>,
    ) -> Self {
        Self {
            log: Arc::default(),
            events: Arc::default(),
            parts: WorkerParts { fleet: Arc::downgrade(fleet), catalog, savings, folder },
            worker: OnceLock::new(),
            is_late: AtomicBool::new(false),
        }
    }

    pub(crate) fn events(&self) -> &Arc<Events> {
        &self.events
    }

    /// Starts the thread, which reads the entries of earlier runs.
    pub(crate) fn start(&self, settings: &ActivitySettings) {
        self.running(settings);
    }

    /// Calls `read` with the entries.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Log) -> T) -> T {
        read(&lock(&self.log))
    }

    /// Returns the number of the newest entry that a caller may see; 0 if there is none.
    pub(crate) fn newest_for(&self, setup: &Setup, viewer: &Viewer, is_everything: bool) -> u64 {
        let token = (!is_everything).then(|| setup.token_name(viewer.caller).to_owned());
        self.read(|log| log.newest(token.as_deref()))
    }

    /// Returns the thread, which is started with the first note. Files are read on the thread.
    fn running(&self, settings: &ActivitySettings) -> Option<&Running> {
        let start = || {
            let (queue, notes) = sync_channel(QUEUE);
            let (parts, log, events) = (self.parts.clone(), Arc::clone(&self.log), Arc::clone(&self.events));
            let settings = settings.clone();
            let thread = std::thread::Builder::new().name("activity".to_owned());
            match thread.spawn(move || Worker::open(parts, log, events, &settings).work(&notes)) {
                Ok(thread) => Some(Running { queue, thread: Mutex::new(Some(thread)) }),
                Err(error) => {
                    tracing::warn!(%error, "activity not kept");
                    None
                }
            }
        };
        self.worker.get_or_init(start).as_ref()
    }

    /// Passes a note on, without waiting.
    fn send(&self, settings: &ActivitySettings, note: Note) {
        let Some(running) = self.running(settings) else { return };
        match running.queue.try_send(note) {
            Ok(()) => self.is_late.store(false, Ordering::Relaxed),
            // The gateway has ended.
            Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => {
                if !self.is_late.swap(true, Ordering::Relaxed) {
                    tracing::warn!("activity incomplete: too many requests at a time");
                }
            }
        }
    }

    /// Writes what is not on disk yet, and ends the thread. Blocks.
    pub(crate) fn finish(&self) {
        let Some(Some(running)) = self.worker.get() else { return };
        let _ = running.queue.send(Note::End);
        if let Some(thread) = lock(&running.thread).take() {
            let _ = thread.join();
        }
    }
}
