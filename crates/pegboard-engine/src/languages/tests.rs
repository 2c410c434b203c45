use proptest::prelude::*;

use super::*;

fn check(query: &str, expected: Option<&str>) {
    let english = ["create", "send", "message", "to", "the", "a", "table", "in", "channel", "slack", "github"];
    assert_eq!(in_english(query, |word| english.contains(&word)).as_deref(), expected, "{query}");
}

#[test]
fn words_become_english() {
    check("send a message to the channel", None);
    check("en", None);
    check("", None);
    check("GitHub에 이슈 만들기", Some("github issue create make"));
    check("发送邮件", Some("send email mail"));
    check("メールを送信する", Some("email mail send"));
    check("إرسال رسالة إلى القناة", Some("send message channel"));
    check("отправить сообщение в канал", Some("send message channel"));
    check("enviar un mensaje al canal de Slack", Some("send message channel slack"));
    check("Kundenrechnungen auflisten", Some("customers clients invoices bills list"));
    check("envoyer un message dans le canal", Some("send message channel"));
}

#[test]
fn words_that_no_list_has_stay() {
    check("Qwertz에 이슈 만들기", Some("qwertz issue create make"));
    check("отправить сообщение щщщщ", Some("send message щщщщ"));
}

#[test]
fn an_english_query_may_quote_another_language() {
    check("send the message 안녕하세요 to the channel in slack", None);
}

/// A line without meanings would remove its word from queries.
#[test]
fn every_entry_has_english_words() {
    let lists = ["ar", "de", "es", "fr", "ja", "ko", "ru", "zh"];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/languages");
    for list in lists {
        let text = std::fs::read_to_string(folder.join(format!("{list}.tsv"))).expect("a list");
        let mut words = rustc_hash::FxHashSet::default();
        for line in text.lines() {
            let (word, english) = line.split_once('\t').unwrap_or_else(|| panic!("{list}: `{line}`"));
            let is_english =
                english.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b" -".contains(&byte));
            assert!(!word.is_empty() && !english.trim().is_empty() && is_english, "{list}: `{line}`");
            assert!(words.insert(word), "{list}: `{word}` is there twice");
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_read(query in ".{0,80}") {
        let english = in_english(&query, |_| false);
        prop_assert!(english.is_none_or(|english| !english.trim().is_empty()));
    }

    #[test]
    fn any_letters_are_read(query in "[가-힣一-龥ァ-ヴー々ا-يа-яäöüßéñ a-z0-9]{0,40}") {
        in_english(&query, |_| true);
    }
}
