//! The tokens that no model had to read, by day, client and server.
//!
//! For each list that a client gets: the tokens of the definitions of all tools that it may see,
//! minus those of the list, minus those of the answers of searches. Models read a list with every
//! request; it is counted once for each time that a client asks for it, so the sums are lower
//! bounds.

use std::{
    collections::BTreeMap,
    io, mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
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

/// The name of the file, and of its lock.
const NAME: &str = "savings.json";
const LOCK: &str = "savings.lock";

/// The name that a damaged file gets.
const DAMAGED: &str = "savings.json.damaged";

/// How long a write waits for another gateway's.
const LOCK_WAIT: Duration = Duration::from_secs(10);

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

/// Maximum number of remembered costs of all tools: those of the snapshots and viewers that were
/// counted last.
const MAX_COSTS: usize = 64;

/// A snapshot of the catalog, and the viewer under its settings.
type CostKey = (u64, Caller, u64);

/// The tokens of tools by server.
pub(crate) type Cost = BTreeMap<String, u64>;

/// The sums by day.
type Days = BTreeMap<String, Day>;

/// Adds the sums of `from` to `days`.
fn merge(days: &mut Days, from: Days) {
    for (date, added) in from {
        let day = days.entry(date).or_default();
        added.clients.iter().for_each(|(name, sums)| part(&mut day.clients, name).add(sums));
        added.servers.iter().for_each(|(name, sums)| part(&mut day.servers, name).add(sums));
    }
}

/// The sums of all days. Gateways that share a state folder add to the same file.
#[derive(Debug)]
pub(crate) struct SavingsLedger {
    /// The sums of this gateway that are not in the file yet.
    unsaved: Mutex<Days>,
    folder: Option<PathBuf>,
    /// Held while sums move from memory to the file, so that no reader misses them or sees them twice.
    file: Mutex<()>,
    /// The costs of all tools, the one that was used last at the end.
    costs: Mutex<Vec<(CostKey, Arc<Cost>)>>,
}

impl SavingsLedger {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { unsaved: Mutex::default(), folder, file: Mutex::default(), costs: Mutex::default() }
    }

    /// Returns the cost of all tools for a snapshot and a viewer, computed by `all` if it is not known.
    pub(crate) fn cost_of_all(&self, key: CostKey, all: impl FnOnce() -> Cost) -> Arc<Cost> {
        if let Some(known) = self.known_cost(key) {
            return known;
        }
        // Not under the lock: it can take long, and others need the costs that are known.
        let cost = Arc::new(all());
        let mut costs = lock(&self.costs);
        costs.retain(|(counted, _)| *counted != key);
        if costs.len() >= MAX_COSTS {
            costs.remove(0);
        }
        costs.push((key, Arc::clone(&cost)));
        cost
    }

    fn known_cost(&self, key: CostKey) -> Option<Arc<Cost>> {
        let mut costs = lock(&self.costs);
        let at = costs.iter().position(|(counted, _)| *counted == key)?;
        costs[at..].rotate_left(1);
        costs.last().map(|(_, cost)| Arc::clone(cost))
    }

    /// Counts a list that was sent to a client.
    pub(crate) fn count_list(&self, client: &str, all: &Cost, shown: &Cost) {
        let mut days = lock(&self.unsaved);
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
    }

    /// Counts a search or a call of a client.
    pub(crate) fn count_entry(&self, entry: &Entry) {
        if entry.source == Source::Console || entry.kind == Kind::List {
            return;
        }
        let mut days = lock(&self.unsaved);
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
    }

    /// Returns the last days, oldest first, with those of other gateways as far as they are saved.
    /// Reads the file.
    pub(crate) fn days(&self, most: usize) -> Vec<(String, Day)> {
        let since = date(seconds().saturating_sub(most.saturating_sub(1) as u64 * DAY));
        let _held = lock(&self.file);
        let saved = self.folder.as_deref().filter(|path| path.is_dir()).map(|path| read(&Folder::open(path)?));
        let mut days = match saved.transpose() {
            Ok(saved) => saved.and_then(Result::ok).unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "cannot read savings of earlier days");
                Days::default()
            }
        };
        merge(&mut days, lock(&self.unsaved).clone());
        days.split_off(&since).into_iter().collect()
    }

    /// Adds the new sums to the file. Blocks.
    pub(crate) fn save(&self) {
        let Some(path) = &self.folder else { return };
        let _held = lock(&self.file);
        let unsaved = mem::take(&mut *lock(&self.unsaved));
        if unsaved.is_empty() {
            return;
        }
        if let Err(error) = add_to_file(path, unsaved.clone()) {
            tracing::warn!(folder = %path.display(), %error, "cannot write the savings file");
            merge(&mut lock(&self.unsaved), unsaved);
        }
    }
}

/// Returns the sums in the file; the inner error is that of a damaged file.
fn read(folder: &Folder) -> io::Result<Result<Days, serde_json::Error>> {
    match folder.read(NAME, MAX_BYTES) {
        Ok(Some(text)) => Ok(serde_json::from_slice(&text)),
        Ok(None) => Err(io::Error::other(format!("`{NAME}` has more than {MAX_BYTES} bytes"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ok(Days::default())),
        Err(error) => Err(error),
    }
}

/// Adds sums to the file, one gateway at a time. Nothing can be added to a damaged file: it is renamed,
/// and a new one begins.
fn add_to_file(path: &Path, unsaved: Days) -> io::Result<()> {
    let folder = Folder::open(path)?;
    let _lock = folder.lock_within(LOCK, LOCK_WAIT)?;
    let mut days = match read(&folder)? {
        Ok(days) => days,
        Err(error) => {
            let file = path.join(DAMAGED);
            std::fs::rename(path.join(NAME), &file)?;
            tracing::warn!(file = %file.display(), %error, "damaged savings of earlier days dropped");
            Days::default()
        }
    };
    merge(&mut days, unsaved);
    while days.len() > MAX_DAYS {
        days.pop_first();
    }
    folder.replace_without_sync(NAME, &serde_json::to_vec(&days)?)
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
    use std::cell::Cell;

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
    fn gateways_that_share_a_folder_keep_each_others_sums() {
        let path = std::env::temp_dir().join(format!("pegboard-savings-shared-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let (one, other) = (SavingsLedger::new(Some(path.clone())), SavingsLedger::new(Some(path.clone())));
        let all: Cost = [("a".to_owned(), 100)].into();
        let lists = |ledger: &SavingsLedger| ledger.days(1).first().map_or(0, |(_, day)| day.total().lists);
        assert_eq!(lists(&one), 0);
        for _ in 0..3 {
            one.count_list("first", &all, &Cost::default());
            other.count_list("second", &all, &Cost::default());
            one.save();
            other.save();
            // Nothing is new.
            one.save();
        }
        one.count_list("first", &all, &Cost::default());
        assert_eq!((lists(&one), lists(&other)), (7, 6), "unsaved sums are known to their own gateway");
        let later = SavingsLedger::new(Some(path.clone())).days(1);
        let clients = &later.first().expect("today").1.clients;
        assert_eq!((clients["first"].lists, clients["second"].lists), (3, 3));
        std::fs::remove_dir_all(path).expect("a folder");
    }

    #[test]
    fn sums_that_cannot_be_written_are_kept_for_the_next_attempt() {
        let path = std::env::temp_dir().join(format!("pegboard-savings-blocked-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let ledger = SavingsLedger::new(Some(path.clone()));
        Folder::open(&path).expect("a folder");
        std::fs::create_dir(path.join(NAME)).expect("a folder where the file should be");
        ledger.count_list("test", &Cost::default(), &Cost::default());
        ledger.save();
        std::fs::remove_dir(path.join(NAME)).expect("a folder");
        ledger.save();
        let lists = SavingsLedger::new(Some(path.clone())).days(1).first().map(|(_, day)| day.total().lists);
        assert_eq!(lists, Some(1));
        std::fs::remove_dir_all(path).expect("a folder");
    }

    #[test]
    fn a_damaged_file_is_renamed_before_a_new_one_begins() {
        let path = std::env::temp_dir().join(format!("pegboard-savings-damaged-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder::open(&path).expect("a folder");
        let damaged = r#"{"2026-08-23": {"clients""#;
        std::fs::write(path.join(NAME), damaged).expect("a file");
        let ledger = SavingsLedger::new(Some(path.clone()));
        let lists = |ledger: &SavingsLedger| ledger.days(1).first().map_or(0, |(_, day)| day.total().lists);
        let text = |name: &str| std::fs::read_to_string(path.join(name)).ok();
        assert_eq!(lists(&ledger), 0);
        assert_eq!(text(NAME).as_deref(), Some(damaged), "a reader changes nothing");
        ledger.count_list("test", &Cost::default(), &Cost::default());
        ledger.save();
        assert_eq!(text(DAMAGED).as_deref(), Some(damaged));
        assert_eq!(lists(&SavingsLedger::new(Some(path.clone()))), 1);
        std::fs::remove_dir_all(path).expect("a folder");
    }

    #[test]
    fn costs_of_several_viewers_are_remembered() {
        let (ledger, computed) = (SavingsLedger::new(None), Cell::new(0));
        let cost = |version: usize| {
            let key = (version as u64, Caller::Pipe, 1);
            ledger.cost_of_all(key, || {
                computed.set(computed.get() + 1);
                // Others get what is known meanwhile.
                ledger.known_cost(key);
                [("a".to_owned(), version as u64)].into()
            })
        };
        for version in (0..MAX_COSTS).chain(0..MAX_COSTS) {
            assert_eq!(cost(version)["a"], version as u64);
        }
        assert_eq!(computed.get(), MAX_COSTS);
        cost(0);
        cost(MAX_COSTS);
        cost(0);
        assert_eq!(computed.get(), MAX_COSTS + 1, "the one that was used last stays");
        cost(1);
        assert_eq!((computed.get(), lock(&ledger.costs).len()), (MAX_COSTS + 2, MAX_COSTS));
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
