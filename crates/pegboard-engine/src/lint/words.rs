//! Classifies words of descriptions by short lists.
//!
//! The lists are English. Texts in other languages are not judged: see [`Words::is_english`].

use rustc_hash::FxHashSet;

use crate::analysis::{Stemmer, TokenKind, Tokenizer, is_stop_word};

/// Verbs in descriptions of tools, with their other forms by stem. Words that are both verbs and
/// nouns (`list`, `order`) are included: only the absence of verbs is reported.
const ACTIONS: &str = "abort accept acknowledge activate add adjust aggregate allow analyze annotate answer append apply approve \
    archive ask assess assign associate attach audit authenticate authorize autofill begin bid bind block book \
    borrow bridge browse build bulk buy calculate call cancel capture change charge check choose claim classify \
    clean clear click clone close collect combine commit compare compile complete compose compress compute configure \
    confirm connect continue control convert copy count crawl create crop customize cut deactivate debug decline \
    decode decrypt define delete deliver deploy deposit describe destroy detach detect determine diagnose disable \
    disassociate discard disconnect discover display download draft drag draw drop dub duplicate echo edit embed \
    enable encode encrypt end enforce enrich enroll ensure enter escalate estimate evaluate evict examine execute \
    expand explain explore export extract fetch fill filter find fix follow forecast fork format forward generate \
    geocode get give grant group handle hide highlight hover identify import increase increment insert inspect \
    install integrate interact interpret invite invoke join keep kill label launch leave lend let link list listen \
    load locate lock log login logout look lookup maintain make manage map mark measure merge migrate mint modify \
    monitor move mute navigate normalize notify obtain offer open optimize orchestrate order organize parse patch \
    pause pay perform pick pin ping place plan play plot poll post predict prepare press preview print process \
    produce promote provide provision publish pull purge push put query rank rate read rebuild receive recommend \
    record recover reduce refine refresh refund register reject relay release reload remember remind remove rename \
    render reorder replace reply report request reschedule reset resize resolve respond restart restore restrict \
    resume retrieve retry return reveal reverse revert review revoke rewrite rollback rotate route run sample save \
    scan schedule score scrap scrape screenshot scroll search see select send set share show sign silence simulate \
    snapshot snooze solve sort split stage stake star start stop store stream submit subscribe suggest summarize \
    suspend swap swipe switch sync tag take tap tell terminate test think toggle tokenize track trade train \
    transcribe transfer transform transition translate trigger trim truncate turn type unarchive unblock undo \
    uninstall unlink unlock unsubscribe update upgrade upload upsert use validate verify view visualize vote wait \
    walk watch withdraw wrap write zip zoom";

/// Words that fit every tool and do not distinguish any.
const GENERIC: &str = "action add all allow api argument available basic check common create current custom data default delete detail \
    do element endpoint entry every execute existing fetch field find general get give given handle help helper id \
    identifier info information input invoke item kind let list load main make manage method multiple name new \
    object one only operation option output parameter perform process provide query read remove request require \
    resource response result retrieve return run save search select send set show simple single some something \
    specific start stop string support system thing tool type update use used useful utility value various via view \
    write";

/// Words of descriptions that refer to a thing without naming it.
const VAGUE: &str = "aspect condition matter stuff thing whatever";

/// Words with which a description mentions its output.
const OUTPUTS: &str = "answer confirmation contain emit give include json array object output outcome produce reply report respond response \
     result return status url yield";

/// Verbs that create something which a model will refer to: an id, a link, a state.
const MAKING: &str = "add book build clone copy create deploy duplicate execute export fork generate import insert install \
    invite launch make order place post provision publish register render request reserve run schedule send share spawn \
    start submit trigger upload upsert";

/// Placeholder descriptions, folded.
const PLACEHOLDERS: [&str; 12] = [
    "descriptionnotavailable",
    "description",
    "na",
    "nodescription",
    "nodescriptionavailable",
    "nodescriptionprovided",
    "none",
    "notavailable",
    "null",
    "tbd",
    "todo",
    "undefined",
];

/// Frequent words of English that are rare in related languages. Sorted.
const ENGLISH: [&str; 15] =
    ["and", "are", "by", "for", "from", "if", "is", "of", "that", "the", "this", "to", "when", "with", "your"];

/// The lists by stem, and a tokenizer.
#[derive(Debug)]
pub(super) struct Words {
    actions: FxHashSet<String>,
    generic: FxHashSet<String>,
    vague: FxHashSet<String>,
    outputs: FxHashSet<String>,
    making: FxHashSet<String>,
    stemmer: Stemmer,
}

impl Default for Words {
    fn default() -> Self {
        let stemmer = Stemmer::default();
        let stems =
            |list: &str| list.split_whitespace().map(|word| stemmer.stem(word).into_owned()).collect::<FxHashSet<_>>();
        Self {
            actions: stems(ACTIONS),
            generic: stems(GENERIC),
            vague: stems(VAGUE),
            outputs: stems(OUTPUTS),
            making: stems(MAKING),
            stemmer,
        }
    }
}

impl Words {
    /// Returns the folded words of `text`, in order; compound words by their parts.
    pub(super) fn of(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        Tokenizer::default().tokenize(text, &mut |token| {
            if token.kind != TokenKind::Whole {
                words.push(token.text.to_owned());
            }
        });
        words
    }

    pub(super) fn stem(&self, word: &str) -> String {
        self.stemmer.stem(word).into_owned()
    }

    /// Returns whether the lists apply to `text`: it is mostly in plain Latin letters, and contains
    /// a frequent English word, or many that are on a list.
    pub(super) fn is_english(&self, text: &str) -> bool {
        let letters = text.chars().filter(|c| c.is_alphabetic()).count();
        let foreign = text.chars().filter(|c| c.is_alphabetic() && !c.is_ascii()).count();
        let words = Self::of(text);
        let known = words.iter().filter(|word| self.is_action(word) || self.is_generic(word)).count();
        let is_usual = |word: &String| ENGLISH.binary_search(&word.as_str()).is_ok();
        // A name or a quotation may contain accents.
        foreign * 20 <= letters && !words.is_empty() && (words.iter().any(is_usual) || known * 3 >= words.len())
    }

    pub(super) fn is_action(&self, word: &str) -> bool {
        let is_known = |word: &str| self.actions.contains(&*self.stemmer.stem(word));
        let again = ["re", "un", "de"].iter().filter_map(|prefix| word.strip_prefix(prefix));
        is_known(word) || again.into_iter().any(|rest| rest.len() > 2 && is_known(rest))
    }

    pub(super) fn is_making(&self, word: &str) -> bool {
        self.making.contains(&*self.stemmer.stem(word))
    }

    pub(super) fn is_output(&self, word: &str) -> bool {
        self.outputs.contains(&*self.stemmer.stem(word))
    }

    /// Returns whether a word would fit any tool.
    pub(super) fn is_generic(&self, word: &str) -> bool {
        // `customer` and `tooling` have the stems of `custom` and `tool`, but are nouns.
        let is_other = (word.ends_with("er") || word.ends_with("ing"))
            && !["existing", "helper", "something", "string", "thing"].contains(&word);
        is_stop_word(word)
            || word.bytes().all(|byte| byte.is_ascii_digit())
            || (!is_other && self.generic.contains(&*self.stemmer.stem(word)))
    }

    /// Returns whether a word refers to a thing without naming it, such as `stuff`.
    pub(super) fn is_vague(&self, word: &str) -> bool {
        self.vague.contains(&*self.stemmer.stem(word))
    }

    /// Returns the meaning of a word of a name, the same for synonyms.
    pub(super) fn meaning(&self, word: &str) -> String {
        let stem = self.stem(word);
        let same = |list: &[&str]| list.contains(&stem.as_str());
        match () {
            () if same(&["get", "fetch", "retriev", "read", "show", "view", "obtain"]) => "get".to_owned(),
            () if same(&["search", "find", "lookup", "queri"]) => "search".to_owned(),
            () if same(&["creat", "add", "insert"]) => "create".to_owned(),
            () if same(&["updat", "edit", "modifi", "chang"]) => "update".to_owned(),
            () if same(&["delet", "remov", "destroy"]) => "delete".to_owned(),
            () if same(&["run", "execut", "invok"]) => "run".to_owned(),
            () => stem,
        }
    }

    /// Returns whether a word of a name does not distinguish it from another name.
    pub(super) fn is_filler(&self, word: &str) -> bool {
        let fillers = ["all", "data", "detail", "details", "info", "information", "new", "tool", "v1", "v2", "api"];
        is_stop_word(word) || fillers.contains(&word)
    }
}

/// Maximum number of bytes of a description that are searched for.
const MAX_LEAD: usize = 300;

/// Number of words from which one sentence is enough.
const LEAD_WORDS: usize = 4;

/// Returns the first sentence of a description, or the first two if it is very short: a request
/// that a user could make.
pub(super) fn lead(description: &str) -> &str {
    let text = without_headings(description);
    let mut end = 0;
    for _ in 0..2 {
        end += sentence(&text[end..]).len();
        if Words::of(&text[..end]).iter().filter(|word| !is_stop_word(word)).count() >= LEAD_WORDS {
            break;
        }
    }
    let bound = text.floor_char_boundary(MAX_LEAD);
    text[..end.min(bound)].trim()
}

/// Returns whether a description is empty or a placeholder.
pub(super) fn is_placeholder(description: &str) -> bool {
    description.len() < 40 && PLACEHOLDERS.contains(&pegboard_core::naming::fold(description).as_str())
}

/// Maximum number of words of a heading.
const HEADING_WORDS: usize = 3;

/// Maximum number of headings that are skipped before the first sentence.
const MAX_HEADINGS: usize = 4;

/// Returns `text` from its first line that is not a heading such as `Purpose:` or `## Usage`,
/// without list markers.
fn without_headings(text: &str) -> &str {
    let mut rest = text.trim_start_matches(is_ornament);
    for _ in 0..MAX_HEADINGS {
        let Some((line, below)) = rest.split_once('\n') else { break };
        let is_heading = line.trim_end().ends_with(':') || !line.contains(['.', '。']);
        let below = below.trim_start_matches(is_ornament);
        if !is_heading || below.is_empty() || Words::of(line).len() >= HEADING_WORDS || continues(below) {
            break;
        }
        rest = below;
    }
    rest
}

/// Returns whether a character before a sentence is not a part of it: symbols, and the numbers of
/// lists.
fn is_ornament(c: char) -> bool {
    !c.is_alphabetic()
}

/// Returns whether a line continues the sentence of the line before.
fn continues(line: &str) -> bool {
    line.chars().next().is_some_and(char::is_lowercase)
}

/// Returns the first sentence, with its final punctuation and the white space before it.
fn sentence(text: &str) -> &str {
    let start = text.len() - text.trim_start().len();
    let mut chars = text.char_indices().skip_while(|(at, _)| *at < start).peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match c {
            '。' | '！' | '？' => true,
            '\n' => !continues(text[end..].trim_start_matches([' ', '\t'])),
            // `e.g.` and `1.5` do not end a sentence.
            '.' | '!' | '?' => next.is_none_or(char::is_whitespace) && !is_abbreviation(&text[..at]),
            _ => false,
        };
        if ends {
            return &text[..end];
        }
    }
    text
}

/// Returns whether the full stop after `text` belongs to an abbreviation such as `e.g.`, or to a
/// number.
fn is_abbreviation(text: &str) -> bool {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    is_number || word.contains('.') || ["eg", "ie", "etc", "vs"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leads() {
        let check = |text: &str, expected: &str| assert_eq!(lead(text), expected, "{text}");
        check("Creates a new issue in a repository. Needs a token.", "Creates a new issue in a repository.");
        check("Search. Finds pages of the wiki by title. More.", "Search. Finds pages of the wiki by title.");
        check(
            "Looks up places, e.g. shops or cafés, near v1.5 of x. Rest",
            "Looks up places, e.g. shops or cafés, near v1.5 of x.",
        );
        check("# Send mail to several people\nMore", "Send mail to several people");
        check("🎯 Purpose:\n  1. Retrieves all schemas of an account.\nmore", "Retrieves all schemas of an account.");
        check("Gets one member of the team by\nidentity. Rest", "Gets one member of the team by\nidentity.");
        check("获取城市的天气。返回温度。", "获取城市的天气。");
        check("", "");
        check("…", "");
    }

    #[test]
    fn only_english_is_judged_by_english_words() {
        let words = Words::default();
        let check = |text: &str, expected| assert_eq!(words.is_english(text), expected, "{text}");
        check("The weather of a city", true);
        check("Weather data", true);
        check("获取城市的天气", false);
        check("Получить погоду", false);
        check("Wetter heute und morgen", false);
        check("Obtener información meteorológica de una ciudad", false);
        check("", false);
    }
}
