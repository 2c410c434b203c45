//! Short descriptions of servers: the user's summary, the server's own sentence, or the words that
//! its tools share.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::LazyLock,
};

use pegboard_core::{Catalog, Selection, Tool, naming};

use crate::prompt::{complete_phrase, first_paragraph, first_sentence};

/// Maximum number of words of a description.
const MAX_PHRASE_WORDS: usize = 8;

/// Maximum number of characters of a description: some scripts have no spaces.
const MAX_PHRASE_CHARS: usize = 100;

/// Minimum number of letters of a word that occurs only in descriptions.
const MIN_LETTERS: usize = 4;

/// Minimum number of tools that must share a word that occurs only in descriptions.
const MIN_TOOLS: usize = 2;

/// Words with which an instruction to the model begins; a description of a server begins with a
/// noun.
const DIRECTIVES: [&str; 22] = [
    "always",
    "ask",
    "audience",
    "before",
    "call",
    "do",
    "first",
    "follow",
    "for",
    "how",
    "if",
    "important",
    "make",
    "never",
    "note",
    "please",
    "start",
    "use",
    "using",
    "when",
    "you",
    "your",
];

/// Words that refer to another sentence.
const REFERENCES: [&str; 8] = ["it", "them", "these", "they", "this", "those", "you", "your"];

/// Words that do not distinguish one server from another: common verbs, general nouns, adjectives
/// and function words.
static GENERIC: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "a about accept access account action activate active actual add after all allow allowed also an and another \
    any api apply are as ask at available base based basic be before between bulk but by call can cancel change \
    check clear close compare complete con content convert copy count crear create current data default del delete \
    demonstrate describe detail detailed different disable do does down download each edit enable end ensure \
    entire every execute existing export extend fetch filter find first follow for form format from fuer full \
    function get give given group handle has have help how id if import in include including info information \
    input inside into is it item its just keep last latest list load long look make many mark match matching model \
    modify more most move multiple must name named new next no not number object of old on one only open operation \
    option optional optionally or order other out output over para parameter patch per perform por post preview \
    process provide provided pull push put query quick raw read record registered remove rename replace request \
    required reset resolve restore result retrieve return returned run running same save search see select send \
    server service set several show simple simulate simulated single so some sort specific specified start status \
    stop store string submit such support sync system take test text that the their them then these they thing \
    this time to toggle tool toward trigger two type undo unique until up update upload use used useful user using \
    validate value various verify version via view want was watch when where whether which while who will with \
    within without work write you your"
        .split(' ')
        .collect()
});

/// A server with its visible tools.
pub(crate) struct ServerTools<'a> {
    pub(crate) name: &'a str,
    description: &'a str,
    summary: Option<&'a str>,
    pub(crate) tools: Vec<&'a Tool>,
}

/// The visible tools of each server that has any, in catalog order, and the number of servers in
/// which each word occurs.
pub(crate) struct Servers<'a> {
    pub(crate) all: Vec<ServerTools<'a>>,
    spread: BTreeMap<String, usize>,
}

impl<'a> Servers<'a> {
    pub(crate) fn new(catalog: &'a Catalog, selection: &Selection) -> Self {
        let mut all: Vec<ServerTools<'a>> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for tool in catalog.iter().filter(|tool| selection.allows(tool)) {
            let Some(server) = tool.server() else { continue };
            let place = *places.entry(server.name.as_str()).or_insert_with(|| {
                let (name, description, summary) = (&server.name, &server.description, server.summary.as_deref());
                all.push(ServerTools { name, description, summary, tools: Vec::new() });
                all.len() - 1
            });
            all[place].tools.push(tool);
        }
        let mut spread: BTreeMap<String, usize> = BTreeMap::new();
        for stem in all.iter().flat_map(|server| server.counted().into_keys()) {
            *spread.entry(stem).or_default() += 1;
        }
        Self { all, spread }
    }

    /// Returns the category of `server`: the user's summary, else the beginning of its own
    /// description if that describes it, else words that its tools share.
    pub(crate) fn category(&self, server: &ServerTools<'_>) -> String {
        let about = server.summary.map_or_else(|| purpose(server.description), str::to_owned);
        let about = if about.is_empty() { self.words(server, 4, ", ") } else { about };
        if about.is_empty() { server.name.to_owned() } else { format!("{} ({about})", server.name) }
    }

    /// Returns the user's summary of `server`, else at most `most` words that distinguish it from the
    /// others.
    pub(crate) fn summary(&self, server: &ServerTools<'_>, most: usize, joint: &str) -> String {
        server.summary.map_or_else(|| self.words(server, most, joint), str::to_owned)
    }

    /// Returns at most `most` words that distinguish `server` from the others; for a server with
    /// one tool the beginning of that tool's description.
    fn words(&self, server: &ServerTools<'_>, most: usize, joint: &str) -> String {
        if let [tool] = server.tools.as_slice() {
            let about = phrase(first_sentence(&first_paragraph(tool.description())));
            if !about.is_empty() {
                return about;
            }
        }
        let score = |stem: &str, word: &Word| f64::from(word.weight) / self.spread.get(stem).map_or(1.0, |n| *n as f64);
        let mut words: Vec<(f64, Word)> =
            server.counted().into_iter().map(|(stem, word)| (score(&stem, &word), word)).collect();
        words.sort_by(|(a, first), (b, second)| b.total_cmp(a).then(first.at.cmp(&second.at)));
        words.into_iter().take(most).map(|(_, word)| word.form()).collect::<Vec<_>>().join(joint)
    }
}

/// A word that several tools of one server share.
#[derive(Default)]
struct Word {
    weight: u32,
    tools: usize,
    is_in_name: bool,
    /// The order in which words were first met.
    at: usize,
    forms: BTreeMap<String, usize>,
}

impl Word {
    /// Returns the most frequent form; the shorter of two.
    fn form(self) -> String {
        let best = self.forms.into_iter().max_by(|(a, n), (b, m)| n.cmp(m).then(b.len().cmp(&a.len())).then(b.cmp(a)));
        best.map(|(form, _)| form).unwrap_or_default()
    }
}

impl ServerTools<'_> {
    /// Counts the words of the tools by stem. A name weighs more than a description, and the first
    /// word of a name, mostly a verb, weighs least.
    fn counted(&self) -> BTreeMap<String, Word> {
        let own: BTreeSet<String> = name_words(self.name).map(|word| stem(&word)).collect();
        let is_telling = |word: &str| {
            let is_generic = |word: &str| GENERIC.contains(word);
            let stem = stem(word);
            word.chars().count() > 1
                && !is_generic(word)
                && !is_generic(&stem)
                && !own.contains(&stem)
                && !is_hash(word)
        };
        let mut words: BTreeMap<String, Word> = BTreeMap::new();
        for tool in &self.tools {
            let bare = tool.bare_name().rsplit("__").next().unwrap_or_default();
            let in_name: Vec<String> = name_words(bare).filter(|word| !own.contains(&stem(word))).collect();
            let first = |at: usize| if at == 0 && in_name.len() > 1 { 1 } else { 3 };
            let named = in_name.iter().enumerate().map(|(at, word)| (word.clone(), first(at), true));
            let described = description_words(tool.description()).into_iter().map(|word| (word, 1, false));
            let mut seen: BTreeSet<String> = BTreeSet::new();
            for (word, weight, is_in_name) in named.chain(described).filter(|(word, ..)| is_telling(word)) {
                let stem = stem(&word);
                if !seen.insert(stem.clone()) {
                    continue;
                }
                let at = words.len();
                let known = words.entry(stem).or_insert_with(|| Word { at, ..Word::default() });
                known.weight += weight;
                known.tools += 1;
                known.is_in_name |= is_in_name;
                *known.forms.entry(word).or_default() += 1;
            }
        }
        words.retain(|stem, word| word.is_in_name || word.tools >= MIN_TOOLS && stem.chars().count() >= MIN_LETTERS);
        words
    }
}

/// Returns the purpose of a server in a few words: the beginning of its first sentence, up to the
/// end of a phrase; empty if that is an instruction to the model.
fn purpose(description: &str) -> String {
    let paragraph = first_paragraph(description);
    let sentence = first_sentence(&paragraph);
    let words: Vec<String> = sentence.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect();
    let is_directive = words.first().is_some_and(|word| DIRECTIVES.contains(&word.as_str()))
        || words.iter().any(|word| word.starts_with("instruction") || REFERENCES.contains(&word.as_str()));
    if is_directive { String::new() } else { phrase(sentence) }
}

/// Returns the beginning of a sentence, up to the end of a phrase; empty if none ends early enough.
fn phrase(sentence: &str) -> String {
    let phrase = complete_phrase(sentence, MAX_PHRASE_WORDS);
    if phrase.chars().count() > MAX_PHRASE_CHARS { String::new() } else { phrase }
}

/// Returns the words of the first sentence of a description, without those of scripts that have no
/// spaces between words.
fn description_words(description: &str) -> Vec<String> {
    let paragraph = first_paragraph(description);
    let words = first_sentence(&paragraph).split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| naming::to_provider_name(word).bytes().all(|byte| byte.is_ascii_alphanumeric()))
        .map(str::to_lowercase)
        .collect()
}

/// Returns the words of a name in lower case: those of `list_files`, `listFiles` and `list-files`
/// are equal.
fn name_words(name: &str) -> impl Iterator<Item = String> {
    name.split(|c: char| !c.is_alphanumeric()).flat_map(|part| {
        let mut words: Vec<String> = Vec::new();
        let mut was_lower = false;
        for c in part.chars() {
            if words.is_empty() || c.is_uppercase() && was_lower {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
            was_lower = c.is_lowercase();
        }
        words
    })
}

/// Returns the form in which the singular and the plural of a word are equal.
fn stem(word: &str) -> String {
    let folded = naming::fold(word);
    if let Some(start) = folded.strip_suffix("ies").filter(|start| start.len() > 1) {
        return format!("{start}y");
    }
    for (plural, kept) in [("ches", 2), ("shes", 2), ("sses", 2), ("xes", 1)] {
        if let Some(start) = folded.strip_suffix(plural) {
            return format!("{start}{}", &plural[..kept]);
        }
    }
    let is_plural = folded.len() > 3 && folded.ends_with('s') && !folded.ends_with("ss") && !folded.ends_with("us");
    if is_plural { folded[..folded.len() - 1].to_owned() } else { folded }
}

/// Returns whether a word consists of hexadecimal digits.
fn is_hash(word: &str) -> bool {
    let is_hex = word.len() >= 6 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex && word.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use pegboard_core::RawTool;

    use super::*;

    #[test]
    fn purposes_end_with_a_phrase() {
        let check = |description: &str, expected: &str| assert_eq!(purpose(description), expected, "{description}");
        check("", "");
        check("Notes.", "Notes");
        check(
            "Team chat in a Slack workspace: channels, direct messages, files",
            "Team chat in a Slack workspace: channels",
        );
        check("A web browser under remote control, plus web search and pages", "A web browser under remote control");
        check("One two three four five six seven of the nine ten", "One two three four five six seven");
        check("Reads mail. Sends mail too.", "Reads mail");
        check("# Title\n\nKeeps notes\nfor the team", "Keeps notes for the team");
        check("# Title\n\nProvides tools for\nmanaging clusters", "Provides tools for managing clusters");
        // A paragraph that ends inside a phrase says too little.
        check("Provides tools for\n\nmanaging clusters", "");
        check("Provides tools for:\n- clusters\n- nodes", "");
        check("Title\n=====\nKeeps **notes** of `you`r team", "");
        check("Title\n=====\nKeeps **notes** in `files`", "Keeps notes in files");
        // Where no phrase ends within the limit, the names of the tools say more.
        check("Comprehensive Kubernetes cluster management tooling offering deployments pods services", "");
        check(
            "Provides a comprehensive set of tools for managing Kubernetes clusters",
            "Provides a comprehensive set of tools",
        );
        check(&"知".repeat(101), "");
    }

    #[test]
    fn instructions_to_the_model_are_not_a_purpose() {
        let check = |description: &str| assert_eq!(purpose(description), "", "{description}");
        check("# Everything Server – Server Instructions\n\nAudience: These instructions are for you.\n");
        check("Follow them to use, extend, and troubleshoot the server safely.");
        check("Use this server when the user asks for the weather.");
        check("Before calling a tool, read the guide.");
    }

    #[test]
    fn the_summary_of_the_user_comes_first() {
        let tool = |name: &str| RawTool { name: name.to_owned(), ..RawTool::default() };
        let server = pegboard_core::Server {
            name: "git".to_owned(),
            description: "Version control".to_owned(),
            summary: Some("our monorepo".to_owned()),
            ..pegboard_core::Server::default()
        };
        let (catalog, _) = Catalog::empty().with_server(server, [tool("log"), tool("diff")]);
        let servers = Servers::new(&catalog, &Selection::everything());
        assert_eq!(servers.category(&servers.all[0]), "git (our monorepo)");
        assert_eq!(servers.summary(&servers.all[0], 3, "/"), "our monorepo");
    }

    /// The words of each server, for tools given as `server`, `name`, `description`.
    fn words(tools: &[(&str, &str, &str)]) -> Vec<String> {
        let raw = |(server, name, description): &(&str, &str, &str)| RawTool {
            name: (*name).to_owned(),
            description: (*description).to_owned(),
            server: Some((*server).to_owned()),
            ..RawTool::default()
        };
        let (catalog, _) = Catalog::from_tools(tools.iter().map(raw).collect());
        let servers = Servers::new(&catalog, &Selection::everything());
        servers.all.iter().map(|server| servers.words(server, 3, "/")).collect()
    }

    #[test]
    fn words_are_the_objects_of_the_tools() {
        let check = |server: &str, names: &[&str], expected: &str| {
            let tools: Vec<(&str, &str, &str)> = names.iter().map(|name| (server, *name, "")).collect();
            assert_eq!(words(&tools), [expected], "{names:?}");
        };
        check("git", &["git_log", "git_diff", "git_diff_staged"], "diff/log/staged");
        check("memory", &["create_entities", "delete_entities", "create_relations"], "entities/relations");
        check("files", &["read_file", "listDirectory", "list-directories"], "directory");
        check("crm", &["añadir_nota", "borrar_nota"], "nota/añadir/borrar");
        check("home", &["set_24a77cb6", "set_light"], "light");
        check("x", &["get", "list"], "");
    }

    #[test]
    fn descriptions_say_what_names_do_not() {
        let zones =
            [("time", "get_current_time", "Current time in timezones"), ("time", "convert_time", "Between timezones")];
        assert_eq!(words(&zones), ["timezones"]);
        let fetch = [("fetch", "fetch", "Fetches a URL from the internet and extracts its contents.")];
        assert_eq!(words(&fetch), ["Fetches a URL from the internet"]);
        let thinking = "A detailed tool for dynamic and reflective problem-solving through thoughts.\nIt helps.";
        let thinking = [("thinking", "sequentialthinking", thinking)];
        assert_eq!(words(&thinking), ["A detailed tool for dynamic and reflective problem-solving"]);
    }

    #[test]
    fn headings_of_tools_are_skipped() {
        let check = |description: &str, expected: &str| {
            assert_eq!(words(&[("web", "fetch_page", description)]), [expected], "{description}");
        };
        check("## Overview\nFetches a URL", "Fetches a URL");
        check("Overview\n--------\n\nFetches a page\nand its images.", "Fetches a page and its images");
        check("**Overview**\n**Fetches** a URL", "Fetches a URL");
        // Without a phrase the names of the tools are used.
        check("## Overview", "page");
        check(&"知".repeat(101), "page");
        let of = |name: &'static str| ("web", name, "## Overview\n\nHandles cookies.");
        assert_eq!(words(&[of("fetch_page"), of("print_page")]), ["page/cookies/print"]);
    }

    #[test]
    fn words_of_one_server_alone_come_first() {
        let tools = [
            ("a", "list_project_issues", ""),
            ("a", "close_project_issue", ""),
            ("b", "list_project_pages", ""),
            ("b", "edit_project_page", ""),
        ];
        assert_eq!(words(&tools), ["issue/project", "page/project"]);
    }
}
