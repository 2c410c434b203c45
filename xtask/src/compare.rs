//! Pegboard beside other gateways, all on stdio, one after another in front of the same twenty real servers.

use std::{fs, path::Path, process::Command, time::Instant};

use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

use crate::{
    bench_gateway::{at, expect_result, real_servers, resident_mb},
    peers,
    pipe::Pipe,
    say,
};

/// Searches and calls of each gateway. FastMCP takes a fifth of a second for one.
const CALLS: usize = 60;

/// Calls that are made first and not counted.
const WARM_UP: usize = 6;

/// Requests with the tools that answer them.
const QUERIES: &str = "testkit/peers/bench/queries.jsonl";

/// The configuration that all gateways get.
const CONFIG: &str = "target/compare.json";

/// The lines of `README.md` around the table.
const MARKS: [&str; 2] = ["<!-- compare:begin -->\n", "<!-- compare:end -->"];

/// One gateway to measure.
struct Gateway {
    title: &'static str,
    /// Prints a line that ends in the version.
    version: &'static [&'static str],
    command: &'static [&'static str],
    /// The tool that searches, if there is one.
    search: Option<&'static str>,
    /// Between the names of a server and a tool.
    separator: &'static str,
    /// A call of `echo` of the server `everything`.
    echo: fn() -> Value,
}

const GATEWAYS: [Gateway; 3] = [
    Gateway {
        title: "Pegboard",
        version: &["target/release/pegboard", "--version"],
        command: &["target/release/pegboard", "serve", CONFIG, "--stdio", "--state", "none"],
        search: Some("search_tools"),
        separator: "___",
        echo: || json!({"name": "call_tool", "arguments": {"name": "everything___echo", "arguments": {"message": "hello"}}}),
    },
    Gateway {
        title: "FastMCP (BM25)",
        version: &[".tools/python/bin/python", "-c", "import fastmcp; print(fastmcp.__version__)"],
        command: &[".tools/python/bin/python", "testkit/peers/bench/fastmcp_search.py", CONFIG],
        search: Some("search_tools"),
        separator: "_",
        echo: || json!({"name": "call_tool", "arguments": {"name": "everything_echo", "arguments": {"message": "hello"}}}),
    },
    Gateway {
        title: "mcp-compressor",
        version: &[".tools/python-bench/bin/mcp-compressor", "--version"],
        command: &[".tools/python-bench/bin/mcp-compressor", "--config", CONFIG],
        search: None,
        separator: "_",
        echo: || json!({"name": "everything_invoke_tool", "arguments": {"tool_name": "echo", "tool_input": {"message": "hello"}}}),
    },
];

/// A query with the tools that answer it, as `server/tool`.
struct Labelled {
    query: String,
    tools: Vec<String>,
}

/// What was measured of one gateway.
#[derive(Debug)]
struct Figures {
    title: String,
    tools: usize,
    list_tokens: usize,
    first_list_s: f64,
    search: Option<SearchFigures>,
    call_ms: f64,
    memory_mb: f64,
}

#[derive(Debug)]
struct SearchFigures {
    /// Queries with a right tool in the answer.
    found: usize,
    of: usize,
    answer_tokens: usize,
    ms: f64,
}

/// Measures all gateways, prints the table, and puts it into `README.md` if wanted.
pub(crate) fn run(is_written: bool) -> Result<(), String> {
    peers::install()?;
    peers::install_bench()?;
    let tokens = tiktoken_rs::o200k_base().map_err(|error| error.to_string())?;
    let servers = real_servers::servers()?;
    let config = json!({"mcpServers": servers}).to_string();
    fs::write(CONFIG, config).map_err(|error| format!("cannot write `{CONFIG}`: {error}"))?;
    let queries =
        read_queries(&fs::read_to_string(QUERIES).map_err(|error| format!("cannot read `{QUERIES}`: {error}"))?)?;
    let all = list_all(&queries)?;
    let mut figures = Vec::new();
    for gateway in &GATEWAYS {
        figures.push(measure(gateway, &queries, &tokens)?);
    }
    let table = table(&figures, servers.len(), all.len(), tokens.encode_ordinary(&json!(all).to_string()).len());
    say(&table);
    if is_written { write_readme(&table) } else { Ok(()) }
}

/// The definitions of all tools; each label must be one of them.
fn list_all(queries: &[Labelled]) -> Result<Vec<Value>, String> {
    let text = fs::read_to_string(CONFIG).map_err(|error| error.to_string())?;
    let mut config: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    config["pegboard"] = json!({"exposure": "never", "prefix": "always"});
    let file = "target/compare-all.json";
    fs::write(file, config.to_string()).map_err(|error| format!("cannot write `{file}`: {error}"))?;
    let mut pipe =
        Pipe::start(Command::new("target/release/pegboard").args(["serve", file, "--stdio", "--state", "none"]))?;
    let answer = pipe.request("tools/list", &json!({}))?;
    let tools = answer["result"]["tools"].as_array().cloned().unwrap_or_default();
    let is_listed = |label: &str| {
        let name = label.replacen('/', "___", 1);
        tools.iter().any(|tool| tool["name"] == name.as_str())
    };
    match queries.iter().flat_map(|labelled| &labelled.tools).find(|label| !is_listed(label)) {
        Some(label) => Err(format!("no server offers `{label}`, which `{QUERIES}` names")),
        None => Ok(tools),
    }
}

fn measure(gateway: &Gateway, queries: &[Labelled], tokens: &CoreBPE) -> Result<Figures, String> {
    say(&format!("{} …", gateway.title));
    let failed = |error: String| format!("{}: {error}", gateway.title);
    let began = Instant::now();
    let mut pipe = Pipe::start(&mut command(gateway.command)).map_err(failed)?;
    let list = pipe.request("tools/list", &json!({})).map_err(failed)?;
    let first_list_s = began.elapsed().as_secs_f64();
    let tools = list["result"]["tools"].as_array().cloned().unwrap_or_default();
    let search = match gateway.search {
        Some(name) => Some(search(&mut pipe, name, gateway.separator, queries, tokens).map_err(failed)?),
        None => None,
    };
    let call = (gateway.echo)();
    let call_ms = median_ms(|_| expect_result(&pipe.request("tools/call", &call)?)).map_err(failed)?;
    Ok(Figures {
        title: format!("{} {}", gateway.title, version(gateway.version)?),
        tools: tools.len(),
        list_tokens: tokens.encode_ordinary(&json!(tools).to_string()).len(),
        first_list_s,
        search,
        call_ms,
        memory_mb: resident_mb(pipe.pid()),
    })
}

/// Asks all queries once for what the answers hold, and then again for the time.
fn search(
    pipe: &mut Pipe,
    tool: &str,
    separator: &str,
    queries: &[Labelled],
    tokens: &CoreBPE,
) -> Result<SearchFigures, String> {
    let params = |query: &str| json!({"name": tool, "arguments": {"query": query}});
    let mut found = 0;
    let mut sizes = Vec::new();
    for labelled in queries {
        let answer = pipe.request("tools/call", &params(&labelled.query))?;
        expect_result(&answer)?;
        let text = answer_text(&answer);
        let has = |label: &String| names_tool(&text, &label.replacen('/', separator, 1));
        found += usize::from(labelled.tools.iter().any(has));
        sizes.push(tokens.encode_ordinary(&text).len() as f64);
    }
    sizes.sort_by(f64::total_cmp);
    let ms =
        median_ms(|turn| expect_result(&pipe.request("tools/call", &params(&queries[turn % queries.len()].query))?))?;
    Ok(SearchFigures { found, of: queries.len(), answer_tokens: at(&sizes, 0.5) as usize, ms })
}

/// The text of a result, as the model reads it.
fn answer_text(answer: &Value) -> String {
    let parts = answer["result"]["content"].as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Whether the name occurs, and not only as a part of another one.
fn names_tool(text: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || "_-".contains(character);
    text.match_indices(name)
        .any(|(start, _)| !text[..start].ends_with(is_part) && !text[start + name.len()..].starts_with(is_part))
}

fn median_ms(mut work: impl FnMut(usize) -> Result<(), String>) -> Result<f64, String> {
    let mut times = Vec::with_capacity(CALLS);
    for turn in 0..WARM_UP + CALLS {
        let began = Instant::now();
        work(turn)?;
        if turn >= WARM_UP {
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(at(&times, 0.5))
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(Path::new(words[0]));
    command.args(&words[1..]);
    command
}

/// The last word that the program prints about itself.
fn version(words: &[&str]) -> Result<String, String> {
    let output = command(words).output().map_err(|error| format!("cannot run `{}`: {error}", words[0]))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().last().map(str::to_owned).ok_or_else(|| format!("`{}` prints no version", words[0]))
}

fn read_queries(text: &str) -> Result<Vec<Labelled>, String> {
    let read = |line: &str| {
        let value: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        let query = value["query"].as_str().ok_or_else(|| format!("no query: {line}"))?.to_owned();
        let tools: Vec<String> =
            value["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        if tools.is_empty() { Err(format!("no tools: {line}")) } else { Ok(Labelled { query, tools }) }
    };
    text.lines().map(read).collect()
}

/// A Markdown table with a column for each gateway.
fn table(figures: &[Figures], servers: usize, tools: usize, tokens: usize) -> String {
    let row = |title: &str, cell: &dyn Fn(&Figures) -> String| {
        let cells: Vec<String> = figures.iter().map(cell).collect();
        format!("| {title} | {} |\n", cells.join(" | "))
    };
    let of_search = |cell: fn(&SearchFigures) -> String| {
        move |figures: &Figures| figures.search.as_ref().map_or_else(|| "–".to_owned(), cell)
    };
    let mut table = row(&format!("{servers} servers, {tools} tools"), &|figures| figures.title.clone());
    table.push_str(&format!("| --- |{}\n", " --- |".repeat(figures.len())));
    table.push_str(&row(&format!("tool list (all definitions: {} tokens)", thousands(tokens)), &|figures| {
        format!("{} tools, {} tokens", figures.tools, thousands(figures.list_tokens))
    }));
    table.push_str(&row("right tool in the answer", &of_search(|search| format!("{} of {}", search.found, search.of))));
    table.push_str(&row("tokens of an answer", &of_search(|search| thousands(search.answer_tokens))));
    table.push_str(&row("search", &of_search(|search| milliseconds(search.ms))));
    table.push_str(&row("call of a tool", &|figures| milliseconds(figures.call_ms)));
    table.push_str(&row("start to first list", &|figures| format!("{:.1} s", figures.first_list_s)));
    table.push_str(&row("memory of the gateway", &|figures| format!("{:.0} MB", figures.memory_mb)));
    table
}

fn milliseconds(ms: f64) -> String {
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// The number with commas between groups of three digits.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}

fn write_readme(table: &str) -> Result<(), String> {
    let text = fs::read_to_string("README.md").map_err(|error| format!("cannot read `README.md`: {error}"))?;
    let filled = fill(&text, table).ok_or("`README.md` has no marks for the table")?;
    fs::write("README.md", filled).map_err(|error| format!("cannot write `README.md`: {error}"))
}

/// The text with the table between the marks.
fn fill(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    Some(format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_only_as_a_whole() {
        let text = r#"{"name":"time_get"} git_log(count: 3)"#;
        for (name, expected) in
            [("time_get", true), ("git_log", true), ("time_ge", false), ("log", false), ("it", false)]
        {
            assert_eq!(names_tool(text, name), expected, "{name}");
        }
    }

    #[test]
    fn the_queries_can_be_read() {
        let text = include_str!("../../testkit/peers/bench/queries.jsonl");
        let queries = read_queries(text).expect("readable queries");
        assert!(queries.iter().flat_map(|labelled| &labelled.tools).all(|tool| tool.matches('/').count() == 1));
        assert!(read_queries("{\"query\": \"x\", \"tools\": []}").is_err(), "a query without a tool");
    }

    #[test]
    fn the_table_goes_between_the_marks() {
        let figures = [
            Figures {
                title: "A 1".to_owned(),
                tools: 2,
                list_tokens: 1234,
                first_list_s: 1.25,
                search: Some(SearchFigures { found: 3, of: 4, answer_tokens: 99, ms: 0.26 }),
                call_ms: 12.4,
                memory_mb: 30.4,
            },
            Figures {
                title: "B 2".to_owned(),
                tools: 40,
                list_tokens: 12,
                first_list_s: 9.0,
                search: None,
                call_ms: 1.0,
                memory_mb: 5.0,
            },
        ];
        let expected = "before\n<!-- compare:begin -->\n\
            | 5 servers, 6 tools | A 1 | B 2 |\n\
            | --- | --- | --- |\n\
            | tool list (all definitions: 1,234,567 tokens) | 2 tools, 1,234 tokens | 40 tools, 12 tokens |\n\
            | right tool in the answer | 3 of 4 | – |\n\
            | tokens of an answer | 99 | – |\n\
            | search | 0.3 ms | – |\n\
            | call of a tool | 12 ms | 1.0 ms |\n\
            | start to first list | 1.2 s | 9.0 s |\n\
            | memory of the gateway | 30 MB | 5 MB |\n\
            <!-- compare:end -->after";
        let text = "before\n<!-- compare:begin -->\nold\n<!-- compare:end -->after";
        assert_eq!(fill(text, &table(&figures, 5, 6, 1_234_567)).as_deref(), Some(expected));
        assert_eq!(fill("no marks", "x"), None);
    }
}
