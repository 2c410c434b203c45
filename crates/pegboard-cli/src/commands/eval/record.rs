//! Labelled queries from a record of `pegboard serve`.
//!
//! A called tool is relevant for the latest search of its session that offered it. A tool that no
//! search offered is relevant for the search right before it, if that has led to no other call: so
//! a ranker is also measured by tools that it did not find. If requests are only assumed to belong
//! together, only offered tools count.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use pegboard_core::Catalog;
use pegboard_gateway::record::{Conversation, FORMAT, Line, Search, ToolCall};
use pegboard_mcp::json::{Fields, Raw};

use super::{Data, Labelled};
use crate::{
    catalogs::{self, read_bounded},
    error::{CliError, say, warn},
};

/// Maximum size of a record.
const MAX_BYTES: usize = 1 << 30;

pub(super) fn read(path: &Path) -> Result<Data, CliError> {
    let bytes = read_bounded(path, MAX_BYTES)?;
    if bytes.len() > MAX_BYTES {
        return Err(CliError::new(format!("`{}` is larger than {MAX_BYTES} bytes", path.display())));
    }
    let mut record = Record::default();
    record.read(&bytes);
    if !record.has_begun {
        return Err(CliError::new(format!("`{}` is not a record", path.display()))
            .hint("`pegboard serve --record FILE` writes one; otherwise name a folder with labelled queries"));
    }
    if record.newest > FORMAT {
        warn(&format!("`{}` was written by a newer version; unknown entries are ignored", path.display()));
    }
    // The last line of a gateway that was killed may be incomplete.
    match record.unread {
        0 => {}
        1 => warn(&format!("one line of `{}` cannot be read", path.display())),
        several => warn(&format!("{several} lines of `{}` cannot be read", path.display())),
    }
    let catalog = record.catalog(path)?;
    let all = record.queries.len();
    let queries = record.labelled(&catalog);
    if queries.is_empty() {
        return Err(CliError::new(format!("no search in `{}` led to a call", path.display()))
            .hint("use the gateway with a model for a while, then try again"));
    }
    say(&format!("{} of {all} searches led to a call", queries.len()));
    Ok(Data { catalog, queries })
}

#[derive(Default)]
struct Record {
    has_begun: bool,
    newest: u32,
    /// Number of lines that cannot be parsed.
    unread: usize,
    /// The latest definitions of the tools, in the order in which they came.
    tools: Vec<Raw>,
    places: HashMap<String, usize>,
    queries: Vec<Labelled>,
    searches: HashMap<Conversation, Vec<RecordedSearch>>,
}

/// A search that may lead to calls.
struct RecordedSearch {
    /// The index of its query.
    query: usize,
    offered: Vec<String>,
}

impl Record {
    fn read(&mut self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            match serde_json::from_slice(line) {
                Ok(Line::Begin { format, .. }) => (self.has_begun, self.newest) = (true, self.newest.max(format)),
                Ok(Line::Tool(tool)) => self.tool(tool),
                Ok(Line::Search(search)) => self.search(search),
                Ok(Line::Call(call)) => self.call(call),
                Ok(_) | Err(_) => self.unread += 1,
            }
        }
    }

    fn tool(&mut self, tool: Raw) {
        let Some(id) = Fields::of(&tool).and_then(|fields| fields.text("id")) else { return self.unread += 1 };
        match self.places.get(&id) {
            Some(at) => self.tools[*at] = tool,
            None => {
                self.places.insert(id, self.tools.len());
                self.tools.push(tool);
            }
        }
    }

    fn search(&mut self, search: Search) {
        let asked = RecordedSearch { query: self.queries.len(), offered: search.offered };
        self.queries.push(Labelled { text: search.query, relevant: HashMap::new() });
        self.searches.entry(search.conversation).or_default().push(asked);
    }

    fn call(&mut self, call: ToolCall) {
        let Some(asked) = self.searches.get(&call.conversation) else { return };
        let offering = asked.iter().rev().find(|asked| asked.offered.contains(&call.tool));
        let last = asked.last().filter(|_| !call.conversation.is_guess);
        let last = last.filter(|asked| self.queries[asked.query].relevant.is_empty());
        if let Some(asked) = offering.or(last) {
            self.queries[asked.query].relevant.insert(call.tool, 1.0);
        }
    }

    fn catalog(&self, path: &Path) -> Result<Catalog, CliError> {
        let lines: String = self.tools.iter().map(|tool| format!("{}\n", tool.get())).collect();
        catalogs::parse(&path.display().to_string(), lines.as_bytes())
    }

    /// Returns the queries that have a relevant tool in the catalog.
    fn labelled(self, catalog: &Catalog) -> Vec<Labelled> {
        let known: HashSet<&str> = catalog.iter().map(|tool| tool.id()).collect();
        let labelled = self.queries.into_iter().map(|mut query| {
            query.relevant.retain(|tool, _| known.contains(tool.as_str()));
            query
        });
        labelled.filter(|query| !query.relevant.is_empty() && !query.text.trim().is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads searches (`query > offered offered`) and calls (`tool`) of sessions, and checks what
    /// is then relevant for each search.
    #[track_caller]
    fn check(events: &[(&str, &str)], expected: &[&str]) {
        let mut record = Record::default();
        for (conversation, event) in events {
            let is_guess = conversation.ends_with('?');
            let conversation = Conversation { conversation: (*conversation).to_owned(), is_guess };
            let conversation = serde_json::to_value(conversation).expect("JSON");
            let mut line = match event.split_once(" > ") {
                Some((query, offered)) => {
                    let offered: Vec<&str> = offered.split_whitespace().collect();
                    serde_json::json!({"search": {"at": 0, "query": query, "tools": 9, "offered": offered}})
                }
                None => serde_json::json!({"call": {"at": 0, "tool": event}}),
            };
            let fields = line.as_object_mut().and_then(|line| line.values_mut().next()?.as_object_mut());
            fields.expect("an object").extend(conversation.as_object().expect("an object").clone());
            record.read(line.to_string().as_bytes());
        }
        assert_eq!(record.unread, 0);
        let shown = |query: &Labelled| {
            let mut tools: Vec<&str> = query.relevant.keys().map(String::as_str).collect();
            tools.sort_unstable();
            format!("{}: {}", query.text, tools.join(" "))
        };
        assert_eq!(record.queries.iter().map(shown).collect::<Vec<_>>(), expected, "{events:?}");
    }

    #[test]
    fn what_a_call_says_of_searches() {
        check(&[("1", "issue > a b"), ("1", "b")], &["issue: b"]);
        check(&[("1", "issue > a b"), ("2", "b")], &["issue: "]);
        check(&[("1", "x > a"), ("1", "y > b"), ("1", "a"), ("1", "b")], &["x: a", "y: b"]);
        check(&[("1", "x > a"), ("1", "y > a"), ("1", "a")], &["x: ", "y: a"]);
        // A called tool that was not offered should have been.
        check(&[("1", "x > a"), ("1", "c")], &["x: c"]);
        check(&[("1", "x > a"), ("1", "a"), ("1", "c")], &["x: a"]);
        check(&[("1?", "x > a"), ("1?", "c"), ("1?", "a")], &["x: a"]);
        check(&[("1", "a")], &[]);
    }

    #[test]
    fn lines_that_were_cut_are_counted() {
        let mut record = Record::default();
        record.read(b"{\"begin\":{\"format\":1,\"version\":\"0\",\"at\":0}}\n{\"tool\":{\"id\":\"a\",\"na\n\n{\"tool\":{\"id\":\"a\"}}");
        assert_eq!((record.has_begun, record.unread, record.tools.len()), (true, 1, 1));
    }
}
