//! What words of a description tell, as far as a few lists can know.
//!
//! The lists are English. A text of another language is not judged by them: see
//! [`Words::is_english`].

use rustc_hash::FxHashSet;

use crate::analysis::{Stemmer, TokenKind, Tokenizer, is_stop_word};

/// Verbs that tools are described with, by their stems also in their other forms. Words that
/// are both verbs and things (`list`, `order`) are among them: it is their absence that is
/// held against a tool.
const ACTIONS: &str = "abort accept activate add adjust aggregate allow analyze annotate answer append apply approve \
    archive ask assess assign associate attach audit authenticate authorize autofill begin block book browse build bulk buy \
    calculate call cancel capture change check choose classify clean clear click clone close collect combine commit \
    compare compile complete compose compress compute configure confirm connect continue control convert copy count \
    crawl create crop customize cut deactivate debug decline decode decrypt define delete deliver deploy describe \
    destroy detach detect determine diagnose disable disassociate discard disconnect discover display download draft \
    drag draw drop duplicate edit embed enable encode encrypt end enrich ensure enter estimate evaluate examine execute \
    expand explain explore export extract fetch fill filter find fix follow forecast fork format forward generate \
    geocode get give grant group handle hide highlight hover identify import increase increment insert inspect install \
    interact interpret invite invoke join keep kill label launch leave let link list listen load locate lock log look \
    lookup maintain make manage map mark measure merge migrate modify monitor move navigate normalize notify obtain \
    offer open optimize orchestrate order organize parse patch pause perform pick pin ping place plan play plot poll \
    post predict prepare press preview print process produce provide provision publish pull purge push put query rank \
    rate read rebuild receive recommend record recover reduce refresh register reject release reload remember remove \
    rename render reorder replace reply report request reschedule reset resize resolve respond restart restore restrict \
    resume retrieve retry return reveal reverse revert review revoke rewrite rotate route run sample save scan \
    schedule score scrape screenshot scroll search see select send set share show sign simulate snapshot snooze solve \
    sort split stage star start stop store stream submit subscribe suggest summarize suspend swap swipe switch sync tag take \
    tap tell terminate test think toggle track train transcribe transfer transform transition translate trigger trim truncate turn \
    type unarchive undo uninstall unlink unlock unsubscribe update upgrade upload upsert use validate verify view visualize vote \
    wait walk watch write zoom";

/// Words that fit every tool, and so tell nothing of one.
const GENERIC: &str = "action add all api argument available basic call check command common complete content current custom data \
    default detail do element endpoint entry every execute existing fetch field find function general get give given handle help \
    helper id identifier info information input invoke item kind list load main make manage method multiple name new object \
    one only operation option output parameter perform process provide query read remove request require resource \
    response result retrieve return run save search select send set show simple single some something specific start \
    stop string support system thing tool type update use used useful user utility value various via view work write \
    create delete allow allows let lets";

/// Words by which a description says what comes back.
const OUTPUTS: &str = "answer confirmation contain emit give include json array object output outcome produce reply report respond response \
     result return status url yield";

/// Verbs whose object is what comes back: `Get the weather` returns the weather.
const READING: &str = "analyze browse calculate capture check compare compute convert count describe detect diagnose \
    discover display download estimate evaluate examine explain explore export extract fetch find forecast generate geocode get give \
    identify inspect list locate lookup measure monitor obtain plot predict preview print provide query read receive \
    recommend render report retrieve return reverse sample scan score scrape screenshot search see show snapshot suggest summarize take \
    tell test think track transcribe translate validate verify view visualize wait watch";

/// Words that English texts are full of, and those of its neighbours are not. Sorted.
const ENGLISH: [&str; 15] =
    ["and", "are", "by", "for", "from", "if", "is", "of", "that", "the", "this", "to", "when", "with", "your"];

/// Lists of stems, and a place to cut texts in.
#[derive(Debug)]
pub(super) struct Words {
    actions: FxHashSet<String>,
    generic: FxHashSet<String>,
    outputs: FxHashSet<String>,
    reading: FxHashSet<String>,
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
            outputs: stems(OUTPUTS),
            reading: stems(READING),
            stemmer,
        }
    }
}

impl Words {
    /// The folded words of `text`, in their order; those with inner boundaries by their parts.
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

    /// Whether the lists have a say in `text`: it is mostly in plain Latin letters, and has a
    /// word that English is full of, or many that are on a list.
    pub(super) fn is_english(&self, text: &str) -> bool {
        let letters = text.chars().filter(|c| c.is_alphabetic()).count();
        let foreign = text.chars().filter(|c| c.is_alphabetic() && !c.is_ascii()).count();
        let words = Self::of(text);
        let known = words.iter().filter(|word| self.is_action(word) || self.is_generic(word)).count();
        let is_usual = |word: &String| ENGLISH.binary_search(&word.as_str()).is_ok();
        // A name or a quotation may have an accent.
        foreign * 20 <= letters && !words.is_empty() && (words.iter().any(is_usual) || known * 3 >= words.len())
    }

    pub(super) fn is_action(&self, word: &str) -> bool {
        self.actions.contains(&*self.stemmer.stem(word))
    }

    pub(super) fn is_reading(&self, word: &str) -> bool {
        self.reading.contains(&*self.stemmer.stem(word))
    }

    pub(super) fn is_output(&self, word: &str) -> bool {
        self.outputs.contains(&*self.stemmer.stem(word))
    }

    /// Whether a word would fit any tool.
    pub(super) fn is_generic(&self, word: &str) -> bool {
        is_stop_word(word)
            || word.bytes().all(|byte| byte.is_ascii_digit())
            || self.generic.contains(&*self.stemmer.stem(word))
    }

    /// What a word of a name means, where several mean the same.
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

    /// Whether a word of a name makes no difference beside another name.
    pub(super) fn is_filler(&self, word: &str) -> bool {
        let fillers = ["all", "data", "detail", "details", "info", "information", "new", "tool", "v1", "v2", "api"];
        is_stop_word(word) || fillers.contains(&word)
    }
}

/// Bytes of a description that are asked for.
const MAX_LEAD: usize = 300;

/// Words that make a sentence long enough to be asked for alone.
const LEAD_WORDS: usize = 4;

/// The first sentence of a description, or the first two when it is very short: what
/// somebody who wants the tool could say.
pub(super) fn lead(description: &str) -> &str {
    let text = description.trim_start_matches(|c: char| !c.is_alphanumeric());
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

/// The first sentence, with what ends it and the white space before it.
fn sentence(text: &str) -> &str {
    let start = text.len() - text.trim_start().len();
    let mut chars = text.char_indices().skip_while(|(at, _)| *at < start).peekable();
    let mut before = ' ';
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match c {
            '。' | '！' | '？' | '\n' => true,
            // `e.g.` and `1.5` end nothing.
            '.' | '!' | '?' => next.is_none_or(char::is_whitespace) && !is_abbreviation(&text[..at], before),
            _ => false,
        };
        if ends {
            return &text[..end];
        }
        before = c;
    }
    text
}

/// Whether the full stop behind `text` belongs to a word such as `e.g.`.
fn is_abbreviation(text: &str, before: char) -> bool {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    before.is_alphabetic() && (word.contains('.') || ["eg", "ie", "etc", "vs"].contains(&word))
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
        check("# Send mail to several people\nmore", "Send mail to several people");
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
