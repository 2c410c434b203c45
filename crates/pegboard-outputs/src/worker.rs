//! The worker process that runs one filter over one output.
//!
//! Filters come from models, and a filter can recurse or loop forever or allocate all memory; none
//! of that can be stopped from within. Therefore each filter runs in a separate process, which
//! drops all rights that it does not need before it reads anything.

mod filter;

use std::{
    io::{self, BufWriter, Read as _, Write as _},
    process::ExitCode,
};

use jaq_json::{
    Val, read,
    write::{Pp, write},
};

use filter::Filter;

use crate::{
    exit::{Exit, STACK_BYTES},
    platform,
};

/// Maximum length of an error message. Messages quote values, which can be long.
const MAX_MESSAGE_BYTES: usize = 1000;

/// What the process is to do.
#[derive(Clone, Debug)]
pub struct FilterJob {
    /// The jq filter.
    pub filter: String,
    /// Whether each result is printed on one line.
    pub compact: bool,
    /// Whether strings are printed without quotes.
    pub raw: bool,
    /// Maximum memory of the process in bytes.
    pub memory_bytes: u64,
    /// Maximum CPU time of the process in seconds.
    pub cpu_seconds: u64,
}

/// Runs the filter over standard input and prints its results. Must be called in a process that was
/// started for it: the process can do nothing else afterwards.
pub fn run(job: FilterJob) -> ExitCode {
    if let Err(error) = platform::give_up_rights(job.memory_bytes, job.cpu_seconds) {
        return end(Exit::Unconfined, &format!("cannot set the limits: {error}"));
    }
    // Panic messages describe our code, which does not help to fix a filter.
    std::panic::set_hook(Box::new(|_| {}));
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || work(&job));
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(()))) => ExitCode::SUCCESS,
        Ok(Ok(Err((exit, message)))) => end(exit, &message),
        Ok(Err(_)) => end(Exit::Failed, "the computation failed"),
        Err(error) => end(Exit::Unconfined, &format!("cannot start a thread: {error}")),
    }
}

fn end(exit: Exit, message: &str) -> ExitCode {
    let _ = write!(io::stderr(), "{message}");
    ExitCode::from(exit as u8)
}

type Failure = (Exit, String);

fn work(job: &FilterJob) -> Result<(), Failure> {
    let filter = Filter::compile(&job.filter).map_err(|message| (Exit::Filter, message))?;
    let input = standard_input().map_err(|error| (Exit::NotJson, error.to_string()))?;
    let mut output = BufWriter::new(io::stdout().lock());
    let result = print_all(job, &filter, &input, &mut output);
    let _ = output.flush();
    result
}

fn print_all(job: &FilterJob, filter: &Filter, input: &[u8], output: &mut dyn io::Write) -> Result<(), Failure> {
    let layout = Pp { indent: (!job.compact).then(|| "  ".to_owned()), sep_space: !job.compact, ..Pp::default() };
    let mut is_empty = true;
    for document in read::parse_many(input) {
        is_empty = false;
        let document = document.map_err(|error| (Exit::NotJson, error.to_string()))?;
        for result in filter.run(document) {
            let value = result.map_err(|error| (Exit::Failed, format_shortened(&error)))?;
            let written = match &value {
                Val::TStr(text) | Val::BStr(text) if job.raw => output.write_all(text),
                value => write(output, &layout, 0, value),
            };
            // The reader has closed the pipe: the answer is long enough.
            if written.and_then(|()| output.write_all(b"\n")).is_err() {
                return Ok(());
            }
        }
    }
    if is_empty { Err((Exit::NotJson, "it is empty".to_owned())) } else { Ok(()) }
}

fn standard_input() -> io::Result<Vec<u8>> {
    let mut stdin = io::stdin().lock();
    let mut input = Vec::new();
    // Allocated at once if the size is known, so that the input is never in memory twice.
    if let Some(size) = platform::input_size() {
        let _ = input.try_reserve_exact(size.saturating_add(1));
    }
    stdin.read_to_end(&mut input)?;
    Ok(input)
}

/// Formats a message and truncates it while formatting: it may quote all of the input.
fn format_shortened(message: &dyn std::fmt::Display) -> String {
    struct Short(String);
    impl std::fmt::Write for Short {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            let room = MAX_MESSAGE_BYTES.saturating_sub(self.0.len());
            let end = text.floor_char_boundary(room);
            self.0.push_str(&text[..end]);
            if end == text.len() { Ok(()) } else { Err(std::fmt::Error) }
        }
    }
    let mut short = Short(String::new());
    if std::fmt::write(&mut short, format_args!("{message}")).is_err() {
        short.0.push('…');
    }
    short.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(filter: &str, input: &str, expected: Result<&str, (Exit, &str)>) {
        check_as(filter, true, false, input, expected);
    }

    #[track_caller]
    fn check_as(filter: &str, compact: bool, raw: bool, input: &str, expected: Result<&str, (Exit, &str)>) {
        let job = FilterJob { filter: filter.to_owned(), compact, raw, memory_bytes: 0, cpu_seconds: 0 };
        let mut output = Vec::new();
        let result = Filter::compile(filter)
            .map_err(|message| (Exit::Filter, message))
            .and_then(|filter| print_all(&job, &filter, input.as_bytes(), &mut output));
        let output = String::from_utf8(output).expect("text");
        match (result, expected) {
            (Ok(()), Ok(expected)) => assert_eq!(output, expected, "{filter}"),
            (Err((exit, message)), Err((expected_exit, expected))) => {
                assert_eq!(exit, expected_exit, "{filter}: {message}");
                assert!(message.contains(expected), "{filter}: {message}");
            }
            (result, _) => panic!("{filter}: {result:?} {output}"),
        }
    }

    #[test]
    fn results_are_printed_as_asked_for() {
        check_as(
            ".",
            false,
            false,
            r#"{"b":[1,"x"],"a":{}}"#,
            Ok("{\n  \"b\": [\n    1,\n    \"x\"\n  ],\n  \"a\": {}\n}\n"),
        );
        check(".", r#"{"b": [1, "x"],"a": {}}"#, Ok("{\"b\":[1,\"x\"],\"a\":{}}\n"));
        check(".[]", r#"["a",1,null]"#, Ok("\"a\"\n1\nnull\n"));
        check_as(".[]", true, true, r#"["a\nb",1,"é"]"#, Ok("a\nb\n1\né\n"));
        check("empty", "1", Ok(""));
        // Several documents: the filter sees one after the other.
        check(".a", "{\"a\":1}\n{\"a\":2}\n", Ok("1\n2\n"));
    }

    #[test]
    fn what_people_write_works() {
        check(
            "map(select(.n > 1) | .name) | join(\", \")",
            r#"[{"n":1,"name":"a"},{"n":2,"name":"b"}]"#,
            Ok("\"b\"\n"),
        );
        check(
            "group_by(.t) | map({t: .[0].t, n: length})",
            r#"[{"t":1},{"t":2},{"t":1}]"#,
            Ok("[{\"t\":1,\"n\":2},{\"t\":2,\"n\":1}]\n"),
        );
        check(
            "[limit(2; .[])], (.[1:] | length), ([.[] | tostring] | @json)",
            "[1,2,3]",
            Ok("[1,2]\n2\n\"[\\\"1\\\",\\\"2\\\",\\\"3\\\"]\"\n"),
        );
        check("keys, to_entries[0].key, has(\"a\"), (.b // 7)", r#"{"a":1}"#, Ok("[\"a\"]\n\"a\"\ntrue\n7\n"));
        check("[.[] | select(test(\"^a\"; \"i\"))] | sort | unique", r#"["b","Ab","aa"]"#, Ok("[\"Ab\",\"aa\"]\n"));
        check("todate, (gmtime | mktime), (1.5 | floor)", "0", Ok("\"1970-01-01T00:00:00Z\"\n0\n1\n"));
        check("@base64, ascii_upcase, (. | @uri)", "\"a b\"", Ok("\"YSBi\"\n\"A B\"\n\"a%20b\"\n"));
        check("try error(\"x\") catch ., (.a? // \"none\")", "[]", Ok("\"x\"\n\"none\"\n"));
        check("([paths] | length), ([..] | length), (reduce .[] as $x (0; . + $x))", "[1,2]", Ok("2\n3\n3\n"));
    }

    #[test]
    fn nothing_reaches_outside() {
        for name in ["env", "now", "halt", "halt_error", "stderr", "debug", "localtime", "input", "inputs"] {
            check(name, "0", Err((Exit::Filter, &format!("no filter `{name}`"))));
        }
        for name in [
            "halt_error(1)",
            "halt(1)",
            "debug(.)",
            "strflocaltime(\"%H\")",
            "input_filename",
            "get_search_list",
            "modulemeta",
            "input_line_number",
        ] {
            let called = name.split('(').next().expect("a name");
            check(name, "0", Err((Exit::Filter, &format!("no filter `{called}"))));
        }
        for name in ["debug_empty", "stderr_empty", "$ENV.HOME", "$__prog_args", "env.HOME"] {
            check(name, "0", Err((Exit::Filter, "no ")));
        }
        let files = (Exit::Filter, "a filter cannot read files");
        check("import \"a\" as a; .", "0", Err(files));
        check("import \"a\" as $a; $a", "0", Err(files));
        check("include \"a\"; .", "0", Err(files));
    }

    #[test]
    fn mistakes_are_told() {
        check(".[", "0", Err((Exit::Filter, "expected closing bracket at the end")));
        check("", "0", Err((Exit::Filter, "expected term at the end")));
        check("map(.a", "0", Err((Exit::Filter, "expected closing parenthesis at the end")));
        check("if . then 1 2", "0", Err((Exit::Filter, " at character 13")));
        check("foo(1)", "0", Err((Exit::Filter, "no filter `foo` of 1 argument")));
        check("$x", "0", Err((Exit::Filter, "no variable `$x`")));
        check(".a", "[1]", Err((Exit::Failed, "cannot index [1] with \"a\"")));
        check("error(\"mine\")", "0", Err((Exit::Failed, "mine")));
        check(".", "hello", Err((Exit::NotJson, "byte offset 0")));
        check(".", "", Err((Exit::NotJson, "it is empty")));
        check(".", "{\"a\":", Err((Exit::NotJson, "byte offset 5")));
    }

    #[test]
    fn messages_do_not_quote_everything() {
        let input = format!("[{}]", vec!["\"ä\""; 100_000].join(","));
        let job = FilterJob { filter: ".a".to_owned(), compact: true, raw: false, memory_bytes: 0, cpu_seconds: 0 };
        let filter = Filter::compile(".a").expect("a filter");
        let (_, message) = print_all(&job, &filter, input.as_bytes(), &mut Vec::new()).expect_err("a failure");
        assert!(message.starts_with("cannot index [\"ä\",") && message.ends_with('…'), "{message}");
        assert!(message.len() < MAX_MESSAGE_BYTES + 10);
    }
}
