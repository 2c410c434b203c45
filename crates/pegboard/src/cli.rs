//! The declaration of the command line.

pub(crate) mod hidden;
pub(crate) mod options;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    agent::AgentArgs,
    approve::ApproveArgs,
    bench::BenchArgs,
    call::CallArgs,
    catalog::CatalogArgs,
    completions::CompletionsArgs,
    connect::ConnectArgs,
    disconnect::DisconnectArgs,
    doctor::DoctorArgs,
    eval::EvalArgs,
    hook::HookArgs,
    import::ImportArgs,
    lint::LintArgs,
    login::LoginArgs,
    logout::LogoutArgs,
    logs::LogsArgs,
    restart::RestartArgs,
    search::SearchArgs,
    serve::ServeArgs,
    servers::{AddArgs, NameArgs},
    session::SessionArgs,
    status::StatusArgs,
    tokens::TokensArgs,
    tools::ToolsArgs,
    trust::TrustArgs,
    usage::UsageArgs,
};

/// The whole command line, for parsing and for everything generated from it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Finds the right tool among thousands for a language model.
#[derive(Debug, Parser)]
#[command(name = "pegboard", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Find the tools that fit a query
    ///
    /// Searches the tools of the configuration: those of the gateway that runs with it, else its
    /// servers are started for the search. `--catalog` searches a file instead. Without either,
    /// searches the demo. Prints a table on a terminal and JSON otherwise. Exits with 1 when nothing
    /// fits.
    Search(SearchArgs),
    /// List the tools that there are, or those that fit a query
    ///
    /// Asks the gateway that runs with the configuration, else starts its servers. Exits with 1 when
    /// there are none.
    Tools(ToolsArgs),
    /// Call a tool
    ///
    /// Asks the gateway that runs with the configuration, else starts its servers. Arguments are
    /// `key=value`, read as the tool's schema says, or one JSON object. Exits with 1 when the tool
    /// reports an error, and with 2 when it was not called.
    Call(CallArgs),
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
    /// Show the status of a running gateway: servers, tools, conversations, tokens saved
    ///
    /// Finds the gateway that runs for this user, asks it, and prints one screen; with
    /// several, a line for each. Where the gateway wants a token, it is read from
    /// `--token-file`, from `PEGBOARD_TOKEN`, or from the gateway's configuration file. Exits
    /// with 1 when a server has failed or no gateway runs.
    Status(StatusArgs),
    /// Show the log of a running gateway
    ///
    /// The last lines that it keeps in memory, whatever its own log shows: what happened to servers,
    /// and what they write to standard error.
    Logs(LogsArgs),
    /// Restart a server of a running gateway
    Restart(RestartArgs),
    /// Add a server to the configuration
    ///
    /// `pegboard add NAME -- COMMAND ARGUMENT…` for a program, `pegboard add NAME URL` for a remote
    /// server. Comments in the file stay. A gateway that runs with it follows.
    Add(AddArgs),
    /// Remove a server from the configuration
    Remove(NameArgs),
    /// Switch a server on in the configuration
    Enable(NameArgs),
    /// Switch a server off in the configuration
    Disable(NameArgs),
    /// Trust a configuration file that was found in a folder
    ///
    /// A `pegboard.json` that comes with a folder starts no program until it is trusted, as it is
    /// now: a change asks again. Your own configuration, and a file that you name with `--config`, need
    /// no trust.
    Trust(TrustArgs),
    /// Print the tools of the configured servers as a catalog
    ///
    /// Starts the servers, prints one tool a line, and stops them. All of their tools: what
    /// the configuration hides from clients included. Exits with 1 when a server does not
    /// start.
    Catalog(CatalogArgs),
    /// Approve tools that are new or have changed since their server was first seen
    ///
    /// The tools that a server offers when it is first seen are approved, unless the configuration says
    /// `"newServers": "hold"`. Tools that differ from that later wait here, and are held where it says
    /// `"pinning": "hold"`. Shows the differences and asks; a running gateway applies an approval at once.
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
    /// Make an MCP client use Pegboard no longer
    ///
    /// Takes the entry of Pegboard out of the client's file; a backup stays beside it.
    Disconnect(DisconnectArgs),
    /// Name likely tools for a message, as a hook of Claude Code
    ///
    /// Reads the JSON of a `UserPromptSubmit` hook, searches the tools of the running gateway for the
    /// message, and prints what fits as `additionalContext`. Prints nothing when nothing fits or no
    /// gateway runs. `pegboard connect claude-code --hook` installs it.
    Hook(HookArgs),
    /// Find the usual mistakes, and say how to fix each
    ///
    /// Looks at the configuration and what it needs: programs, variables, files, the address to
    /// listen on. Then starts every server, looks at its tools, and stops it again; `--offline`
    /// starts none. Secrets are never printed. Exits with 1 when something is wrong enough that
    /// it cannot work.
    Doctor(DoctorArgs),
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
    /// Print the JSON Schema of the configuration file
    Schema,
}
