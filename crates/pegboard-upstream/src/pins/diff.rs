//! The difference between two definitions as lines of text.

use pegboard_core::text;
use serde_json::Value;
use similar::{Algorithm, ChangeTag, capture_diff_slices};

use super::definition::Definition;

/// Maximum number of lines of one difference; further ones are only counted.
const MAX_LINES: usize = 120;

/// Maximum number of bytes of one line.
const MAX_LINE: usize = 300;

/// Maximum number of lines of a text that is compared line by line; a longer one is shown whole.
const MAX_COMPARED: usize = 400;

/// Number of unchanged lines that are shown around changed ones.
const CONTEXT: usize = 1;

/// Returns the lines of a difference: each part that differs, with its old (`-`) and its new
/// (`+`) value. Texts are compared line by line, schemas key by key.
pub(super) fn diff(old: Option<&Definition>, new: Option<&Definition>) -> Vec<String> {
    let value = |definition: Option<&Definition>| definition.map(|it| Value::Object(it.0.clone()));
    let mut lines = DiffLines::default();
    match (value(old), value(new)) {
        (Some(old), Some(new)) => compare_values(&mut lines, "", &old, &new),
        (None, Some(new)) => push_definition(&mut lines, '+', &new),
        (Some(old), None) => push_definition(&mut lines, '-', &old),
        (None, None) => {}
    }
    lines.finish()
}

/// The lines of a difference, bounded while they are added.
#[derive(Default)]
struct DiffLines {
    lines: Vec<String>,
    more: usize,
}

impl DiffLines {
    fn push(&mut self, sign: char, line: &str) {
        if self.lines.len() < MAX_LINES {
            self.lines.push(format!("{sign} {}", text::brief(line, MAX_LINE)).trim_end().to_owned());
        } else {
            self.more += 1;
        }
    }

    fn push_path(&mut self, path: &str) {
        if self.lines.len() < MAX_LINES {
            self.lines.push(format!("{}:", text::brief(path, MAX_LINE)));
        } else {
            self.more += 1;
        }
    }

    fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("… {} more lines", self.more));
        }
        self.lines
    }
}

/// Adds a definition that has no counterpart.
fn push_definition(lines: &mut DiffLines, sign: char, definition: &Value) {
    // The name is in the heading.
    for (key, value) in definition.as_object().into_iter().flatten().filter(|(key, _)| *key != "name") {
        lines.push_path(key);
        value_lines(value).iter().for_each(|line| lines.push(sign, line));
    }
}

fn compare_values(lines: &mut DiffLines, path: &str, old: &Value, new: &Value) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(before), Value::Object(after)) => {
            let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match (before.get(key), after.get(key)) {
                    (Some(old), Some(new)) => compare_values(lines, &path, old, new),
                    (old, new) => push_replaced(lines, &path, old, new),
                }
            }
        }
        (Value::String(old), Value::String(new)) if old.contains('\n') || new.contains('\n') => {
            lines.push_path(path);
            compare_lines(lines, old, new);
        }
        (Value::Array(before), Value::Array(after)) => compare_lists(lines, path, before, after),
        (old, new) => push_replaced(lines, path, Some(old), Some(new)),
    }
}

/// Shows the items that only one of two lists has; both lists if they differ in their order alone.
fn compare_lists(lines: &mut DiffLines, path: &str, old: &[Value], new: &[Value]) {
    let only_in = |one: &[Value], other: &[Value]| -> Vec<Value> {
        let mut rest: Vec<&Value> = other.iter().collect();
        let is_missing = |item: &&Value| match rest.iter().position(|other| other == item) {
            Some(at) => {
                rest.swap_remove(at);
                false
            }
            None => true,
        };
        one.iter().filter(is_missing).cloned().collect()
    };
    if old.len().max(new.len()) > MAX_COMPARED {
        return push_replaced(lines, path, Some(&Value::Array(old.to_vec())), Some(&Value::Array(new.to_vec())));
    }
    let (gone, added) = (only_in(old, new), only_in(new, old));
    if gone.is_empty() && added.is_empty() {
        return push_replaced(lines, path, Some(&Value::Array(old.to_vec())), Some(&Value::Array(new.to_vec())));
    }
    match (gone.as_slice(), added.as_slice()) {
        // One item was changed.
        ([before @ Value::Object(_)], [after @ Value::Object(_)]) => {
            compare_values(lines, &format!("{path}[]"), before, after);
        }
        _ => {
            lines.push_path(path);
            gone.iter().for_each(|item| lines.push('-', &text::escape_json(&item.to_string())));
            added.iter().for_each(|item| lines.push('+', &text::escape_json(&item.to_string())));
        }
    }
}

fn push_replaced(lines: &mut DiffLines, path: &str, old: Option<&Value>, new: Option<&Value>) {
    lines.push_path(path);
    old.map(value_lines).into_iter().flatten().for_each(|line| lines.push('-', &line));
    new.map(value_lines).into_iter().flatten().for_each(|line| lines.push('+', &line));
}

/// Returns the lines of a text, or of any other value as JSON without hidden characters.
fn value_lines(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => text.lines().map(str::to_owned).collect(),
        value => vec![text::escape_json(&value.to_string()).into_owned()],
    }
}

fn compare_lines(lines: &mut DiffLines, old: &str, new: &str) {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    if old.len().max(new.len()) > MAX_COMPARED {
        old.iter().for_each(|line| lines.push('-', line));
        new.iter().for_each(|line| lines.push('+', line));
        return;
    }
    let steps = edit_steps(&old, &new);
    let is_near = |at: usize| {
        let near = &steps[at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(steps.len())];
        near.iter().any(|(sign, _)| *sign != ' ')
    };
    let mut is_skipping = false;
    for (at, (sign, line)) in steps.iter().enumerate() {
        let is_shown = is_near(at);
        if is_shown {
            lines.push(*sign, line);
        } else if !is_skipping {
            lines.push(' ', "…");
        }
        is_skipping = !is_shown;
    }
}

/// Returns the shortest edit from one list of lines to the other: each line with its sign.
fn edit_steps<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let changes = capture_diff_slices(Algorithm::Myers, old, new);
    let changes = changes.iter().flat_map(|change| change.iter_changes(old, new));
    let sign = |tag: ChangeTag| match tag {
        ChangeTag::Equal => ' ',
        ChangeTag::Delete => '-',
        ChangeTag::Insert => '+',
    };
    changes.map(|change| (sign(change.tag()), change.value())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: &[&str]) {
        let read = |text: &str| Definition::of(&serde_json::from_str::<pegboard_mcp::json::Raw>(text).expect("JSON"));
        assert_eq!(diff(Some(&read(old)), Some(&read(new))), expected, "{old} {new}");
    }

    #[test]
    fn parts_and_keys() {
        check(r#"{"name":"a","x":1}"#, r#"{"x":2,"name":"a"}"#, &[]);
        check(
            r#"{"name":"a","description":"one"}"#,
            r#"{"name":"a","description":"two","title":"A"}"#,
            &["description:", "- one", "+ two", "title:", "+ A"],
        );
        check(
            r#"{"inputSchema":{"properties":{"p":{"type":"string"},"q":{}},"required":["p"]},"annotations":{"readOnlyHint":true}}"#,
            r#"{"inputSchema":{"required":["p"],"properties":{"p":{"type":"number"},"r":{"enum":["\u202e"]}}},"annotations":{}}"#,
            &[
                "annotations.readOnlyHint:",
                "- true",
                "inputSchema.properties.p.type:",
                "- string",
                "+ number",
                "inputSchema.properties.q:",
                "- {}",
                "inputSchema.properties.r:",
                r#"+ {"enum":["\u202e"]}"#,
            ],
        );
    }

    #[test]
    fn lists_item_by_item() {
        let check = |old: &str, new: &str, expected: &[&str]| {
            let schema = |text: &str| format!(r#"{{"inputSchema":{text}}}"#);
            check(&schema(old), &schema(new), expected);
        };
        // Only what is different, whatever the order.
        check(
            r#"{"required":["a","b","c"],"default":["x","y"]}"#,
            r#"{"required":["d","c","a"],"default":["y","x"]}"#,
            &["inputSchema.required:", r#"- "b""#, r#"+ "d""#],
        );
        check(r#"{"enum":[1,2]}"#, r#"{"enum":[3,2,1]}"#, &["inputSchema.enum:", "+ 3"]);
        check(
            r#"{"anyOf":[{"type":"null"},{"type":"string","title":"t"}]}"#,
            r#"{"anyOf":[{"title":"t","type":"number"},{"type":"null"}]}"#,
            &["inputSchema.anyOf[].type:", "- string", "+ number"],
        );
        check(
            r#"{"const":["x","y"]}"#,
            r#"{"const":["y","x"]}"#,
            &["inputSchema.const:", r#"- ["x","y"]"#, r#"+ ["y","x"]"#],
        );
    }

    #[test]
    fn texts_line_by_line() {
        check(
            r#"{"description":"a\nb\nc\nd\ne\nf"}"#,
            r#"{"description":"a\nb\nc\nX\ne\nf\ng"}"#,
            &["description:", "  …", "  c", "- d", "+ X", "  e", "  f", "+ g"],
        );
        let long = format!(r#"{{"description":"{}"}}"#, "x\\n".repeat(500));
        let lines =
            diff(None, Some(&Definition::of(&serde_json::from_str::<pegboard_mcp::json::Raw>(&long).expect("JSON"))));
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines.last().map(String::as_str), Some("… 381 more lines"));
    }

    fn read(text: &str) -> Definition {
        Definition::of(&serde_json::from_str::<pegboard_mcp::json::Raw>(text).expect("JSON"))
    }

    #[test]
    fn what_comes_and_what_goes() {
        let tool = read(r#"{"name":"a","description":"one\ntwo","inputSchema":{"type":"object"}}"#);
        let lines = |sign: char| {
            let lines = ["description:", "~ one", "~ two", "inputSchema:", r#"~ {"type":"object"}"#];
            lines.map(|line| line.replace('~', &sign.to_string())).to_vec()
        };
        assert_eq!(diff(None, Some(&tool)), lines('+'));
        assert_eq!(diff(Some(&tool), None), lines('-'));
        assert_eq!(diff(None, None), Vec::<String>::new());
    }

    #[test]
    fn one_line_and_several() {
        let one = r#"{"description":"a"}"#;
        check(one, r#"{"description":"a\nb"}"#, &["description:", "  a", "+ b"]);
        check(r#"{"description":"a\nb"}"#, one, &["description:", "  a", "- b"]);
        check(one, r#"{"description":"b"}"#, &["description:", "- a", "+ b"]);
        check(one, r#"{"description":{"x":1}}"#, &["description:", "- a", r#"+ {"x":1}"#]);
        // What is left out stands for any number of lines, once.
        check(
            r#"{"description":"1\n2\n3\n4\n5\n6\n7\n8\n9"}"#,
            r#"{"description":"0\n2\n3\n4\n5\n6\n7\n8\n0"}"#,
            &["description:", "- 1", "+ 0", "  2", "  …", "  8", "- 9", "+ 0"],
        );
    }

    #[test]
    fn bounds() {
        let text = |line: &str, count: usize| {
            let lines = vec![line; count].join("\\n");
            read(&format!(r#"{{"description":"{lines}"}}"#))
        };
        // As many as are compared, and one more: then both are shown whole, as far as there is room.
        let last = |count: usize| diff(Some(&text("x", count)), Some(&text("x", count + 1))).last().cloned();
        assert_eq!(last(MAX_COMPARED - 1).as_deref(), Some("+ x"));
        let more = 1 + MAX_COMPARED + MAX_COMPARED + 1 - MAX_LINES;
        assert_eq!(last(MAX_COMPARED), Some(format!("… {more} more lines")));
        // A head and its lines fit exactly, or not.
        let lines = |count: usize| diff(None, Some(&text("x", count)));
        assert_eq!(lines(MAX_LINES - 1).len(), MAX_LINES);
        assert_eq!(lines(MAX_LINES - 1).last().map(String::as_str), Some("+ x"));
        assert_eq!(lines(MAX_LINES).last().map(String::as_str), Some("… 1 more lines"));
        // Heads count as well.
        let keys = |count: usize| {
            let keys: Vec<String> = (0..count).map(|key| format!(r#""k{key:03}":1"#)).collect();
            read(&format!(r#"{{"inputSchema":{{{}}}}}"#, keys.join(",")))
        };
        let added = |count: usize| diff(Some(&keys(0)), Some(&keys(count)));
        assert_eq!(added(MAX_LINES / 2).len(), MAX_LINES);
        assert_eq!(added(MAX_LINES / 2 + 1).last().map(String::as_str), Some("… 2 more lines"));
        let long = read(&format!(r#"{{"description":"{}"}}"#, "x".repeat(1000)));
        assert!(diff(None, Some(&long))[1].len() <= MAX_LINE + "+ ".len() + "…".len());
    }

    /// Returns the number of lines that two lists have in common, by brute force.
    fn most_in_common(old: &[&str], new: &[&str]) -> usize {
        match (old, new) {
            ([], _) | (_, []) => 0,
            ([one, old @ ..], [other, new @ ..]) if one == other => 1 + most_in_common(old, new),
            ([_, rest @ ..], [_, others @ ..]) => most_in_common(rest, new).max(most_in_common(old, others)),
        }
    }

    proptest! {
        #[test]
        fn the_way_is_the_shortest(old in prop::collection::vec("[a-c]", 0..8), new in prop::collection::vec("[a-c]", 0..8)) {
            let (old, new): (Vec<&str>, Vec<&str>) = (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
            let kept = edit_steps(&old, &new).iter().filter(|(sign, _)| *sign == ' ').count();
            prop_assert_eq!(kept, most_in_common(&old, &new));
        }

        #[test]
        fn the_steps_lead_from_one_to_the_other(old in prop::collection::vec("[a-c]", 0..12), new in prop::collection::vec("[a-c]", 0..12)) {
            let (old, new): (Vec<&str>, Vec<&str>) = (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
            let steps = edit_steps(&old, &new);
            let side = |sign: char| steps.iter().filter(|(one, _)| *one == ' ' || *one == sign).map(|(_, line)| *line).collect::<Vec<_>>();
            prop_assert_eq!(side('-'), old);
            prop_assert_eq!(side('+'), new);
        }
    }
}
