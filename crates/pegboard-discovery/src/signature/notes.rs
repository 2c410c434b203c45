//! Notes on a parameter: what its description adds to its name and type, in a few words.
//!
//! Rules, not a model: a description is cut into clauses, and each clause is searched for
//! allowed values, a format, an example, a range, a unit or a default. Descriptions that have
//! none of them yield no note: most of them only repeat the name.
//!
//! A note never begins in the middle of a phrase, and never gives one of several allowed forms
//! as if it were the only one: where a clause has alternatives, the whole clause is shown. It may
//! be cut at its end, and says so with `…`.

use std::sync::LazyLock;

use pegboard_core::text;
use regex::{Match, Regex};
use serde_json::{Map, Value};

use crate::prompt::one_line;

/// Maximum number of characters of a note.
pub(super) const MAX_NOTE: usize = 60;

/// Maximum number of characters of a note that lists allowed values: half of them are worth little.
pub(super) const MAX_VALUES: usize = 120;

/// Maximum number of characters of examples; further examples are left out.
const MAX_EXAMPLES: usize = 40;

/// Maximum number of bytes of a description that are read.
const MAX_READ: usize = 800;

/// Maximum number of bytes of a shown pattern.
const MAX_PATTERN: usize = 24;

/// Maximum number of words of a format that are compared with the name of the parameter.
const MAX_FORMAT_WORDS: usize = 5;

/// Kinds of facts, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Values,
    Format,
    Unit,
    Example,
    Range,
    Default,
}

/// One fact about a parameter from a clause.
struct Fact {
    kind: Kind,
    /// The words that say it, to be compared with the name.
    words: String,
    /// The text that is shown.
    shown: String,
}

/// The facts about one parameter beyond its name and type.
#[derive(Default)]
struct Facts(Vec<Fact>);

/// Returns the note on a parameter, on one line and without `*/`; `None` if name and type say
/// everything.
pub(super) fn note(name: &str, property: &Value, siblings: &Map<String, Value>) -> Option<String> {
    let mut facts = Facts::default();
    let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
    facts.read_description(description, property.get("default").is_some());
    facts.read_schema(property);
    facts.drop_repetitions(name);
    facts.drop_references(siblings);
    facts.strip_name(name);
    facts.into_note()
}

impl Facts {
    /// Adds a fact that is shown unchanged.
    fn add(&mut self, kind: Kind, fact: &str) {
        self.add_shown(kind, fact, fact);
    }

    /// Adds a fact. Only the first fact of a kind counts: descriptions begin with the general case.
    fn add_shown(&mut self, kind: Kind, words: &str, shown: &str) {
        let is_edge = |c: char| c.is_whitespace() || ",;:.".contains(c);
        let (words, shown) = (words.trim_matches(is_edge), shown.trim_matches(is_edge));
        let is_known = self.0.iter().any(|other| other.kind == kind);
        if !words.is_empty() && !shown.is_empty() && !is_known {
            self.0.push(Fact { kind, words: words.to_owned(), shown: shown.to_owned() });
        }
    }

    fn read_description(&mut self, description: &str, has_default: bool) {
        let start = &description[..description.floor_char_boundary(MAX_READ)];
        let mut text = String::with_capacity(start.len());
        for line in start.lines() {
            // Whatever is removed must be gone before `*/` is looked for.
            let line = one_line(&text::line(line));
            let item = ["- ", "* ", "• "].iter().find_map(|bullet| line.strip_prefix(bullet));
            // Lines break anywhere in a sentence, but paragraphs and items are clauses.
            text.push_str(if line.is_empty() || item.is_some() { "; " } else { " " });
            text.push_str(item.unwrap_or(&line));
        }
        let text = text.replace(" (default)", "");
        for sentence in sentences(&LINK.replace_all(&text, "$1")) {
            self.read_sentence(sentence, has_default);
        }
    }

    fn read_sentence(&mut self, sentence: &str, has_default: bool) {
        // What goes on behind parentheses is one clause, and the forms in it belong together.
        if GOES_ON.is_match(sentence) {
            let without_examples = EXAMPLE_ASIDE.replace_all(sentence, "");
            return self.read_clause(&without_examples, "", has_default);
        }
        let mut parts = sentence.split(['(', ')']).map(str::trim).peekable();
        while let Some(clause) = parts.next() {
            // A pattern explains the format in front of it: `24-hour format (HH:MM)`.
            let is_pattern = |aside: &&str| !aside.contains(' ') && FORMAT.is_match(aside) && is_balanced(aside);
            let pattern = parts.peek().copied().filter(is_pattern).unwrap_or_default();
            self.read_clause(clause, pattern, has_default);
        }
    }

    fn read_clause(&mut self, clause: &str, pattern: &str, has_default: bool) {
        let example = EXAMPLE.captures(clause).and_then(|found| Some((found.get(0)?.start(), found.get(1)?.as_str())));
        if let Some(examples) = example.and_then(|(_, examples)| first_items(examples)) {
            self.add(Kind::Example, &format!("e.g. {examples}"));
        }
        let clause = example.map_or(clause, |(start, _)| &clause[..start]);
        if let Some(values) = listed_values(clause) {
            self.add_shown(Kind::Values, values.as_str(), &cut_list(with_alternatives(clause, &values)));
        } else if let Some(choice) = choice(clause) {
            self.add(Kind::Values, &choice);
        }
        self.read_format(clause, pattern);
        if let Some(unit) = UNIT.captures(clause).and_then(|found| found.get(1)) {
            self.add_shown(Kind::Unit, unit.as_str(), whole_if_choice(clause, unit.as_str()));
        }
        // The parts of a date are not a range.
        let follows_digit = |at: usize| clause[..at].ends_with(|c: char| c.is_ascii_digit() || "-–/.:".contains(c));
        if let Some(range) = RANGE.find_iter(clause).find(|range| !follows_digit(range.start())) {
            self.add_shown(Kind::Range, range.as_str(), whole_if_choice(clause, range.as_str()));
        }
        if let Some(default) = DEFAULT.captures(clause).and_then(|found| found.get(1)).filter(|_| !has_default) {
            self.add(Kind::Default, &format!("default {}", default.as_str()));
        }
    }

    fn read_format(&mut self, clause: &str, pattern: &str) {
        let weak = || WEAK_FORMAT.captures(clause).and_then(|found| found.get(1).or_else(|| found.get(2)));
        let Some(format) = FORMAT.find(clause).or_else(weak) else { return };
        let words = phrase(&clause[format.start()..]);
        let mut shown = clause[phrase_start(clause, format.start())..].trim().to_owned();
        if !is_balanced(&shown) {
            shown = shown.replace(['"', '\'', '`'], "");
        }
        if !pattern.is_empty() {
            shown = format!("{shown} ({pattern})");
        }
        // A cut that loses the format leaves nothing worth reading.
        if text::excerpt(&shown, MAX_NOTE).contains(format.as_str()) && is_balanced(&shown) {
            self.add_shown(Kind::Format, words, &shown);
        }
    }

    /// Adds what the schema defines and the type does not.
    fn read_schema(&mut self, property: &Value) {
        let text = |key: &str| property.get(key).and_then(Value::as_str);
        let format = text("format").and_then(|format| {
            let known = FORMATS.iter().find(|(name, _)| *name == format);
            known.map(|(_, shown)| *shown)
        });
        if let Some(format) = format {
            self.add(Kind::Format, format);
        }
        if let Some(pattern) = text("pattern").filter(|pattern| pattern.len() <= MAX_PATTERN) {
            self.add(Kind::Format, &text::line(pattern));
        }
        let example = property.get("examples").and_then(|examples| examples.get(0)).or_else(|| property.get("example"));
        if let Some(example) = example.filter(|example| super::is_short(example)) {
            self.add(Kind::Example, &format!("e.g. {}", text::line(&example.to_string())));
        }
        match (bound(property, "minimum"), bound(property, "maximum")) {
            (Some(least), Some(most)) => self.add(Kind::Range, &format!("{least} to {most}")),
            (None, Some(most)) => self.add(Kind::Range, &format!("at most {most}")),
            // A least value alone is nearly always 0 or 1.
            _ => {}
        }
    }

    /// Drops facts whose words the name of the parameter already contains.
    fn drop_repetitions(&mut self, name: &str) {
        let name = folded(name);
        self.0.retain(|fact| {
            let says_more = |word: &str| {
                let word = folded(word);
                !word.is_empty() && !IDLE.contains(&word.as_str()) && !name.contains(word.trim_end_matches('s'))
            };
            fact.kind == Kind::Example || fact.words.split([' ', '-']).any(says_more)
        });
    }

    /// Drops words of the name in front of a format: `Source IANA timezone name` of
    /// `source_timezone`.
    fn strip_name(&mut self, name: &str) {
        let name = folded(name);
        for fact in self.0.iter_mut().filter(|fact| fact.kind == Kind::Format) {
            let Some(at) = fact.shown.find(&fact.words) else { continue };
            let before = &fact.shown[..at];
            let is_in_name = |word: &str| !folded(word).is_empty() && name.contains(&folded(word));
            if before.split_whitespace().all(is_in_name) && !ALTERNATIVE.is_match(before) {
                fact.shown.drain(..at);
            }
        }
    }

    /// Drops values that are other parameters: "either `content` or `path` must be given".
    fn drop_references(&mut self, siblings: &Map<String, Value>) {
        let is_sibling = |word: &str| siblings.contains_key(word);
        let names_sibling = |words: &str| words.split(['"', '\'', '`', ' ', ',']).any(is_sibling);
        self.0.retain(|fact| fact.kind != Kind::Values || !names_sibling(&fact.words));
    }

    fn into_note(mut self) -> Option<String> {
        self.0.sort_by_key(|fact| fact.kind);
        let mut note = String::new();
        for Fact { kind, words, shown: fact } in self.0 {
            let is_said = note.contains(&words) || (kind == Kind::Default && note.contains("default"));
            if note.is_empty() {
                let most = if kind == Kind::Values { MAX_VALUES } else { MAX_NOTE };
                note = text::excerpt(&fact, most).into_owned();
            } else if !is_said && note.chars().count() + fact.chars().count() + 2 <= MAX_NOTE {
                note.push_str(", ");
                note.push_str(&fact);
            }
        }
        // It would end the comment around it, and cannot be escaped there.
        (!note.is_empty() && !note.contains("*/")).then_some(note)
    }
}

/// Formats of JSON Schema and what a reader knows them as.
const FORMATS: [(&str, &str); 11] = [
    ("date-time", "ISO 8601 date-time"),
    ("date", "YYYY-MM-DD"),
    ("time", "ISO 8601 time"),
    ("duration", "ISO 8601 duration"),
    ("uri", "URL"),
    ("url", "URL"),
    ("email", "email"),
    ("uuid", "UUID"),
    ("ipv4", "IPv4"),
    ("json", "JSON"),
    ("byte", "base64"),
];

/// Words that say nothing in a format.
const IDLE: [&str; 12] =
    ["format", "formatted", "string", "the", "a", "in", "of", "to", "value", "id", "name", "number"];

/// A link in Markdown.
static LINK: LazyLock<Regex> = LazyLock::new(|| regex(r"\[([^\[\]]*)\]\([^()]*\)"));

/// An example in parentheses.
static EXAMPLE_ASIDE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i)\s*\((?:e\.?g\b|for example|for instance|examples?:|such as)[^()]*\)"));

/// Parentheses behind which a list of alternatives goes on.
static GOES_ON: LazyLock<Regex> = LazyLock::new(|| regex(r"\)(?:,| or\b)"));

/// A joint between alternatives.
static ALTERNATIVE: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)\b(?:or|o|ou|oder)\b|或|または"));

/// What a phrase that is complete in itself may follow; in group 1 a comma, behind which a list may
/// go on.
static PHRASE_START: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"(?i)(?:^|:\s*|(,)\s*|\b(?:in|as|using|be)\s+)(?:(?:the|an?|optional|valid|full)\s+)*["'`\[<{]?$"#)
});

/// Articles and the like in front of a clause.
static ARTICLES: LazyLock<Regex> = LazyLock::new(|| regex(r"^(?i:(?:the|an?)\s+)+"));

static EXAMPLE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?i)(?:\b(?:e\.?g\b\.?|for example|for instance|examples?:|such as)|例如|例えば|例：)[,:，：]*\s*(.+)")
});

/// Words that announce a choice.
static CHOICE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)\b(?:(?:valid|allowed|possible|accepted|supported|available)\ (?:values|options|types)
            | one\ of | either | options | (?:can|must|should)\ be | values)(?:\ are|\ is|\ include)?:?\ (.+)",
    )
});

/// At least two quoted values in a row.
static QUOTED: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?:["'`][^"'`]{1,40}["'`](?:\s*(?:,|\||/|\bor\b|\band\b))+\s*)+["'`][^"'`]{1,40}["'`]"#));

/// Single words behind a colon, and a word before it that says what they are.
static WORDS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)\b(?:perform|values?|options?|types?|formats?|modes?|actions?|operations?|status(?:es)?|states
            |choices|levels?|are|include|from|one\ of)\s*:\s+
            ([\w./-]+(?:(?:\s*[,|]\s*(?:or\ |and\ )?|\ or\ )[\w./-]+)+)\.?$",
    )
});

/// Names of formats that mean the same wherever they stand.
static FORMAT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?x)\b(?:
            (?i:ISO[\ -]?\d+[\w-]* | RFC[\ -]?\d+ | BCP[\ -]?47 | E\.164 | ISO | IANA | UTC | GMT | epoch | unix
            | base-?64 | UTF-?8 | regex | regular\ expression | glob | wildcards? | cron | xpath | A1\ notation
            | (?:comma|newline|space|semicolon|pipe|tab)[\ -](?:separated|delimited)
            | (?:URL|percent)-encoded | relative\ to | absolute | [01]-(?:based|indexed)
            | 24-hour | 12-hour | (?:two|three|2|3)[\ -]letter | hex\w* | case[\ -](?:in)?sensitive)
            | YYYY[\w:/.-]* | yyyy[\w:/.-]* | HH:[Mm]{2}[\w:]* | MM[/-]DD[\w/-]*
        )\b",
    )
});

/// Names of formats that are often only mentioned: they count at the beginning of a clause, and
/// where a word says that they are a format.
static WEAK_FORMAT: LazyLock<Regex> = LazyLock::new(|| {
    const NAMES: &str = "JSON|YAML|XML|CSV|HTML|SQL|JQL|CQL|KQL|GAQL|OData|GraphQL|CSS|URLs?|URIs?|UUIDs?|GUIDs?|ARNs?\
                         |CIDR|SHA|MIME|PEM|WKT|GeoJSON|LaTeX|[Mm]arkdown";
    const NOUNS: &str = "format|string|object|array|list|text|syntax|expression|query|pattern|notation|file|encoded";
    regex(&format!(
        r"^(?:(?:[Tt]he|[Aa]n?|[Ff]ull|[Ii]n|[Aa]s|[Oo]ptional|[Vv]alid)\s+)*((?:{NAMES}))\b|\b((?:{NAMES})[ -](?:{NOUNS})\b)"
    ))
});

static UNIT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)\b(?:in|number\ of|as)\s+(?:the\s+)?(
            (?:milli|micro|nano)?seconds | ms | minutes | hours | days | weeks | months | years
            | bytes | [KMG]i?B | (?:kilo|mega|giga)bytes | (?:kilo|centi|milli)?met(?:er|re)s | km | miles | feet
            | celsius | fahrenheit | kelvin | degrees | radians | percent | percentage | cents | pixels | px | points
            | USD | dollars | euros | kg | kilograms | grams | pounds
            | (?:smallest|minor|base)\ (?:currency\ )?units?)\b",
    )
});

static RANGE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)(?:
            \bbetween\ -?\d[\d.,]*\ and\ -?\d[\d.,]*
            | -?\b\d{1,3}(?:\.\d+)?\s?(?:-|–|to)\s?-?\d+(?:\.\d+)?\b
            | \b(?:max(?:imum)?|min(?:imum)?|up\ to|at\ most|at\ least|no\ more\ than)
              (?:\ of|\ is|\ allowed|\ length)*:?\s\d[\d,.]*
        )(?:\ (?:characters|chars|items|bytes|[KMG]B)\b)?",
    )
});

/// Defaults that are quoted or constants; numbers are mostly those of page sizes.
static DEFAULT: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"\b[Dd]efault(?:s to|ing to| is|s|:| value:?| value is)\s*:?\s*(["'`][^"'`]+["'`]|[A-Z][A-Z0-9_-]+\b)"#)
});

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern that a test compiles")
}

/// Returns the sentences of `text`, and the text after dashes.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let is_end = |at: usize, c: char| match c {
        ';' | '。' => true,
        '—' | '–' | '-' => text[..at].ends_with(' ') && text[at + c.len_utf8()..].starts_with(' '),
        '.' => text[at + 1..].starts_with(' ') && !ABBREVIATIONS.iter().any(|word| text[..at].ends_with(word)),
        _ => false,
    };
    let mut start = 0;
    let ends = text.char_indices().filter(move |(at, c)| is_end(*at, *c));
    ends.map(|(at, c)| (at, at + c.len_utf8())).chain([(text.len(), text.len())]).map(move |(end, next)| {
        let sentence = &text[start..end];
        start = next;
        sentence.trim()
    })
}

/// Abbreviations whose full stop does not end a sentence.
const ABBREVIATIONS: [&str; 5] = ["e.g", "E.g", "i.e", " vs", " eg"];

/// Where the phrase begins that has the format at `at`: there if what stands before it is not a
/// part of it, else at the beginning of the clause.
fn phrase_start(clause: &str, at: usize) -> usize {
    let (before, after) = clause.split_at(at);
    let whole = ARTICLES.find(clause).map_or(0, |articles| articles.end()).min(at);
    let Some(start) = PHRASE_START.captures(before) else { return whole };
    let may_be_in_list = start.get(1).is_some() && ALTERNATIVE.is_match(after);
    if may_be_in_list || ALTERNATIVE.is_match(before) { whole } else { at }
}

/// Returns the clause if it has alternatives to `fact`, else the fact alone.
fn whole_if_choice<'a>(clause: &'a str, fact: &'a str) -> &'a str {
    let has_alternatives = clause.split(fact).any(|other| ALTERNATIVE.is_match(other));
    if has_alternatives { &clause[ARTICLES.find(clause).map_or(0, |articles| articles.end())..] } else { fact }
}

/// Returns the allowed values that a clause lists.
fn listed_values(clause: &str) -> Option<Match<'_>> {
    let words = || WORDS.captures(clause).and_then(|found| found.get(1));
    QUOTED.find(clause).or_else(words)
}

/// Returns quoted values with the alternatives to them that are described in words.
fn with_alternatives<'a>(clause: &'a str, values: &Match<'_>) -> &'a str {
    let before = clause[..values.start()].trim_end().to_lowercase();
    let after = clause[values.end()..].trim_start_matches([',', ' ']);
    let start = if before.ends_with(" or") || before.ends_with(',') { 0 } else { values.start() };
    let goes_on = ALTERNATIVE.find(after).is_some_and(|joint| joint.start() == 0);
    &clause[start..if goes_on { clause.len() } else { values.end() }]
}

/// Returns the alternatives that a clause describes, if two of them can be shown.
fn choice(clause: &str) -> Option<String> {
    let choice = text::excerpt(CHOICE.captures(clause).and_then(|found| found.get(1))?.as_str(), MAX_NOTE);
    (choice.contains(" or ") || choice.contains(", ")).then(|| choice.into_owned())
}

/// Returns the words at the start of `text` that belong together.
fn phrase(text: &str) -> &str {
    const RELATION: &str = "relative to";
    const ENDS: [&str; 24] = [
        "for",
        "of",
        "to",
        "that",
        "which",
        "when",
        "where",
        "from",
        "in",
        "by",
        "with",
        "used",
        "using",
        "the",
        "we",
        "containing",
        "and",
        "is",
        "are",
        "this",
        "your",
        "representing",
        "specifying",
        "will",
    ];
    let is_relation = text.get(..RELATION.len()).is_some_and(|start| start.eq_ignore_ascii_case(RELATION));
    let least = if is_relation { 4 } else { 1 };
    let mut end = 0;
    for (at, word) in text.split_inclusive(' ').enumerate() {
        let bare = word.trim_end();
        let is_end = at >= least && ENDS.contains(&bare.to_lowercase().as_str());
        if at >= MAX_FORMAT_WORDS || is_end {
            break;
        }
        end += word.len();
        if bare.ends_with([',', ':', '.']) {
            break;
        }
    }
    // What stood in quotes or brackets may have lost one of them.
    text[..end].trim_matches(|c: char| c.is_whitespace() || "[]<>{}\"'`,:.".contains(c))
}

/// Returns as many complete examples as are worth their length.
fn first_items(examples: &str) -> Option<&str> {
    let examples = examples.trim_end_matches(['.', ' ']);
    let joints = [", ", " or ", " and ", " to "];
    let mut ends: Vec<usize> =
        joints.iter().flat_map(|joint| examples.match_indices(joint)).map(|(at, _)| at).collect();
    ends.sort_unstable();
    let ends = [examples.len()].into_iter().chain(ends.into_iter().rev());
    let mut items = ends.map(|end| examples[..end].trim_end_matches([',', ' ']));
    let items = items.find(|items| items.chars().count() <= MAX_EXAMPLES && is_balanced(items))?;
    // Several plain words are an occasion or a purpose, not a value.
    let first = items.split(", ").next().unwrap_or(items);
    let is_prose = first.contains(' ') && first.chars().all(|c| c.is_lowercase() || c == ' ');
    (!is_prose).then_some(items)
}

fn is_balanced(text: &str) -> bool {
    let count = |sign: char| text.matches(sign).count();
    ['"', '\'', '`'].iter().all(|quote| count(*quote) % 2 == 0)
        && [('(', ')'), ('[', ']'), ('{', '}')].iter().all(|(open, close)| count(*open) == count(*close))
}

/// Returns values in at most [`MAX_VALUES`] characters; the others are counted.
fn cut_list(values: &str) -> String {
    const COUNT: usize = 10;
    if values.chars().count() <= MAX_VALUES {
        return values.to_owned();
    }
    let most = values.char_indices().nth(MAX_VALUES - COUNT).map_or(values.len(), |(at, _)| at);
    let end = values[..most].rfind(',').unwrap_or(most);
    format!("{}, …{} more", &values[..end], values[end..].matches(',').count().max(1))
}

/// Returns a bound that the author of a schema chose; those of the number types are ignored.
fn bound(property: &Value, key: &str) -> Option<String> {
    const LARGEST: f64 = 1e9;
    let number = property.get(key)?;
    number.as_f64().filter(|value| value.abs() <= LARGEST).map(|_| number.to_string())
}

/// Returns the letters and digits of a text in lower case.
fn folded(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(name: &str, property: &Value, expected: &str) {
        let siblings = json!({"content": {}, "path": {}});
        let siblings = siblings.as_object().expect("an object");
        assert_eq!(note(name, property, siblings).unwrap_or_default(), expected);
    }

    #[track_caller]
    fn check_text(name: &str, description: &str, expected: &str) {
        check(name, &json!({"type": "string", "description": description}), expected);
    }

    #[test]
    fn descriptions_that_repeat_the_name_say_nothing() {
        check_text("owner", "The owner of the repo", "");
        check_text("issue_number", "Issue number", "");
        check_text("url", "URL to perform PUT operation", "");
        check_text("days", "Number of days", "");
        check_text("query", "Search query. Required.", "");
        check_text("page_id", "ID of the page, as found in its URL", "");
        check_text("key", "Space key, global or personal", "");
        check_text("limit", "Maximum number of results to return. Defaults to 10.", "");
    }

    #[test]
    fn formats_and_units() {
        check_text("time", "Time to convert in 24-hour format (HH:MM)", "24-hour format (HH:MM)");
        check_text("end_date", "End time for sprint (ISO 8601 format)", "ISO 8601 format");
        check_text("labels", "A comma-separated list of labels", "comma-separated list of labels");
        check_text("timeout", "How long to wait, in milliseconds.", "milliseconds");
        check_text("seconds", "How long to wait, in seconds.", "");
        check_text("path", "Path relative to the root of the project", "relative to the root of the project");
        check_text("day", "Day of the visit, 'YYYY-MM-DD'.", "YYYY-MM-DD");
        check_text(
            "since",
            "Only after this [ISO 8601](https://example.com/iso) time",
            "Only after this ISO 8601 time",
        );
        check_text("project_id", "Project ID or URL-encoded path", "Project ID or URL-encoded path");
        check_text("body", "Updated comment text in Markdown format", "Markdown format");
    }

    #[test]
    fn a_note_is_a_whole_clause() {
        check_text("color", "Name or hex value", "Name or hex value");
        check_text("color", "Color or hex value", "Color or hex value");
        check_text("source_timezone", "Source IANA timezone name", "IANA timezone name");
        check_text("pais", "Código de país ISO", "Código de país ISO");
        check_text("time", "24-hour format (HH:MM)", "24-hour format (HH:MM)");
        check_text("date", "查询日期，例如 2025-01-29", "e.g. 2025-01-29");
        check_text("date", "出发日 2025-01-29", "");
        check_text("amount", "Amount in the smallest unit, e.g. cents", "smallest unit, e.g. cents");
        check_text("wait", "Wait in seconds or until an event", "Wait in seconds or until an event");
        check_text("who", "A user ID, 'me' or 'all'", "A user ID, 'me' or 'all'");
        check_text("who", "Either 'me', 'all' or a user ID", "'me', 'all' or a user ID");
        check_text("when", "Date (ISO 8601) or relative words", "Date (ISO 8601) or relative words");
        check_text(
            "since",
            "Start of the period. Accepts: ISO 8601 format (e.g., '2024-01-15T14:30:25'), relative dates (e.g., \
             '2 weeks ago', 'yesterday'), or absolute dates (e.g., 'Jan 15 2024')",
            "ISO 8601 format, relative dates, or absolute dates",
        );
    }

    #[test]
    fn a_note_is_cut_at_its_end_alone() {
        check_text(
            "start",
            "ISO 8601 timestamp of the first moment that the report covers for all accounts",
            "ISO 8601 timestamp of the first moment that the report…",
        );
        check_text(
            "start",
            "The first moment that the report covers for all of the accounts, an ISO 8601 time",
            "ISO 8601 time",
        );
        check_text("start", "The first moment that the report of all of the accounts covers given by ISO 8601", "");
    }

    #[test]
    fn examples() {
        check_text(
            "timezone",
            "IANA timezone name (e.g., 'America/New_York', 'Europe/London'). Use 'UTC' if none is known.",
            "IANA timezone name, e.g. 'America/New_York', 'Europe/London'",
        );
        check_text("issue_key", "Jira issue key, for example PROJ-123.", "e.g. PROJ-123");
        check_text("filter", "Labels, such as {\"a\": 1, \"bbbbbbbbbbbbbbbbbbbbbb\": 2, \"c\": 3}", "");
        check_text("hook", "Called on events (e.g. call ended)", "");
    }

    #[test]
    fn allowed_values() {
        check_text("op", "Must be one of \"add\", \"update\",\nor \"delete\".", "\"add\", \"update\", or \"delete\"");
        check_text("op", "Operation to perform: add-steps, list-steps. Others need rights.", "add-steps, list-steps");
        check_text("mode", "How to write — 'replace' (default), or 'append'", "'replace', or 'append'");
        check_text("data", "Either 'content' or 'path' must be given", "");
        let many = (0..40).map(|at| format!("value-{at}")).collect::<Vec<_>>().join(", ");
        let found = note("op", &json!({"description": format!("Values: {many}")}), &Map::new()).unwrap_or_default();
        assert!(found.ends_with(", …28 more") && found.chars().count() <= MAX_VALUES, "{found}");
    }

    #[test]
    fn schemas() {
        check("at", &json!({"format": "date-time"}), "ISO 8601 date-time");
        check("url", &json!({"format": "uri"}), "");
        check("id", &json!({"pattern": "^[A-Z]{3}$"}), "^[A-Z]{3}$");
        check("id", &json!({"pattern": "^.*/$"}), "");
        check("limit", &json!({"minimum": 1, "maximum": 100}), "1 to 100");
        check("limit", &json!({"minimum": 1, "maximum": i64::MAX}), "");
        check("limit", &json!({"minimum": 1, "maximum": 50, "description": "Up to 50"}), "Up to 50");
        check("zone", &json!({"examples": ["eu-1", "eu-2"]}), "e.g. \"eu-1\"");
        check("method", &json!({"description": "Defaults to `POST`"}), "default `POST`");
        check("method", &json!({"description": "Defaults to `POST`", "default": "POST"}), "");
    }

    #[test]
    fn a_note_cannot_end_its_comment() {
        check_text("files", "Glob, e.g. '**/*.rs'", "");
        check_text("files", "Files, e.g. 'a*\u{200b}/'", "");
        check_text("files", "Files, e.g. '\u{1b}[31mred'", "e.g. 'red'");
    }

    proptest! {
        #[test]
        fn notes_are_short_and_plain(
            name in "\\PC{0,12}",
            description in "(in |e\\.g\\. |one of |ISO |'a' or |\\*/|/\\*|\n|\u{1b}\\[31m|\u{200b}|\\(|\\)|\\PC{0,9}|.{0,5}){0,30}",
            pattern in ".{0,30}",
        ) {
            let property = json!({"description": description, "pattern": pattern, "examples": [pattern]});
            if let Some(note) = note(&name, &property, &Map::new()) {
                prop_assert!(!note.contains("*/") && !note.contains(char::is_control), "{note:?}");
                prop_assert!(!note.is_empty() && note.chars().count() <= MAX_VALUES, "{note:?}");
            }
        }
    }
}
