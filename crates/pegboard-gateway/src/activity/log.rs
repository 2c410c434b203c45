//! The kept entries.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{Entry, Kind, Outcome};

/// Maximum number of entries with contents.
const MAX_CONTENTS: usize = 500;

/// Maximum number of conversations whose last searches are known.
const MAX_CONVERSATIONS: usize = 200;

/// Maximum number of searches of a conversation that a call can come from.
const MAX_SEARCHES: usize = 8;

/// Arguments and the result of an entry, cut to a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) arguments: Option<String>,
    pub(crate) result: Option<String>,
    pub(crate) is_cut: bool,
}

/// Which entries are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Only those of this token.
    pub(crate) token: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) outcome: Option<String>,
    /// In lower case.
    pub(crate) text: Option<String>,
}

impl Filter {
    fn may_see(&self, entry: &Entry) -> bool {
        self.token.as_ref().is_none_or(|token| entry.token.as_ref() == Some(token))
    }

    fn fits(&self, entry: &Entry) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| wanted.as_deref().is_none_or(|one| found == Some(one));
        self.may_see(entry)
            && is(&self.kind, Some(entry.kind.as_str()))
            && is(&self.server, entry.server.as_deref())
            && is(&self.session, entry.session.as_deref())
            && is(&self.client, Some(&entry.client))
            && is(&self.outcome, Some(entry.outcome.as_str()))
            && self.text.as_ref().is_none_or(|text| entry.contains(text))
    }
}

/// The searches and calls of sessions.
pub(crate) type SessionCounts = HashMap<String, (u64, u64)>;

/// The kept entries, by number, and the contents of the newest.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Arc<Entry>>,
    contents: VecDeque<(u64, Contents)>,
    /// The last searches of conversations: their numbers, and the identities of their hits.
    searches: HashMap<String, VecDeque<(u64, Vec<String>)>>,
    /// The conversations in the order in which they came.
    conversations: VecDeque<String>,
}

impl Log {
    /// Adds an entry of an earlier run, which is newer than all others.
    pub(super) fn restore(&mut self, entry: Entry, contents: Option<Contents>) {
        if let Some(contents) = contents {
            self.add_contents(entry.seq, contents);
        }
        self.entries.push_back(Arc::new(entry));
    }

    /// Adds an entry, which is newer than all others.
    pub(super) fn add(&mut self, mut entry: Entry, contents: Option<Contents>) -> Arc<Entry> {
        entry.has_contents = contents.is_some();
        if let Some(contents) = contents {
            self.add_contents(entry.seq, contents);
        }
        let entry = Arc::new(entry);
        self.entries.push_back(Arc::clone(&entry));
        entry
    }

    fn add_contents(&mut self, seq: u64, contents: Contents) {
        if self.contents.len() >= MAX_CONTENTS {
            self.contents.pop_front();
        }
        self.contents.push_back((seq, contents));
    }

    /// Drops the oldest entries beyond `most`, and those from before `oldest`.
    pub(super) fn trim(&mut self, most: usize, oldest: u64) {
        let is_old = |entry: &Arc<Entry>| entry.at < oldest;
        while self.entries.len() > most || self.entries.front().is_some_and(is_old) {
            let Some(entry) = self.entries.pop_front() else { break };
            while self.contents.front().is_some_and(|(seq, _)| *seq <= entry.seq) {
                self.contents.pop_front();
            }
        }
    }

    /// Records the hits of a search, so that later calls of them are known.
    pub(super) fn note_search(&mut self, conversation: &str, seq: u64, hits: Vec<String>) {
        if !self.searches.contains_key(conversation) {
            if self.conversations.len() >= MAX_CONVERSATIONS
                && let Some(oldest) = self.conversations.pop_front()
            {
                self.searches.remove(&oldest);
            }
            self.conversations.push_back(conversation.to_owned());
        }
        let searches = self.searches.entry(conversation.to_owned()).or_default();
        if searches.len() >= MAX_SEARCHES {
            searches.pop_front();
        }
        searches.push_back((seq, hits));
    }

    /// Returns the latest search of a conversation that found a tool, and the rank of the tool.
    pub(super) fn search_of(&self, conversation: &str, tool: &str) -> Option<(u64, usize)> {
        let searches = self.searches.get(conversation)?;
        let found = |(seq, hits): &(u64, Vec<String>)| hits.iter().position(|hit| hit == tool).map(|at| (*seq, at + 1));
        searches.iter().rev().find_map(found)
    }

    /// Returns the number of the newest entry, of this token if one is given; 0 without entries.
    pub(crate) fn newest(&self, token: Option<&str>) -> u64 {
        let is_theirs = |entry: &&Arc<Entry>| token.is_none_or(|token| entry.token.as_deref() == Some(token));
        self.entries.iter().rev().find(is_theirs).map_or(0, |entry| entry.seq)
    }

    /// Returns the number of entries that may be seen.
    pub(crate) fn count(&self, filter: &Filter) -> usize {
        match filter.token {
            None => self.entries.len(),
            Some(_) => self.entries.iter().filter(|entry| filter.may_see(entry)).count(),
        }
    }

    /// Returns at most `limit` entries with smaller numbers than `before`, newest first, and whether
    /// there are more.
    pub(crate) fn page(&self, filter: &Filter, before: u64, limit: usize) -> (Vec<Arc<Entry>>, bool) {
        let end = self.entries.partition_point(|entry| entry.seq < before);
        let mut found = self.entries.range(..end).rev().filter(|entry| filter.fits(entry));
        let page: Vec<Arc<Entry>> = found.by_ref().take(limit).cloned().collect();
        let has_more = found.next().is_some();
        (page, has_more)
    }

    /// Returns all entries that fit, oldest first.
    pub(crate) fn all(&self, filter: &Filter) -> Vec<Arc<Entry>> {
        self.entries.iter().filter(|entry| filter.fits(entry)).cloned().collect()
    }

    /// Returns one entry with its contents, and the calls that followed it.
    pub(crate) fn detail(&self, filter: &Filter, seq: u64) -> Option<(Arc<Entry>, Option<Contents>, Vec<u64>)> {
        let at = self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok()?;
        let entry = self.entries.get(at).filter(|entry| filter.may_see(entry))?;
        let contents = self.contents.iter().find(|(one, _)| *one == seq).map(|(_, contents)| contents.clone());
        let later = self.entries.range(at..).filter(|one| one.search == Some(seq)).map(|one| one.seq);
        Some((Arc::clone(entry), contents, later.collect()))
    }

    /// Returns the calls of each tool that were made through the gateway: those of one token, or all.
    pub(crate) fn calls_by_tool(&self, token: Option<&str>) -> HashMap<String, u64> {
        let mut calls = HashMap::new();
        let is_wanted = |entry: &Entry| token.is_none_or(|token| entry.token.as_deref() == Some(token));
        let made =
            |entry: &&Arc<Entry>| entry.kind == Kind::Call && entry.outcome != Outcome::Rejected && is_wanted(entry);
        for tool in self.entries.iter().filter(made).filter_map(|entry| entry.tool.clone()) {
            *calls.entry(tool).or_insert(0) += 1;
        }
        calls
    }

    /// Returns the searches and calls of each session.
    pub(crate) fn counts_by_session(&self) -> SessionCounts {
        let mut counts = SessionCounts::new();
        for entry in &self.entries {
            let Some(session) = &entry.session else { continue };
            let (searches, calls) = match entry.kind {
                Kind::Search => (1, 0),
                Kind::Call => (0, 1),
                Kind::List => continue,
            };
            let count = counts.entry(session.clone()).or_default();
            *count = (count.0 + searches, count.1 + calls);
        }
        counts
    }

    /// Returns the contents of an entry.
    pub(super) fn contents_of(&self, seq: u64) -> Option<&Contents> {
        self.contents.iter().find(|(one, _)| *one == seq).map(|(_, contents)| contents)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::activity::Source;

    pub(in crate::activity) fn entry(seq: u64, kind: Kind, tool: Option<&str>) -> Entry {
        Entry {
            seq,
            at: seq * 1000,
            kind,
            source: Source::Client,
            client: "test".to_owned(),
            session: Some("s1".to_owned()),
            token: None,
            server: None,
            tool: tool.map(str::to_owned),
            query: None,
            dialect: None,
            hits: Vec::new(),
            matches: None,
            search: None,
            rank: None,
            duration_us: 1,
            outcome: Outcome::Ok,
            error: None,
            bytes_in: 0,
            bytes_out: 0,
            tokens: 0,
            has_contents: false,
        }
    }

    fn numbers(page: &[Arc<Entry>]) -> Vec<u64> {
        page.iter().map(|entry| entry.seq).collect()
    }

    #[test]
    fn pages_go_back_from_the_newest_entry() {
        let mut log = Log::default();
        for seq in 1..=5 {
            log.add(entry(seq, if seq == 3 { Kind::Search } else { Kind::Call }, Some("one___echo")), None);
        }
        let check = |filter: Filter, before: u64, limit: usize, expected: (&[u64], bool)| {
            let (page, has_more) = log.page(&filter, before, limit);
            assert_eq!((numbers(&page), has_more), (expected.0.to_vec(), expected.1), "{filter:?} {before} {limit}");
        };
        let calls = Filter { kind: Some("call".to_owned()), ..Filter::default() };
        check(Filter::default(), u64::MAX, 2, (&[5, 4], true));
        check(Filter::default(), 4, 10, (&[3, 2, 1], false));
        check(calls, 5, 10, (&[4, 2, 1], false));
        check(Filter { text: Some("echo".to_owned()), ..Filter::default() }, 3, 1, (&[2], true));
        check(Filter { token: Some("guest".to_owned()), ..Filter::default() }, u64::MAX, 10, (&[], false));
        check(Filter::default(), 1, 10, (&[], false));
    }

    #[test]
    fn old_entries_make_room_with_their_contents() {
        let mut log = Log::default();
        for seq in 1..=5 {
            log.add(entry(seq, Kind::Call, None), Some(Contents::default()));
        }
        log.trim(4, 0);
        assert_eq!(numbers(&log.all(&Filter::default())), [2, 3, 4, 5]);
        log.trim(4, 4000);
        assert_eq!((numbers(&log.all(&Filter::default())), log.contents.len()), (vec![4, 5], 2));
        assert!(log.detail(&Filter::default(), 1).is_none());
        assert!(log.detail(&Filter::default(), 4).is_some_and(|(_, contents, _)| contents.is_some()));
    }

    #[test]
    fn a_call_belongs_to_the_latest_search_that_found_its_tool() {
        let mut log = Log::default();
        log.note_search("a", 1, vec!["x".to_owned(), "y".to_owned()]);
        log.note_search("a", 2, vec!["y".to_owned()]);
        log.note_search("b", 3, vec!["x".to_owned()]);
        assert_eq!(log.search_of("a", "y"), Some((2, 1)));
        assert_eq!(log.search_of("a", "x"), Some((1, 1)));
        assert_eq!(log.search_of("b", "y"), None);
        for number in 0..MAX_CONVERSATIONS {
            log.note_search(&format!("c{number}"), 9, vec!["x".to_owned()]);
        }
        assert_eq!((log.search_of("a", "x"), log.searches.len()), (None, MAX_CONVERSATIONS));
    }
}
