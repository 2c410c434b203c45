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
    console::ConsoleArgs,
    disconnect::DisconnectArgs,
    doctor::DoctorArgs,
    eval::EvalArgs,
    hook::HookArgs,
    import::ImportArgs,
    lint::LintArgs,
    login::LoginArgs,
    logout::LogoutArgs,
    logs::LogsArgs,
    proxy::ProxyArgs,
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

/// Returns the whole command line, for parsing and for everything generated from it.
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
    /// Search for tools that match a query
    ///
    /// Searches the tools of the configured servers: asks the gateway that runs with the
    /// configuration, or starts the servers if none is running. `--catalog` searches a catalog file
    /// instead. Without a configuration, searches the demo. Prints a table on a terminal and JSON
    /// otherwise. Exits with 1 if no tool matches.
    Search(SearchArgs),
    /// List all tools, or the tools that match a query
    ///
    /// Asks the gateway that runs with the configuration, or starts the servers if none is running.
    /// Exits with 1 if there are no tools.
    Tools(ToolsArgs),
    /// Call a tool
    ///
    /// Asks the gateway that runs with the configuration. If none is running, starts the servers: only
    /// the tool's own server, if its name or the tools of an earlier run say which. Arguments are `key=value`
    /// pairs, converted to the types in the tool's schema, a JSON object, or both. Exits with 1 if the
    /// tool reports an error or may have run, and with 2 if it was not called.
    Call(CallArgs),
    /// Run the gateway: many MCP servers behind one endpoint
    ///
    /// Reads `mcpServers` in the format of MCP clients, starts the servers, and shows each client
    /// only the tools that it needs. Without a configuration, serves a demo with working tools.
    /// Serves Streamable HTTP at `/mcp` in all protocol versions; use `--stdio` for clients that
    /// start their servers themselves.
    Serve(ServeArgs),
    /// Run the LLM API proxy: any program defers its tools by changing its base URL
    ///
    /// Programs send their requests to the proxy instead of their provider:
    /// `ANTHROPIC_BASE_URL=http://127.0.0.1:8090/anthropic`, `OPENAI_BASE_URL=http://127.0.0.1:8090/openai/v1`,
    /// `GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:8090/gemini`. The model gets a search instead of all tools of a
    /// request, and its searches are answered on the way. The program's API key is passed to the provider.
    /// Everything that the proxy does not understand passes through.
    Proxy(ProxyArgs),
    /// Log in to a remote server
    ///
    /// Discovers the server's authorization server, opens a browser for the login (OAuth 2.1), and
    /// saves the tokens in a file that only you can read. `serve`, `catalog` and `agent` then use and
    /// refresh them; a running gateway picks them up within a second. Exits with 1 if the login is
    /// denied or times out.
    Login(LoginArgs),
    /// Log out of a remote server
    ///
    /// Deletes the tokens that `login` saved, and revokes them if the authorization server supports
    /// it. Exits with 1 if there was no login.
    Logout(LogoutArgs),
    /// Show the status of a running gateway: servers, tools, sessions, tokens saved
    ///
    /// Prints one screen about the gateway that runs for this user, or one line for each if several
    /// are running. If the gateway requires a token, it is read from `--token-file`, from
    /// `PEGBOARD_TOKEN`, or from the gateway's configuration file. Exits with 1 if a server has failed
    /// or no gateway is running.
    Status(StatusArgs),
    /// Show the log of a running gateway
    ///
    /// Prints the most recent lines, which the gateway keeps in memory at any log level: server events,
    /// and what the servers write to standard error.
    Logs(LogsArgs),
    /// Print a URL that opens the console of a running gateway
    ///
    /// The URL has a code that signs in once. It opens nothing by itself.
    Console(ConsoleArgs),
    /// Restart a server of a running gateway
    Restart(RestartArgs),
    /// Add a server to the configuration
    ///
    /// `pegboard add NAME -- COMMAND ARGUMENT…` adds a local program, `pegboard add NAME URL` a remote
    /// server. Comments in the file are kept. A gateway that runs with the file applies the change.
    Add(AddArgs),
    /// Remove a server from the configuration
    Remove(NameArgs),
    /// Enable a server in the configuration
    Enable(NameArgs),
    /// Disable a server in the configuration
    Disable(NameArgs),
    /// Trust a project's configuration file
    ///
    /// A `pegboard.json` that is found in the current folder or above starts no program until you
    /// trust it. Trust applies to the file's current content; after a change you are asked again. Your
    /// user configuration and a file named with `--config` are always trusted.
    Trust(TrustArgs),
    /// Print the tools of the configured servers as a catalog
    ///
    /// Starts the servers, prints one tool per line, and stops them. Includes tools that the
    /// configuration hides from clients. Exits with 1 if a server does not start.
    Catalog(CatalogArgs),
    /// Approve tools that were added or changed since their server was first seen
    ///
    /// The tools of a server are approved when it is first seen, unless the configuration sets
    /// `"newServers": "hold"`. Tools that are added or changed later wait for approval; with
    /// `"pinning": "hold"` they are hidden until then. Shows the differences and asks for each; a
    /// running gateway applies an approval at once.
    Approve(ApproveArgs),
    /// Create a configuration from the servers of your MCP clients
    ///
    /// Finds the servers that are configured in Claude Desktop, Claude Code, Cursor, VS Code, Windsurf,
    /// Codex, Gemini CLI and Zed, for you and for the project in the current folder, and previews the
    /// configuration for `pegboard serve`. `--write` or `--output` writes it, or adds the servers that an
    /// existing file lacks. Secrets are masked in the output. Exits with 1 if no server is found.
    Import(ImportArgs),
    /// Add Pegboard to an MCP client
    ///
    /// Prints the entry for the client's configuration file. `--write` adds it to the file and changes
    /// nothing else there, not even comments.
    Connect(ConnectArgs),
    /// Remove Pegboard from an MCP client
    ///
    /// Removes Pegboard's entry from the client's configuration file and keeps a backup next to it.
    Disconnect(DisconnectArgs),
    /// Suggest tools for a message, as a hook of Claude Code
    ///
    /// Reads the JSON of a `UserPromptSubmit` hook, searches the tools of the running gateway for the
    /// message, and prints the matching tools as `additionalContext`. Prints nothing if no tool matches
    /// or no gateway is running. `pegboard connect claude-code --hook --write` installs it.
    Hook(HookArgs),
    /// Check the setup for common problems and suggest fixes
    ///
    /// Checks the configuration and what it depends on: programs, variables, files and the listen
    /// address. Then starts every server, checks its tools, and stops it again; `--offline` skips
    /// this. Secrets are never printed. Exits with 1 if there are errors.
    Doctor(DoctorArgs),
    /// Run an agent: a model that uses the tools of the configured servers
    ///
    /// Starts the servers and lets the model search for and call their tools. With a PROMPT, prints the
    /// answer and exits; without one on a terminal, starts a conversation. Without a configuration, uses
    /// a demo with working tools. API keys are read from each provider's usual variable, such as
    /// `ANTHROPIC_API_KEY`. Exits with 1 if a limit is reached, the model refuses, or calls were not made
    /// because they were not approved; with 2 if the provider cannot be reached or rejects a request; and
    /// with 130 if it was interrupted.
    Agent(Box<AgentArgs>),
    /// Run a tool search session over standard input and output
    ///
    /// Keeps the tool state of one conversation. Reads one JSON object per line from standard input
    /// and answers each with one line: `{"op":"list"}`, `{"op":"call","name":…,"arguments":…}`,
    /// `{"op":"prompt"}`, `{"op":"messages","messages":[…]}` and `{"op":"pin","name":…}`.
    Session(SessionArgs),
    /// Show or delete what was learned from usage
    ///
    /// If the configuration enables `usageLearning`, a tool that was called after a search ranks higher
    /// for similar queries of the same caller. Shows the query words (stemmed), the tool, and the
    /// remaining strength; `pegboard search --usage --explain` shows the effect on a search. A running
    /// gateway applies a reset within a second.
    Usage(UsageArgs),
    /// Count the context tokens of a catalog, with and without tool search
    ///
    /// Counts o200k tokens of compact JSON: all tools at once, the first tool list of each dialect,
    /// and its answers to a hundred queries. Takes the tools of the gateway that runs with the
    /// configuration, or starts its servers.
    Tokens(TokensArgs),
    /// Check for tools that are hard to find, easily confused or too large
    ///
    /// Searches for every tool by its own words, and checks names, descriptions and schemas. Each finding
    /// says what is wrong and how to fix it. Checks the tools of the gateway that runs with the
    /// configuration, else of its servers, which it starts, or the files of `--catalog`; without a
    /// configuration, the demo. Exits with 1 if there are more findings than `--max-findings`. The rules are
    /// in `docs/lint.md`.
    Lint(LintArgs),
    /// Measure rankers against labelled queries
    ///
    /// DATA is a folder with `tools.jsonl` or `openapi.json`, `queries.jsonl` (`id`, `query`) and
    /// `qrels.tsv` (query id, tool id, relevance), or a file written by `pegboard serve --record`, in
    /// which the tools called after a search count as relevant for it.
    Eval(EvalArgs),
    /// Benchmark search speed and memory against Tantivy
    ///
    /// Builds synthetic catalogs of the given sizes, runs two-word queries for the ten best tools,
    /// and replaces single tools.
    Bench(BenchArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man,
    /// Print the JSON Schema of the configuration file
    Schema,
}
