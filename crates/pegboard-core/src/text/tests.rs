use std::borrow::Cow;

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(clean(text), expected, "{text:?}");
}

#[test]
fn what_people_write_stays() {
    for text in [
        "",
        "plain\n\ttext",
        "naïve café – “quotes” … €",
        "שלום עולם",
        "مرحبا بالعالم",
        "می\u{200C}خواهم",
        "क्\u{200D}ष",
        "👩\u{200D}👩\u{200D}👧 ❤\u{FE0F}\u{200D}🔥 👍🏽 🇩🇪 1\u{FE0F}\u{20E3} #\u{FE0F}\u{20E3}",
        "葛\u{E0100}城市",
        "e\u{301}",
        "日本語、한국어",
    ] {
        assert!(matches!(clean(text), Cow::Borrowed(same) if std::ptr::eq(same, text)), "{text:?}");
    }
}

#[test]
fn what_drives_a_terminal_goes() {
    check("\u{1b}[31mred\u{1b}[0m", "red");
    check("\u{1b}[38;5;1;4:3mred\u{1b}[m", "red");
    check("\u{9b}2Jwiped", "wiped");
    check("\u{1b}]0;title\u{7}text", "text");
    check("\u{1b}]8;;https://example.com\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link");
    check("\u{9d}52;c;ZXZpbA==\u{9c}x", "x");
    check("\u{1b}Pq#0\u{1b}\\x\u{1b}_hidden\u{1b}\\y", "xy");
    check("\u{1b}(Bx\u{1b}cy\u{1b}7z", "xyz");
    // What does not end is text.
    check("\u{1b}]0;never ends", "0;never ends");
    check("\u{1b}]0;never ends\nhere", "0;never ends\nhere");
    check("\u{1b}[", "");
    check("end\u{1b}", "end");
    check("a\u{8}\u{8}b\rc\u{0}\u{7f}d", "abcd");
    check("\u{1b}\u{1b}[[31mx", "31mx");
}

#[test]
fn what_nobody_sees_goes() {
    check("pass\u{202e}drow\u{202c} \u{2066}x\u{2069}", "passdrow x");
    check("ig\u{200b}no\u{2060}re\u{feff} \u{ad}th\u{180e}is", "ignore this");
    let tags: String = "hidden".chars().filter_map(|c| char::from_u32(0xE0000 + c as u32)).collect();
    check(&format!("seen{tags}"), "seen");
    // Bytes written as variation selectors behind one sign.
    check("😀\u{FE01}\u{E0105}\u{E0110}", "😀\u{FE01}");
    check("a\u{E0101}b\u{FE0F}c", "abc");
    check("a\u{200d}b\u{200c}c", "abc");
    check("👩\u{200d}", "👩");
    check("👩\u{200d}\u{200d}👧", "👩\u{200d}👧");
    check("one\u{2028}two\u{85}three", "one\ntwo\nthree");
}

#[test]
fn lines() {
    let check = |text, expected| assert_eq!(line(text), expected, "{text:?}");
    check("a\nb\tc\r\nd", "a b c d");
    check("a\u{2029}b", "a b");
    assert!(matches!(line("plain"), Cow::Borrowed("plain")));
}

#[test]
fn bounds() {
    let check = |text, most, expected| assert_eq!(bounded(text, most), expected, "{text:?}");
    check("short", 5, "short");
    check("longer", 5, "lo…");
    check("ééé", 5, "é…");
    check("👩\u{200d}👩\u{200d}👧👧👧", 12, "👩…");
    check("abc", 0, "…");
    assert_eq!(brief("a\u{1b}[1mb\nc and so on", 8), "ab c…");
}

#[test]
fn texts_are_cut_behind_words() {
    let check = |text: &str, most: usize, expected: &str| assert_eq!(excerpt(text, most), expected, "{text:?} {most}");
    check("one two three", 13, "one two three");
    check("one two three", 12, "one two…");
    check("one two three", 9, "one two…");
    check("one two three", 8, "one two…");
    check("one two three", 7, "one…");
    check("one, two three", 7, "one…");
    check("one, two, three", 9, "one, two…");
    check("one, two (three) four", 16, "one, two (three…");
    check("from 10 to 1,000,000 items", 13, "from 10 to…");
    check("one two\nthree four", 14, "one two\nthree…");
    // A cut word says more than half of the room.
    check("a considerable word", 12, "a considera…");
    check("create_a_tool_with_a_long_name", 10, "create_a_…");
    check("see the page at https://example.com/a/b/c/d/e/f/g", 40, "see the page at https://example.com/a/b…");
    check("查询天气预报的工具", 5, "查询天气…");
    check("été à la mer", 8, "été à…");
    check("abc", 0, "…");
    assert_eq!(bounded("été à la mer", 11), "été à…");
}

#[track_caller]
fn check_definition(json: &str, expected: Option<&str>) {
    assert_eq!(clean_definition(json, "name", 64).as_deref(), expected, "{json}");
}

#[test]
fn definitions() {
    check_definition(r#"{"name":"a","description":"fine\n\ttext","x":1.0}"#, None);
    // Escapes that stand for what is fine are left as they are.
    check_definition(r#"{ "name":"a", "description":"\u00e9" }"#, None);
    check_definition(r#"{"description":"\u001b[31mred"}"#, Some(r#"{"description":"red"}"#));
    check_definition("{\"name\":\"a\u{202e}b\",\"title\":\"a\\nb\"}", Some(r#"{"name":"ab","title":"a b"}"#));
    check_definition(
        "{\"inputSchema\":{\"properties\":{\"description\":{\"description\":\"x\u{200b}y\"}}}}",
        Some(r#"{"inputSchema":{"properties":{"description":{"description":"xy"}}}}"#),
    );
    // A value counts: it is the same, and can be seen.
    check_definition("{\"enum\":[\"a\u{e0041}\"],\"z\":1.50}", Some("{\"enum\":[\"a\\udb40\\udc41\"],\"z\":1.50}"));
    let long = format!(r#"{{"description":"{}"}}"#, "x".repeat(80));
    check_definition(&long, Some(&format!(r#"{{"description":"{}…"}}"#, "x".repeat(61))));
}

/// Letters with everything in between that can go wrong.
const ODD: &str = "([a-z \n\t]|\u{1b}|\u{1b}\\[|\u{1b}\\]|\u{9b}|\u{9d}|\u{9c}|\u{7}|\\\\|[0-9;?]|\u{200c}|\u{200d}|\u{fe0f}\
                   |\u{fe01}|\u{e0100}|\u{e0041}|\u{202e}|\u{2066}|\u{feff}|\u{200b}|\u{2028}|\u{85}|[א-ת]|[ا-ي]|👩|👧|❤|é|\u{301}|\r){0,24}";

proptest! {
    #[test]
    fn nothing_forbidden_is_left_and_cleaning_again_changes_nothing(text in ODD) {
        for (is_multi_line, once) in [(true, clean(&text).into_owned()), (false, line(&text).into_owned())] {
            let is_forbidden = |c: char| is_hidden(c) && !(is_multi_line && matches!(c, '\n' | '\t'));
            prop_assert!(!once.contains(is_forbidden), "{once:?}");
            let again = cleaned(&once, is_multi_line);
            prop_assert!(matches!(again, Cow::Borrowed(_)), "{:?} of {:?}", again, once);
        }
    }

    #[test]
    fn any_text_is_cleaned_and_plain_text_is_not_touched(text in any::<String>(), plain in "[ -~äéßא-ת一-龠\n\t]{0,40}") {
        let once = clean(&text).into_owned();
        prop_assert_eq!(clean(&once), once.as_str());
        prop_assert!(matches!(clean(&plain), Cow::Borrowed(same) if std::ptr::eq(same, plain.as_str())));
    }

    #[test]
    fn cutting_keeps_within_bounds_and_clean(text in ODD, most in 3usize..40) {
        let cut = bounded(&clean(&text), most).into_owned();
        prop_assert!(cut.len() <= most);
        prop_assert_eq!(bounded(&cut, most), cut.as_str());
        prop_assert_eq!(clean(&cut), cut.as_str());
        prop_assert!(excerpt(&text, most).chars().count() <= most);
    }

    #[test]
    fn definitions_keep_their_values(text in ODD, name in ODD) {
        let value = serde_json::json!({"name": name, "enum": [text], "n": 1, "description": text});
        let json = value.to_string();
        match clean_definition(&json, "name", 1000) {
            None => prop_assert!(!json.contains(is_hidden), "{json}"),
            Some(new) => {
                prop_assert!(!new.contains(is_hidden), "{new}");
                let read: serde_json::Value = serde_json::from_str(&new).expect("JSON");
                prop_assert_eq!(&read["enum"], &value["enum"]);
                prop_assert_eq!(read["description"].as_str(), Some(&*clean(&text)));
                prop_assert_eq!(clean_definition(&new, "name", 1000), None);
            }
        }
    }
}
