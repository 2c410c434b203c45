use proptest::prelude::*;

use super::*;

fn bounds() -> Bounds {
    Bounds { max_results: 50, tokens: 9_000, wall: Duration::from_secs(600) }
}

fn compiled(pattern: &str) -> Regex {
    compile(pattern, false, &SearchLimits::default()).expect("a pattern")
}

#[track_caller]
fn check(text: &str, pattern: &str, expected: &str) {
    assert_eq!(run(text, &compiled(pattern), bounds()), expected);
}

#[test]
fn lines_have_numbers_context_and_gaps() {
    let text = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\ntwelve";
    check(text, "^three$", "1-one\n2-two\n3:three\n4-four\n5-five");
    check(text, "three|six", "1-one\n2-two\n3:three\n4-four\n5-five\n6:six\n7-seven\n8-eight");
    check(text, "^o|^n", "1:one\n2-two\n3-three\n--\n7-seven\n8-eight\n9:nine\n10-ten\n11-eleven");
    check(text, "twelve", "10-ten\n11-eleven\n12:twelve");
    check(text, "TWELVE", "10-ten\n11-eleven\n12:twelve");
    check(text, "thirteen", "No matches found for the given pattern.");
    check("", "x", "No matches found for the given pattern.");
    check("a\r\nb\r\n", "b$", "1-a\n2:b");
    // A line at a time: nothing matches across two of them.
    check("a\nb", "a\\sb", "No matches found for the given pattern.");
}

#[test]
fn case_counts_when_asked_for() {
    let regex = compile("Two", true, &SearchLimits::default()).expect("a pattern");
    assert_eq!(run("two", &regex, bounds()), NO_MATCHES);
    assert_eq!(run("Two", &regex, bounds()), "1:Two");
}

#[test]
fn results_are_counted_and_no_more_than_asked_for() {
    let text = "match\n".repeat(4);
    let full = |max_results| run(&text, &compiled("match"), Bounds { max_results, ..bounds() });
    assert_eq!(
        full(2),
        "1:match\n2:match\n[Stopped after 2 results; there are more. Narrow the pattern, or raise max_results.]"
    );
    assert_eq!(full(4), "1:match\n2:match\n3:match\n4:match");
}

#[test]
fn a_long_line_is_shown_where_it_matches() {
    let text = format!("short\n{}NEEDLE{}needle\n", "ä".repeat(1000), "ö".repeat(1000));
    let shown = run(&text, &compiled("needle"), bounds());
    let expected = format!(
        "1-short\n2:[from character 927] {}NEEDLE{}\n2:[from character 1933] {}needle",
        "ä".repeat(80),
        "ö".repeat(214),
        "ö".repeat(80),
    );
    assert_eq!(shown, expected);
    let from: String = text.chars().skip(926).take(300).collect();
    assert!(shown.contains(&from));
}

#[test]
fn matches_across_the_steps_of_a_long_line_are_found() {
    let step = 256 * 1024;
    let reach = 64 * 1024;
    for at in [step - 3, step, step + reach - 3, step + reach, 3 * step - 1] {
        let text = format!("{}needle{}", "a".repeat(at), "b".repeat(3 * step));
        let shown = run(&text, &compiled("needle"), bounds());
        assert!(shown.starts_with(&format!("1:[from character {}] aaa", at + 1 - 80)), "{at}: {shown}");
        assert_eq!(shown.matches("needle").count(), 1);
        // The end of a step is not the end of the line.
        let text = "c".repeat(at) + &"d".repeat(4 * step);
        assert_eq!(run(&text, &compiled("c$"), bounds()), NO_MATCHES, "{at}");
        assert_eq!(run(&text, &compiled("^d"), bounds()), NO_MATCHES, "{at}");
        assert_eq!(run(&text, &compiled(r"d\b"), bounds()).matches("from character").count(), 1, "{at}");
    }
}

#[test]
fn nowhere_but_at_its_end_does_a_line_end() {
    // Longer than a piece after several doublings.
    let text = "d".repeat(8 << 20) + "e";
    for pattern in ["d$", r"d\z", r"d\b", "d+$", "(?m)d$", "d(?:x|$)", r"d\b{end}"] {
        assert_eq!(run(&text, &compiled(pattern), bounds()), NO_MATCHES, "{pattern}");
    }
    let last = text.len() - 80;
    for (pattern, from) in [("e$", last), (r"d\b|e\b", last), ("$", last + 1), ("^d*e?$", 1), ("^.*$", 1)] {
        let shown = run(&text, &compiled(pattern), bounds());
        assert!(shown.starts_with(&format!("1:[from character {from}] ddd")), "{pattern}: {shown}");
        assert_eq!(shown.lines().count(), 1, "{pattern}");
    }
    // Looking further takes time too.
    let shown = run(&text, &compiled("d$"), Bounds { wall: Duration::ZERO, ..bounds() });
    assert_eq!(shown, "[Stopped after 0 s, at character 1. Use a simpler pattern.]");
}

#[test]
fn long_lines_match_everything_and_nothing_without_end() {
    let text = "é".repeat(3 * 1024 * 1024);
    for pattern in ["", ".*", "x*", "$", "é+", "(?s).*é"] {
        let shown = run(&text, &Regex::new(pattern).expect("a pattern"), bounds());
        assert!(shown.starts_with("1:[from character "), "{pattern}: {shown}");
    }
}

#[test]
fn answers_are_bounded() {
    let text = format!("{}\n", "word ".repeat(90)).repeat(2000);
    let shown = run(&text, &compiled("word"), Bounds { max_results: 1000, tokens: 500, ..bounds() });
    assert!(pegboard_discovery::estimate_tokens(&shown) < 550, "{shown}");
    assert!(shown.ends_with("\n[Truncated. Narrow the pattern, or lower max_results.]"), "{shown}");
}

#[test]
fn a_search_that_takes_too_long_says_how_far_it_came() {
    let text = "needle\n".to_owned() + &"hay\n".repeat(100_000);
    let shown = run(&text, &compiled("needle"), Bounds { wall: Duration::ZERO, ..bounds() });
    assert!(shown.starts_with("1:needle\n2-hay\n3-hay\n[Stopped after 0 s, at character 65"), "{shown}");
    let shown = run(&"hay".repeat(1_000_000), &compiled("needle"), Bounds { wall: Duration::ZERO, ..bounds() });
    assert_eq!(shown, "[Stopped after 0 s, at character 262145. Use a simpler pattern.]");
}

#[test]
fn patterns_that_cannot_be_used_say_why() {
    let check = |pattern: &str, expected: &str| {
        let error = compile(pattern, false, &SearchLimits::default()).expect_err("an error").to_string();
        assert!(error.contains(expected), "{pattern}: {error}");
    };
    check("(", "unclosed group");
    check("(?<=a)b", "look-around");
    check(r"(a)\1", "backreferences are not supported");
    check("(?:a{1000}){1000}", "Compiled regex exceeds size limit");
    check(&"(".repeat(100), "invalid `pattern`");
    check(&"a".repeat(5000), "`pattern` is longer than 4096 bytes");
}

proptest! {
    /// Searching is what a plain loop over the lines says.
    #[test]
    fn matching_lines_are_those_of_a_plain_loop(text in "[abcä\n]{0,80}", pattern in "[abä.^$]{1,3}") {
        let Ok(regex) = compile(&pattern, true, &SearchLimits::default()) else { return Ok(()) };
        let shown = run(&text, &regex, Bounds { max_results: 1000, ..bounds() });
        let expected: Vec<String> = text
            .lines()
            .enumerate()
            .filter(|(_, line)| regex.is_match(line))
            .map(|(index, line)| format!("{}:{line}", index + 1))
            .collect();
        let found: Vec<&str> = shown.lines().filter(|line| line.split_once(':').is_some()).collect();
        prop_assert_eq!(found, expected);
    }

    /// What is said about where a window begins is true.
    #[test]
    fn windows_are_where_they_say(parts in prop::collection::vec(("[abä𝄞 ]{0,300}", "x{1,3}"), 1..6)) {
        let mut text = "z".repeat(600);
        for (hay, needle) in &parts {
            text.push_str(hay);
            text.push_str(needle);
        }
        let shown = run(&text, &compiled("x"), bounds());
        let mut from_shown = 0;
        for window in shown.lines() {
            let (from, shown) = window.strip_prefix("1:[from character ").and_then(|rest| rest.split_once("] ")).expect("a window");
            let from: usize = from.parse().expect("a number");
            let expected: String = text.chars().skip(from - 1).take(shown.chars().count()).collect();
            prop_assert_eq!(shown, expected);
            from_shown += shown.matches('x').count();
        }
        prop_assert_eq!(from_shown, text.matches('x').count());
    }
}
