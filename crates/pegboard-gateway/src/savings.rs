//! The tokens that no model had to read, by day, client and server.
//!
//! For each list that a client gets: the tokens of the definitions of all tools that it may see,
//! minus those of the list, minus those of the answers of searches. Models read a list with every
//! request; it is counted once for each time that a client asks for it, so the sums are lower
//! bounds.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use pegboard_state::Folder;
use serde::{Deserialize, Serialize};

use crate::{
    activity::{Entry, Kind, Source},
    caller::Caller,
    lock,
};

/// How many days are kept.
const MAX_DAYS: usize = 400;

/// Maximum number of clients and of servers of a day; further ones are counted as one.
const MAX_PARTS: usize = 200;

/// The name under which further clients and servers are counted.
const OTHERS: &str = "others";

/// The name of the file.
const NAME: &str = "savings.json";

/// Maximum size of the file.
const MAX_BYTES: usize = 64 << 20;

const DAY: u64 = 86_400;

/// Sums of lists, searches and calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Sums {
    pub(crate) lists: u64,
    pub(crate) searches: u64,
    pub(crate) calls: u64,
    pub(crate) tokens_of_all: u64,
    pub(crate) tokens_shown: u64,
    pub(crate) tokens_of_replies: u64,
}

impl Sums {
    pub(crate) fn add(&mut self, other: &Self) {
        self.lists += other.lists;
        self.searches += other.searches;
        self.calls += other.calls;
        self.tokens_of_all = self.tokens_of_all.saturating_add(other.tokens_of_all);
        self.tokens_shown = self.tokens_shown.saturating_add(other.tokens_shown);
        self.tokens_of_replies = self.tokens_of_replies.saturating_add(other.tokens_of_replies);
    }

    /// Returns the tokens that were saved; fewer than none if small lists cost more than all tools.
    pub(crate) fn saved(&self) -> i64 {
        let signed = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        signed(self.tokens_of_all)
            .saturating_sub(signed(self.tokens_shown))
            .saturating_sub(signed(self.tokens_of_replies))
    }
}

/// The sums of a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Day {
    pub(crate) clients: BTreeMap<String, Sums>,
    pub(crate) servers: BTreeMap<String, Sums>,
}

impl Day {
    /// Returns the sums over all clients.
    pub(crate) fn total(&self) -> Sums {
        let mut total = Sums::default();
        self.clients.values().for_each(|sums| total.add(sums));
        total
    }
}

fn part<'a>(parts: &'a mut BTreeMap<String, Sums>, name: &str) -> &'a mut Sums {
    let is_full = parts.len() >= MAX_PARTS && !parts.contains_key(name);
    parts.entry(if is_full { OTHERS } else { name }.to_owned()).or_default()
}

/// A snapshot of the catalog, and the viewer under its settings.
type CostKey = (u64, Caller, u64);

/// The tokens of tools by server.
pub(crate) type Cost = BTreeMap<String, u64>;

/// The sums of all days.
#[derive(Debug)]
pub(crate) struct SavingsLedger {
    days: Mutex<BTreeMap<String, Day>>,
    folder: Option<PathBuf>,
    loaded: OnceLock<()>,
    is_unsaved: AtomicBool,
    /// The cost of all tools, for the snapshot and the viewer that were counted last.
    cost: Mutex<Option<(CostKey, Arc<Cost>)>>,
}

impl SavingsLedger {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self {
            days: Mutex::default(),
            folder,
            loaded: OnceLock::new(),
            is_unsaved: AtomicBool::new(false),
            cost: Mutex::default(),
        }
    }

    /// Returns the cost of all tools, computed once for a snapshot and a viewer.
    pub(crate) fn cost_of_all(&self, key: CostKey, all: impl FnOnce() -> Cost) -> Arc<Cost> {
        let mut cost = lock(&self.cost);
        match &*cost {
            Some((counted, all)) if *counted == key => Arc::clone(all),
            _ => Arc::clone(&cost.insert((key, Arc::new(all()))).1),
        }
    }

    /// Counts a list that was sent to a client.
    pub(crate) fn count_list(&self, client: &str, all: &Cost, shown: &Cost) {
        let mut days = lock(&self.days);
        let day = days.entry(today()).or_default();
        let sums = part(&mut day.clients, client);
        sums.lists += 1;
        sums.tokens_of_all += all.values().sum::<u64>();
        sums.tokens_shown += shown.values().sum::<u64>();
        // Meta-tools belong to no server.
        for (server, tokens) in all.iter().filter(|(server, _)| !server.is_empty()) {
            let sums = part(&mut day.servers, server);
            sums.lists += 1;
            sums.tokens_of_all += tokens;
            sums.tokens_shown += shown.get(server).copied().unwrap_or_default();
        }
        self.is_unsaved.store(true, Ordering::Relaxed);
    }

    /// Counts a search or a call of a client.
    pub(crate) fn count_entry(&self, entry: &Entry) {
        if entry.source == Source::Console || entry.kind == Kind::List {
            return;
        }
        let mut days = lock(&self.days);
        let day = days.entry(today()).or_default();
        let client = part(&mut day.clients, &entry.client);
        match entry.kind {
            Kind::Search => {
                client.searches += 1;
                client.tokens_of_replies += entry.tokens;
            }
            Kind::Call | Kind::List => client.calls += 1,
        }
        if let Some(server) = entry.server.as_deref().filter(|_| entry.kind == Kind::Call) {
            part(&mut day.servers, server).calls += 1;
        }
        self.is_unsaved.store(true, Ordering::Relaxed);
    }

    /// Returns the last days, oldest first. Reads the file for the first time.
    pub(crate) fn days(&self, most: usize) -> Vec<(String, Day)> {
        self.load();
        let since = date(seconds().saturating_sub(most.saturating_sub(1) as u64 * DAY));
        lock(&self.days).range(since..).map(|(date, day)| (date.clone(), day.clone())).collect()
    }

    /// Adds the sums of earlier runs.
    fn load(&self) {
        self.loaded.get_or_init(|| {
            let Some(path) = &self.folder else { return };
            let Ok(folder) = Folder::open(path) else { return };
            let Ok(Some(text)) = folder.read(NAME, MAX_BYTES) else { return };
            let Ok(saved) = serde_json::from_slice::<BTreeMap<String, Day>>(&text) else {
                tracing::warn!(folder = %path.display(), "cannot read savings of earlier days");
                return;
            };
            let mut days = lock(&self.days);
            for (date, saved) in saved {
                let day = days.entry(date).or_default();
                saved.clients.iter().for_each(|(name, sums)| part(&mut day.clients, name).add(sums));
                saved.servers.iter().for_each(|(name, sums)| part(&mut day.servers, name).add(sums));
            }
        });
    }

    /// Writes the sums, if there are new ones. Blocks.
    pub(crate) fn save(&self) {
        let Some(path) = &self.folder else { return };
        if !self.is_unsaved.swap(false, Ordering::Relaxed) {
            return;
        }
        self.load();
        let text = {
            let mut days = lock(&self.days);
            while days.len() > MAX_DAYS {
                days.pop_first();
            }
            serde_json::to_vec(&*days)
        };
        let written = text.map_err(Into::into).and_then(|text| Folder::open(path)?.replace_without_sync(NAME, &text));
        if let Err(error) = written {
            tracing::warn!(folder = %path.display(), %error, "cannot write the savings file");
        }
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn today() -> String {
    date(seconds())
}

/// Returns the day of a time in seconds from 1970 on, as `2026-08-23` (UTC).
pub(crate) fn date(seconds: u64) -> String {
    // Years begin in March, so that the day that is sometimes missing is the last one.
    let days = seconds / DAY + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |seconds: u64, expected: &str| assert_eq!(date(seconds), expected);
        check(0, "1970-01-01");
        check(951_782_399, "2000-02-28");
        check(951_782_400, "2000-02-29");
        check(951_868_800, "2000-03-01");
        check(1_787_443_200, "2026-08-23");
        check(4_107_542_400, "2100-03-01");
    }

    #[test]
    fn sums_by_client_and_server_survive_a_restart() {
        let path = std::env::temp_dir().join(format!("pegboard-savings-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let ledger = SavingsLedger::new(Some(path.clone()));
        let all: Cost = [("a".to_owned(), 100), ("b".to_owned(), 50)].into();
        let shown: Cost = [(String::new(), 20), ("b".to_owned(), 10)].into();
        ledger.count_list("test", &all, &shown);
        ledger.save();
        let later = SavingsLedger::new(Some(path.clone()));
        later.count_list("test", &all, &shown);
        later.save();
        let days = SavingsLedger::new(Some(path.clone())).days(1);
        let (_, day) = days.first().expect("today");
        let total = day.total();
        assert_eq!((total.lists, total.tokens_of_all, total.tokens_shown, total.saved()), (2, 300, 60, 240));
        let of_server = |name: &str| day.servers.get(name).map(|sums| (sums.tokens_of_all, sums.tokens_shown));
        assert_eq!((of_server("a"), of_server("b"), of_server("")), (Some((200, 0)), Some((100, 20)), None));
        std::fs::remove_dir_all(path).expect("a folder");
    }

    #[test]
    fn many_clients_are_counted_together() {
        let ledger = SavingsLedger::new(None);
        for number in 0..MAX_PARTS + 5 {
            ledger.count_list(&format!("client {number:04}"), &Cost::default(), &Cost::default());
        }
        let days = ledger.days(1);
        let clients = &days.first().expect("today").1.clients;
        assert_eq!((clients.len(), clients[OTHERS].lists), (MAX_PARTS + 1, 5));
    }
}
