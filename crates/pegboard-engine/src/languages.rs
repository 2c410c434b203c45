//! Word-by-word translation of queries in other languages to English.
//!
//! The built-in model knows English only. Lists of a few thousand words (`languages/*.tsv`) suffice
//! to translate the topic of a short query; grammar is ignored. Texts in other scripts are
//! recognized by their script; Spanish, German and French by their words.

mod list;

use std::sync::LazyLock;

use pegboard_core::naming::fold_char;

use self::list::{Forms, List};

/// Maximum number of words that are translated; longer queries are documents.
const MAX_WORDS: usize = 64;

/// Ratio of English to other words from which a query is English with a quotation.
const MOST_ENGLISH: usize = 3;

macro_rules! list {
    ($code:literal, $forms:expr, $fillers:expr) => {
        LazyLock::new(|| List::parse(include_str!(concat!("languages/", $code, ".tsv")), $forms, $fillers))
    };
}

static ARABIC: LazyLock<List> = list!("ar", Forms::Prefixed, "في من الى على عن مع او هذا هذه كل لي ما هل");
static CHINESE: LazyLock<List> = list!("zh", Forms::Unspaced, "的 了 吗 嗎 我 在 和 把 给 給 个 個 请 請");
static JAPANESE: LazyLock<List> =
    list!("ja", Forms::Unspaced, "の を に は が で と へ も から まで して する ください");
static KOREAN: LazyLock<List> =
    list!("ko", Forms::Particles, "에 에서 을 를 이 가 은 는 의 로 으로 와 과 도 만 해줘 하기 하는 내 좀 에게 한테");
static RUSSIAN: LazyLock<List> = list!(
    "ru",
    Forms::Endings,
    "в во на по с со и из у к о об от до для за мне мои моя мою моих моем этот эту все всех как что не я или под при"
);
static SPANISH: LazyLock<List> = list!(
    "es",
    Forms::Endings,
    "el la los las un una unos unas de del al en con por para que mi mis su sus y o se me este esta estos estas
     todos todas cual cuales como sobre desde hasta hay son es lo le"
);
static GERMAN: LazyLock<List> = list!(
    "de",
    Forms::Compounds,
    "der die das den dem des ein eine einen einem einer eines und oder fur mit von vom zu zum zur im am auf aus
     bei nach uber mir mein meine meinen meinem meiner ich ist sind wie was welche welcher es alle allen bitte gibt
     dieser diese dieses diesem diesen sich als ins in an"
);
static FRENCH: LazyLock<List> = list!(
    "fr",
    Forms::Endings,
    "le la les l un une des du de d au aux en dans sur pour par avec et ou mon ma mes ce cet cette ces que qui quel
     quelle quels quelles est sont il je moi a y se qu c depuis entre"
);

/// The script of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    Latin,
    Arabic,
    Cyrillic,
    Han,
    Hangul,
    Kana,
}

/// A run of letters of one script, folded.
#[derive(Debug)]
struct Word {
    script: Script,
    text: String,
}

/// Translates `query` to English, if some of it is in another language; unknown words are kept.
/// `is_english` decides whether a folded word is English.
pub(crate) fn in_english(query: &str, is_english: impl Fn(&str) -> bool) -> Option<String> {
    let words = words_of(query);
    let (foreign, english) = count(&words, &is_english);
    if english > MOST_ENGLISH * foreign {
        return None;
    }
    let latin = latin_language(&words, is_english);
    let is_japanese = words.iter().any(|word| word.script == Script::Kana);
    let mut english: Vec<&str> = Vec::new();
    let (mut at, mut is_translated) = (0, false);
    while let Some(word) = words.get(at) {
        let list = match word.script {
            Script::Latin => latin,
            Script::Arabic => Some(&*ARABIC),
            Script::Cyrillic => Some(&*RUSSIAN),
            Script::Han if !is_japanese => Some(&*CHINESE),
            Script::Han | Script::Kana => Some(&*JAPANESE),
            Script::Hangul => Some(&*KOREAN),
        };
        let run: Vec<&str> =
            words[at..].iter().take_while(|next| next.script == word.script).map(|next| next.text.as_str()).collect();
        let found = list.map_or(0, |list| list.translate(&run, &mut english));
        is_translated |= found > 0;
        if found == 0 {
            english.push(&word.text);
        }
        at += found.max(1);
    }
    (is_translated && !english.is_empty()).then(|| english.join(" "))
}

/// Counts the words in other scripts or in other languages with Latin letters, and the English
/// words.
fn count(words: &[Word], is_english: impl Fn(&str) -> bool) -> (usize, usize) {
    let english = words.iter().filter(|word| word.script == Script::Latin && is_english(&word.text)).count();
    (words.len() - english, english)
}

/// Returns whether a word is in Latin letters.
pub(crate) fn is_latin(word: &str) -> bool {
    word.chars().all(|c| script_of(c, None).is_none_or(|script| script == Script::Latin))
}

/// Returns whether a word is a function word in any of the languages.
pub(crate) fn is_filler(word: &str) -> bool {
    let word = fold(word);
    let lists: [&'static List; 8] = [&ARABIC, &CHINESE, &FRENCH, &GERMAN, &JAPANESE, &KOREAN, &RUSSIAN, &SPANISH];
    lists.iter().any(|list| list.is_filler(&word))
}

/// Returns whether `text` contains this word in any spelling.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let word = fold(word);
    text.split(' ').any(|other| fold(other) == word)
}

/// Returns the language of the words in Latin letters, unless it is English.
fn latin_language(words: &[Word], is_english: impl Fn(&str) -> bool) -> Option<&'static List> {
    let latin: Vec<(&str, bool)> = words
        .iter()
        .filter(|word| word.script == Script::Latin)
        .map(|word| (word.text.as_str(), is_english(&word.text)))
        .collect();
    let lists: [&'static List; 3] = [&SPANISH, &GERMAN, &FRENCH];
    let votes = lists.map(|list| {
        let known = latin.iter().filter(|(word, _)| list.has(word));
        let (mut all, mut foreign) = (0, 0);
        known.for_each(|(_, is_english)| {
            all += 1;
            foreign += usize::from(!is_english);
        });
        (foreign, all, list)
    });
    // The first of equals.
    let (foreign, all, list) =
        votes.into_iter().reduce(|best, next| if (next.0, next.1) > (best.0, best.1) { next } else { best })?;
    let english = latin.iter().filter(|(_, is_english)| *is_english).count();
    (foreign > 0 && all + foreign >= english).then_some(list)
}

/// Splits a query into folded words; a change of script begins a new word, digits belong to the
/// letters.
fn words_of(query: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut is_open = false;
    for c in query.chars() {
        let Some(script) = script_of(c, words.last().filter(|_| is_open)) else {
            is_open = false;
            continue;
        };
        if !is_open || words.last().is_none_or(|word| word.script != script) {
            if words.len() == MAX_WORDS {
                break;
            }
            words.push(Word { script, text: String::new() });
            is_open = true;
        }
        if let Some(word) = words.last_mut() {
            fold_into(c, &mut word.text);
        }
    }
    words.retain(|word| !word.text.is_empty());
    words
}

/// Returns the script of a letter, that of the previous letter for marks; `None` for separators.
fn script_of(c: char, open: Option<&Word>) -> Option<Script> {
    match c {
        '\u{600}'..='\u{6FF}' if c.is_alphanumeric() || is_arabic_mark(c) => Some(Script::Arabic),
        '\u{400}'..='\u{52F}' => Some(Script::Cyrillic),
        '\u{AC00}'..='\u{D7AF}' => Some(Script::Hangul),
        'ー' => Some(open.map_or(Script::Kana, |word| word.script)),
        '\u{3041}'..='\u{30FA}' => Some(Script::Kana),
        '々' | '\u{3400}'..='\u{9FFF}' => Some(Script::Han),
        _ if c.is_ascii_digit() => Some(open.map_or(Script::Latin, |word| word.script)),
        _ if c.is_alphanumeric() || ('\u{300}'..='\u{36F}').contains(&c) => Some(Script::Latin),
        _ => None,
    }
}

/// Returns whether a character is an Arabic vowel sign or stretching line; both are optional.
fn is_arabic_mark(c: char) -> bool {
    matches!(c, '\u{640}' | '\u{64B}'..='\u{65F}' | '\u{670}')
}

/// Folds a word for the lookup in the lists.
pub(crate) fn fold(word: &str) -> String {
    let mut folded = String::with_capacity(word.len());
    word.chars().for_each(|c| fold_into(c, &mut folded));
    folded
}

fn fold_into(c: char, folded: &mut String) {
    fold_char(c, &mut |c| match c {
        'ß' => folded.push_str("ss"),
        // Letters that are often exchanged in writing.
        'ى' => folded.push('ي'),
        'ة' => folded.push('ه'),
        mark if is_arabic_mark(mark) => {}
        other => folded.push(other),
    });
}

#[cfg(test)]
mod tests;
