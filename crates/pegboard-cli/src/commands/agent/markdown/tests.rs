use proptest::prelude::*;

use super::*;

const WIDTH: usize = 60;

/// Renders the text in pieces of `size` characters.
fn in_pieces(text: &str, width: usize, size: usize) -> String {
    let mut markdown = Markdown::new(width);
    let letters: Vec<char> = text.chars().collect();
    let pieces = letters.chunks(size).map(|piece| markdown.push(&piece.iter().collect::<String>()));
    let shown: String = pieces.collect();
    shown + &markdown.finish()
}

fn plain(shown: &str) -> String {
    anstream::adapter::strip_str(shown).to_string()
}

/// Checks the text without styles, in pieces of every size.
#[track_caller]
fn check(text: &str, expected: &str) {
    let whole = Markdown::render(text, WIDTH);
    for size in 1..8 {
        assert_eq!(in_pieces(text, WIDTH, size), whole, "pieces of {size}: {text}");
    }
    assert_eq!(plain(&whole), expected, "{whole:?}");
}

/// Checks the text with its styles.
#[track_caller]
fn check_styles(text: &str, expected: &str) {
    let shown = Markdown::render(text, WIDTH).replace('\u{1b}', "");
    assert_eq!(shown.trim_end(), expected);
}

#[test]
fn marks_become_styles() {
    check("plain words\n", "plain words\n");
    check("# Title\nand **bold**, *soft* and `code`", "Title\nand bold, soft and code\n");
    check("2 * 3 * 4 and a*b", "2 * 3 * 4 and a*b\n");
    check("#hash and -dash", "#hash and -dash\n");
    check("`a * b` stays", "a * b stays\n");
    check("", "");
    check("\n\n", "\n\n");
    check("***both***", "both\n");
    check("~~gone~~ and ~5 minutes", "gone and ~5 minutes\n");
    check("`` a ` b ``", "a ` b\n");
    check(r"\*no\* and C:\Users", "*no* and C:\\Users\n");
}

#[test]
fn a_mark_without_an_end_is_text() {
    check("**open\nnext", "**open\nnext\n");
    check("pass *args and **kwargs", "pass *args and **kwargs\n");
    check("*.rs and *.toml", "*.rs and *.toml\n");
    check("a ` tick", "a ` tick\n");
    check("**use *args here** now", "use *args here now\n");
    let long = format!("*a {}", "b".repeat(2000));
    check(&long, &format!("{long}\n"));
}

#[test]
fn names_keep_their_underscores() {
    check("call snake_case_name or files___delete_file", "call snake_case_name or files___delete_file\n");
    check("_soft_ and __strong__, a_b_", "soft and strong, a_b_\n");
    check("read_* and _private", "read_* and _private\n");
}

#[test]
fn emphasis_within_emphasis() {
    check("**bold *both***, *it **both** it*", "bold both, it both it\n");
    check("**a** **b** and 中**c**中", "a b and 中c中\n");
    check_styles("**a *b***", "[1ma [0m[1m[3mb[0m");
    check_styles("~~a~~ `b`", "[9ma[0m [36mb[0m");
}

#[test]
fn lists_hang_and_rules_are_lines() {
    check("- one\n  * two\n+ three", "• one\n  • two\n• three\n");
    check("1. one\n10) two\n1.5 is a number", "1. one\n10) two\n1.5 is a number\n");
    check("---\n* * *\n- - x\n--", &format!("{0}\n{0}\n• - x\n--\n", "─".repeat(MAX_RULE)));
    let words = "a list item that is somewhat longer than the line, which goes on";
    check(
        &format!("- {words}\n2. {words}"),
        "• a list item that is somewhat longer than the line, which\n  goes on\n2. a list item that is somewhat longer \
         than the line, which\n   goes on\n",
    );
}

#[test]
fn code_loses_its_fences() {
    check(
        "```rust\nlet a = *b;\n\n# not a title\n```\nafter *it*",
        "  rust\n  let a = *b;\n\n  # not a title\nafter it\n",
    );
    check("~~~\n```\n~~\n~~~~\nafter", "  ```\n  ~~\nafter\n");
    check("```\nnever ended", "  never ended\n");
    check("```\nnever ended\n``", "  never ended\n  ``\n");
    check("```code``` in a line", "code in a line\n");
    check("- item\n  ```sh\n  ls\n  ```", "• item\n    sh\n    ls\n");
    check_styles("```sh\nls\n```", "[2m  sh[0m\n[36m  ls[0m");
}

#[test]
fn links_show_where_they_lead() {
    check("see [the *docs*](https://a.io/x_(y)) now", "see the docs (https://a.io/x_(y)) now\n");
    check("[https://a.io](https://a.io)", "https://a.io\n");
    check("[me@a.io](mailto:me@a.io) [](u)", "me@a.io u\n");
    check("![chart](c.png \"Title\") done!", "chart (c.png) done!\n");
    check("[1] and [x] (no) and a[0](1", "[1] and [x] (no) and a[0](1\n");
    check_styles("[a](b)", "[4ma[0m [2m(b)[0m");
}

#[test]
fn quotes_have_a_bar() {
    check("> one\n>two\n> > # three\nfour", "│ one\n│ two\n│ │ three\nfour\n");
    check("> ```\n> a > b\n> ```\n> end", "│   a > b\n│ end\n");
    check("> ```\n> code\nafter", "│   code\nafter\n");
    check(">\n> - item", "│ \n│ • item\n");
    check(
        "> a quotation that is somewhat longer than the line, so that it goes on",
        "│ a quotation that is somewhat longer than the line, so that\n│ it goes on\n",
    );
}

#[test]
fn tables_are_aligned() {
    check("| a | bb |\n|---|---:|\n| ccc | d |\nend", "a   │ bb\n────┼───\nccc │  d\nend\n");
    check("|a|b|\n|:-:|--|\n|日本語|`x \\| y`|", "  a    │ b\n───────┼──────\n日本語 │ x | y\n");
    check("| a |\n|---|\n| one<br>two |\n| b | more |", "a   │\n────┼─────\none │\ntwo │\nb   │ more\n");
    check("| a lone line\nafter", "| a lone line\nafter\n");
    check("|x| y\n| a |\n|--|\n", "|x| y\na\n─\n");
    check("| a | b |\n|---|\n", "| a | b |\n|---|\n");
    check_styles("|a|\n|-|\n|**b**|", "[1ma[0m\n[2m─[0m\n[1mb[0m");
}

#[test]
fn a_table_that_is_too_wide_is_wrapped_or_listed() {
    let table =
        "| Tool | Does |\n|---|---|\n| `files___delete_file` | Deletes a file, and everything that refers to it |";
    for width in [20, 40, 60] {
        let shown = plain(&Markdown::render(table, width));
        let is_within = |line: &str| unicode_width::UnicodeWidthStr::width(line) <= width;
        assert!(shown.lines().all(is_within), "{shown}");
        insta::assert_snapshot!(format!("table_in_{width}"), shown);
    }
    let wide = "|a|b|c|d|\n|-|-|-|-|\n|long word|other word|third word|fourth word|\n|2|3|4|5|";
    insta::assert_snapshot!("table_as_list", plain(&Markdown::render(wide, 24)));
}

const DOCUMENT: &str = "\
# Release *notes*

Two things changed, see [the changelog](https://example.com/changelog) for **all** of them:

1. `search_tools` finds tools by _meaning_, which takes a little longer than it did before
2. The limit is ~~30~~ 40
   - nested, with a word that is very long: https://example.com/a/path/that/does/not/end/anywhere

> Note: restart the gateway after an update, or it goes on
> with the old version.

| Tool | Server | Does |
|:-----|:------:|-----:|
| create_issue | github | Opens an issue |
| send | mail | Sends a message to **everyone** who is subscribed |

```sh
pegboard serve --port 8080
```
---
Done.
";

#[test]
fn a_document_at_several_widths() {
    for width in [40, 60, 100] {
        insta::assert_snapshot!(format!("document_in_{width}"), plain(&Markdown::render(DOCUMENT, width)));
    }
}

#[test]
fn words_are_shown_as_they_come() {
    let mut markdown = Markdown::new(WIDTH);
    assert_eq!(markdown.push("Hel"), "Hel");
    assert_eq!(markdown.push("lo **wor"), "lo");
    assert_eq!(plain(&markdown.push("ld** an")), " world an");
    assert_eq!(markdown.push("d\n| a"), "d\n");
    assert_eq!(markdown.finish(), "| a\n");
    assert_eq!(markdown.finish(), "");
}

proptest! {
    #[test]
    fn pieces_do_not_matter(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "a", "word ", " ", "\n", "\n\n", "*", "**", "_", "~~", "`", "```", "~~~", "[", "](", ")", "!", "|",
                "|-|-|\n", "| a | b |\n", "> ", "- ", "1. ", "# ", "---", "\\", "日本", "⚠️", "\t", "<br>", "a_b",
            ]),
            0..60,
        ),
        cuts in prop::collection::vec(any::<bool>(), 300),
        width in 20_usize..80,
    ) {
        let text = parts.concat();
        let mut markdown = Markdown::new(width);
        let mut shown = String::new();
        let mut piece = String::new();
        for (c, is_cut) in text.chars().zip(cuts.into_iter().chain(std::iter::repeat(false))) {
            piece.push(c);
            if is_cut {
                shown += &markdown.push(&std::mem::take(&mut piece));
            }
        }
        shown += &markdown.push(&piece);
        shown += &markdown.finish();
        prop_assert_eq!(&shown, &Markdown::render(&text, width));
        // Styles end with the text.
        let last_style = shown.rfind('\u{1b}').map(|at| &shown[at..]);
        prop_assert!(last_style.is_none_or(|rest| rest.starts_with("\u{1b}[0m")), "{:?}", shown);
    }

    #[test]
    fn any_text_is_shown(text in any::<String>(), width in 0_usize..200) {
        Markdown::render(&text, width);
    }
}
