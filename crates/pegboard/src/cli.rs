//! The declaration of the command line.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use pegboard_discovery::DialectName;

use crate::{
    commands::{
        agent::AgentArgs, approve::ApproveArgs, connect::ConnectArgs, doctor::DoctorArgs, import::ImportArgs,
        lint::LintArgs, status::StatusArgs, usage::UsageArgs,
    },
    embeddings::EmbeddingsArgs,
    rankers::RankerName,
};

/// The whole command line, for parsing and for everything generated from it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Finds the right tool among thousands for a language model.
#[derive(Debug, Parser)]
#[command(
    name = "pegboard",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Rank the tools of a catalog for a query
    ///
    /// Without `--catalog`, searches the demo catalog that is built in. Prints a table on
    /// a terminal and JSON otherwise. Exits with 1 when nothing fits.
    Search(SearchArgs),
    /// Put any number of MCP servers behind one endpoint
    ///
    /// Reads the `mcpServers` that MCP clients have, starts the servers, and shows each
    /// client only what it needs. Without a configuration, serves a demo whose tools work.
    /// Streamable HTTP at `/mcp`, of all protocol versions; `--stdio` for clients that
    /// start their servers themselves.
    Serve(ServeArgs),
    /// Log in to a remote server
    ///
    /// Asks the server who gives logins for it, opens a browser there (OAuth 2.1), and keeps what
    /// comes of it for you alone. From then on `serve`, `catalog` and `agent` use it, and renew it;
    /// a gateway that runs finds it within a second. Exits with 1 when the login is refused or
    /// nobody logs in.
    Login(LoginArgs),
    /// Forget the login to a remote server
    ///
    /// Removes what `login` has kept, and tells whoever gave the login, where that is possible.
    /// Exits with 1 when there was none.
    Logout(LogoutArgs),
    /// Show how a running gateway is: servers, tools, conversations, tokens saved
    ///
    /// Finds the gateway that runs for this user, asks it, and prints one screen; with
    /// several, a line for each. Where the gateway wants a token, it is read from
    /// `--token-file`, from `PEGBOARD_TOKEN`, or from the gateway's configuration file. Exits
    /// with 1 when a server has failed or no gateway runs.
    Status(StatusArgs),
    /// Print the tools of the configured servers as a catalog
    ///
    /// Starts the servers, prints one tool a line, and stops them. All of their tools: what
    /// the configuration hides from clients included. Exits with 1 when a server does not
    /// start.
    Catalog(CatalogArgs),
    /// Approve tools that are new or have changed since their server was first seen
    ///
    /// What a server offers when it is first seen is approved. What differs from that later on
    /// waits here, and cannot be used meanwhile where the configuration says `"pinning":
    /// "hold"`. Shows what is different and asks; a gateway that runs takes an approval over.
    Approve(ApproveArgs),
    /// Make one configuration of what your MCP clients have
    ///
    /// Finds the servers that Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Codex, Gemini
    /// CLI and Zed have, for you and for the project in the current folder, and shows what would
    /// become of them; `--write` or `--output` writes it, for `pegboard serve`. Secrets are masked
    /// in all that is printed. Exits with 1 when no server is found.
    Import(ImportArgs),
    /// Make an MCP client use Pegboard
    ///
    /// Prints what belongs into the client's configuration; `--write` puts it there and leaves
    /// everything else in that file as it is, comments included.
    Connect(ConnectArgs),
    /// Find the usual mistakes, and say how to fix each
    ///
    /// Looks at the configuration and what it needs: programs, variables, files, the address to
    /// listen on. Then starts every server, looks at its tools, and stops it again; `--offline`
    /// starts none. Secrets are never printed. Exits with 1 when something is wrong enough that
    /// it cannot work.
    Doctor(DoctorArgs),
    /// Run a server and leave no process behind
    #[command(hide = true)]
    Supervise(SuperviseArgs),
    /// Run a shell command within limits, as ordered on standard input
    #[command(hide = true)]
    Confine(ConfineArgs),
    /// Run a jq filter over standard input within limits
    #[command(hide = true)]
    QueryOutput(QueryOutputArgs),
    /// Let a model work with the tools of the configured servers
    ///
    /// Starts the servers and hands the model what it needs to find their tools. With a
    /// PROMPT, prints the answer and ends; on a terminal without one, a conversation. Without
    /// a configuration, the tools are those of a demo, and work. Keys come from each
    /// provider's usual variables, such as `ANTHROPIC_API_KEY`. Exits with 1 when a limit is
    /// reached or the model refuses, and with 130 when it was stopped.
    Agent(Box<AgentArgs>),
    /// Hold one conversation's tool state
    ///
    /// Reads one JSON object a line from standard input and answers each with one line:
    /// `{"op":"list"}`, `{"op":"call","name":…,"arguments":…}`, `{"op":"prompt"}`,
    /// `{"op":"messages","messages":[…]}` and `{"op":"pin","name":…}`.
    Session(SessionArgs),
    /// Show what was learned from use, or forget it
    ///
    /// Where the configuration says `usageLearning`, what was called after a search ranks higher
    /// for like queries of the same caller. Shows the words (their stems), the tool, and what is
    /// left of it; `pegboard search --usage --explain` shows what it does. A gateway that runs
    /// finds within a second that something is to be forgotten.
    Usage(UsageArgs),
    /// Count what a catalog costs a context, and what each dialect leaves of it
    ///
    /// Counts o200k tokens of compact JSON: all tools at once, what each dialect shows at
    /// first, and what its answers to a hundred queries cost.
    Tokens(TokensArgs),
    /// Find tools that models will not find, will confuse, or will pay too much for
    ///
    /// Searches for every tool by its own words, and looks at names, descriptions and schemas;
    /// each finding says what is wrong and how to mend it. Without `--catalog`, looks at the demo
    /// catalog; `pegboard catalog` makes catalogs of running servers. Starts nothing. Exits with 1
    /// when there are more findings than are let pass. The rules are in `docs/lint.md`.
    Lint(LintArgs),
    /// Measure rankers against labelled queries
    ///
    /// DATA is a folder with `tools.jsonl`, `queries.jsonl` (`id`, `query`) and `qrels.tsv`
    /// (query id, tool id, relevance), or a file that `pegboard serve --record` has written:
    /// then the tools that were called after a search count as relevant for it.
    Eval(EvalArgs),
    /// Measure speed and memory beside Tantivy
    ///
    /// Builds synthetic catalogs of the given sizes, asks two-word queries for the ten
    /// best tools, and replaces single tools.
    Bench(BenchArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man,
}

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// What to look for, in the ranker's query language
    #[arg(value_name = "QUERY", required_unless_present = "query_file", conflicts_with = "query_file")]
    pub(crate) query: Vec<String>,

    /// Read the query from a file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) query_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// How to rank
    #[arg(long, value_name = "RANKER", env = "PEGBOARD_RANKER")]
    pub(crate) ranker: Option<RankerName>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// At most this many hits, 1 or more [default: 10]
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub(crate) limit: Option<usize>,

    /// Leave out hits that score less than this share of the best one, 0 to 1 [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) threshold: Option<f64>,

    /// Show hits only if the best of them is so likely to be meant, 0 to 1; 0 shows the nearest
    /// there is [default: the ranker's own]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) least_confidence: Option<f64>,

    /// Say which field and term gave each hit how much
    #[arg(long)]
    pub(crate) explain: bool,

    /// Rank with what was learned from use: of this user, or of the caller with this name
    #[arg(long, value_name = "CALLER", num_args = 0..=1, require_equals = true, default_missing_value = crate::usage::local())]
    pub(crate) usage: Option<String>,

    /// Say where this tool ranked and what it lacked
    #[arg(long, value_name = "NAME")]
    pub(crate) why_not: Option<String>,

    #[command(flatten)]
    pub(crate) embeddings: EmbeddingsArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The configuration; without one, the demo
    #[arg(value_name = "CONFIG", env = "PEGBOARD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Where to listen [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", env = "PEGBOARD_LISTEN", conflicts_with = "stdio")]
    pub(crate) listen: Option<String>,

    /// Speak on standard input and output instead
    #[arg(long)]
    pub(crate) stdio: bool,

    /// Listen on a public address although no token is asked for
    #[arg(long)]
    pub(crate) allow_public: bool,

    /// Where to keep what servers offer, for the next start, and logins; `none` keeps nothing
    /// [default: `pegboard` in the user's folder for state]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,

    /// Note queries and the tools that were called then, for `pegboard eval FILE`; never
    /// arguments or results
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Note nothing more once the record is this large
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, requires = "record")]
    pub(crate) record_limit: u64,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The name of the server in the configuration
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// The configuration [default: where `pegboard import --write` puts it]
    #[arg(value_name = "CONFIG", env = "PEGBOARD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Print the address instead of opening a browser. Where the browser is on another machine,
    /// paste the address of the page that it cannot open in the end
    #[arg(long)]
    pub(crate) no_browser: bool,

    /// How long to wait for you
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) timeout: u64,

    /// Where to keep the login [default: `pegboard` in the user's folder for state]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The name of the server in the configuration
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// The configuration [default: where `pegboard import --write` puts it]
    #[arg(value_name = "CONFIG", env = "PEGBOARD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Where the login is kept [default: `pegboard` in the user's folder for state]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CatalogArgs {
    /// The configuration
    #[arg(value_name = "CONFIG", env = "PEGBOARD_CONFIG")]
    pub(crate) config: PathBuf,

    /// Where logins to remote servers are kept; `none` uses none
    /// [default: `pegboard` in the user's folder for state]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SuperviseArgs {
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfineArgs {
    /// Be the part inside the sandbox
    #[arg(long)]
    pub(crate) inside: bool,
}

#[derive(Debug, Args)]
pub(crate) struct QueryOutputArgs {
    /// Print each result on one line
    #[arg(long)]
    pub(crate) compact: bool,

    /// Print strings without quotes
    #[arg(long)]
    pub(crate) raw: bool,

    /// How much memory it may take
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory_bytes: u64,

    /// How much processor time it may take
    #[arg(long, value_name = "SECONDS")]
    pub(crate) cpu_seconds: u64,

    /// The filter
    #[arg(value_name = "FILTER")]
    pub(crate) filter: String,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// What to log: off, error, warn, info, debug, trace, or a list such as
    /// `warn,pegboard::server=info` [default: info; error for `catalog` and `agent`, off for `doctor`]
    #[arg(long, value_name = "LEVEL", env = "PEGBOARD_LOG")]
    pub(crate) log_level: Option<String>,

    /// How to log
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// The family of meta-tools
    #[arg(long, value_name = "DIALECT", default_value = "bridge")]
    pub(crate) dialect: Dialect,

    /// A catalog file; without one, the demo catalog
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) catalog: Vec<PathBuf>,

    /// Refuse catalog files that are larger
    #[arg(long, value_name = "BYTES", default_value_t = pegboard_core::Limits::default().file_bytes)]
    pub(crate) max_catalog_bytes: usize,

    /// How to rank, instead of the dialect's own way
    #[arg(long, value_name = "RANKER")]
    pub(crate) ranker: Option<RankerName>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) shown: ShownArgs,

    /// What the prompt says there is, instead of what the catalog tells
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) prompt_categories: Vec<String>,

    /// An option of the dialect, such as `maxToolsLimit=20`
    #[arg(long, value_name = "KEY=JSON")]
    pub(crate) set: Vec<String>,

    /// Learn from the calls that follow a search, and rank with what was learned. A call counts
    /// as made, since nothing is heard of what became of it
    #[arg(long)]
    pub(crate) usage: bool,

    #[command(flatten)]
    pub(crate) embeddings: EmbeddingsArgs,
}

/// Which tools a model sees of those that there are.
#[derive(Debug, Args)]
pub(crate) struct ShownArgs {
    /// Show tools of these servers
    #[arg(long, value_name = "SERVER", value_delimiter = ',')]
    pub(crate) servers: Vec<String>,

    /// Show these tools: `server:tool`, `server:*` or a name
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) tools: Vec<String>,

    /// Hide these servers or tools
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) deny: Vec<String>,

    /// Tools that are visible from the start
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) pre_discovered: Vec<String>,
}

/// A dialect by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect(pub(crate) DialectName);

impl ValueEnum for Dialect {
    fn value_variants<'a>() -> &'a [Self] {
        const {
            &[
                Self(DialectName::Explicit),
                Self(DialectName::Gateway),
                Self(DialectName::Select),
                Self(DialectName::Ranked),
                Self(DialectName::Schema),
                Self(DialectName::Bridge),
            ]
        }
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let help = match self.0 {
            DialectName::Explicit => "Search, then add by name",
            DialectName::Gateway => "The first tools, and a search that exposes its hits",
            DialectName::Select => "A search that loads its matches",
            DialectName::Ranked => "A search that only ranks",
            DialectName::Schema => "A search that loads and returns schemas",
            DialectName::Bridge => "Ready-to-call signatures and one call tool",
            DialectName::Code => "Specs of an HTTP API, and a shell whose programs call it",
        };
        Some(clap::builder::PossibleValue::new(self.0.as_str()).help(help))
    }
}

/// Where tools come from.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// A catalog file: an MCP `tools/list` result, a JSON array of tools, or JSON Lines
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) catalog: Vec<PathBuf>,

    /// A configuration file; its `pegboard` section may name catalogs, ranker, limit, and what `lint` lets pass
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Refuse catalog files that are larger
    #[arg(long, value_name = "BYTES", default_value_t = pegboard_core::Limits::default().file_bytes)]
    pub(crate) max_catalog_bytes: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// The model file that `hybrid` ranks with, instead of the model that is built in
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// How to print the result [default: text on a terminal, json otherwise]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON document
    Json,
    /// A table for people
    Text,
}

#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    /// A catalog file; without one, the demo catalog
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) catalog: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// The folder with the labelled queries, or a record
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,

    /// Which rankers to measure; `all` for all but `lexical`
    #[arg(long, value_name = "RANKER", value_delimiter = ',', default_value = "hybrid")]
    pub(crate) ranker: Vec<RankerChoice>,

    #[command(flatten)]
    pub(crate) embeddings: EmbeddingsArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A ranker, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankerChoice {
    All,
    One(RankerName),
}

impl ValueEnum for RankerChoice {
    fn value_variants<'a>() -> &'a [Self] {
        use RankerName as R;
        &[
            Self::One(R::Hybrid),
            Self::One(R::Regex),
            Self::One(R::Bm25),
            Self::One(R::Keyword),
            Self::One(R::Sequence),
            Self::One(R::Hinted),
            Self::One(R::Lexical),
            Self::All,
        ]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            Self::All => Some(clap::builder::PossibleValue::new("all").help("All but `lexical`, one after another")),
            Self::One(name) => name.to_possible_value(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// How many tools the synthetic catalogs have
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1000,10000,100000")]
    pub(crate) sizes: Vec<usize>,

    /// Measure this catalog file too
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) catalog: Vec<PathBuf>,

    /// How many queries to time for each row
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = parse_count)]
    pub(crate) queries: usize,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// More queries than this would run for days.
const MAX_BENCH_QUERIES: usize = 10_000_000;

fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(count) if (1..=MAX_BENCH_QUERIES).contains(&count) => Ok(count),
        _ => Err(format!("a number from 1 to {MAX_BENCH_QUERIES} is expected")),
    }
}

fn parse_limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number from 1 on is expected".to_owned()),
        Ok(limit) => Ok(limit),
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0 to 1 is expected".to_owned()),
    }
}
