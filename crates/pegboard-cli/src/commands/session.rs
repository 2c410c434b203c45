//! `pegboard session`.

mod args;
mod repl;

use std::{
    io::{BufRead, BufReader, IsTerminal, Read, stdin},
    sync::Arc,
};

use pegboard_core::{Catalog, Origin, Ranker, Selection, Server};
use pegboard_discovery::{CallAnswer, Holder, HostTool, Learner as _, Session, Settings, transcript::OpenAiChat};
use pegboard_engine::usage::HabitSettings;
use serde_json::{Map, Value, json};

pub(crate) use self::args::SessionArgs;
use crate::{
    Outcome, catalogs,
    cli::options,
    config::{Config, state::StateFolder},
    configured_tools,
    embeddings::EmbeddingsClient,
    error::{CliError, warn},
    models, output,
    rankers::RankerName,
    usage::{self, UsageLearner},
};

/// Maximum length of an input line; a longer one is rejected and the session continues.
const MAX_LINE_BYTES: u64 = 16 << 20;

pub(crate) fn run(args: &SessionArgs) -> Result<Outcome, CliError> {
    let learner = args.usage.then(|| learner(args)).transpose()?;
    let embeddings = EmbeddingsClient::open(&args.embeddings, &Config::default())?;
    let session = open(args, learner.as_ref(), embeddings.as_ref())?;
    let mut runner = SessionRunner { session, learner, embeddings };
    let ended = if stdin().is_terminal() { repl::run(&mut runner) } else { serve_lines(&mut runner) };
    if let Some(learner) = &runner.learner {
        learner.finish();
    }
    ended
}

/// A session with its usage learner and its embeddings endpoint.
struct SessionRunner {
    session: Session,
    learner: Option<UsageLearner>,
    embeddings: Option<EmbeddingsClient>,
}

fn learner(args: &SessionArgs) -> Result<UsageLearner, CliError> {
    let Some(state) = StateFolder::default().resolve(args.embeddings.state.as_deref()) else {
        return Err(CliError::new("`--usage` needs a state folder").hint("name one with `--state FOLDER`"));
    };
    let folder = usage::folder(&state);
    UsageLearner::open(&folder, usage::catalog_of(None, &args.catalog), HabitSettings::default())
        .map_err(|error| usage::unusable(&folder, error))
}

/// Answers requests from standard input, one JSON object per line.
fn serve_lines(runner: &mut SessionRunner) -> Result<Outcome, CliError> {
    let mut input = BufReader::new(stdin().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input).take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        if read.map_err(|error| CliError::new("cannot read standard input").because(error))? == 0 {
            return Ok(Outcome::Yes);
        }
        if line.len() as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") {
            skip_line(&mut input)?;
            answer(&json!({"error": format!("line is longer than {MAX_LINE_BYTES} bytes")}))?;
            continue;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let reply = serde_json::from_slice::<Value>(&line)
            .map_err(|error| format!("not JSON: {error}"))
            .and_then(|request| serve(runner, &request));
        answer(&reply.unwrap_or_else(|error| json!({"error": error})))?;
    }
}

fn answer(value: &Value) -> Result<(), CliError> {
    output::raw(format!("{value}\n").as_bytes())
}

/// Skips the rest of a line that is too long.
fn skip_line(input: &mut impl BufRead) -> Result<(), CliError> {
    loop {
        let buffer = input.fill_buf().map_err(|error| CliError::new("cannot read standard input").because(error))?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (length, is_done) = (end.map_or(buffer.len(), |at| at + 1), end.is_some() || buffer.is_empty());
        input.consume(length);
        if is_done {
            return Ok(());
        }
    }
}

fn open(
    args: &SessionArgs,
    learner: Option<&UsageLearner>,
    embeddings: Option<&EmbeddingsClient>,
) -> Result<Session, CliError> {
    let asked_for = Selection::everything()
        .allow_servers(&args.shown.servers)
        .allow_tools(&args.shown.tools)
        .deny(&args.shown.deny);
    let (catalog, selection) = match args.catalog.as_slice() {
        [] => {
            let (catalog, most) =
                configured_tools::catalog_or_demo(&args.config.source(), args.embeddings.state.as_deref())?;
            (catalog, most.narrowed_to(asked_for))
        }
        files => (catalogs::read(files, args.max_catalog_bytes)?, asked_for),
    };
    let mut settings = Settings::default();
    options::set_all(&mut settings, &args.set)?;
    let catalog = if settings.output_offloading { with_readers(&catalog) } else { catalog };
    let name = args.ranker.unwrap_or_else(|| RankerName::of(args.dialect.0));
    let model = models::read(args.model.model.as_deref())?;
    let ranker: Arc<dyn Ranker> = Arc::from(name.build(model.as_ref(), settings.token_bonus));
    let ranker = match embeddings {
        Some(embeddings) => embeddings.wrap_ranker(ranker, &catalog),
        None => ranker,
    };
    let ranker = match learner {
        Some(learner) => learner.ranker(Holder::Local, ranker),
        None => ranker,
    };
    let session = Session::new(args.dialect.0, settings, catalog, selection, ranker);
    let session = session.map_err(|error| CliError::new(error.to_string()))?;
    let session = session
        .with_pre_discovered(args.shown.pre_discovered.iter().cloned())
        .with_categories(args.prompt_categories.iter().cloned());
    session.unmatched_names().iter().for_each(|problem| warn(problem));
    Ok(session)
}

/// Returns the catalog with the tools that read offloaded outputs.
fn with_readers(catalog: &Catalog) -> Catalog {
    let host = Server { name: "pegboard".to_owned(), origin: Origin::Host, ..Server::default() };
    catalog.with_server(host, HostTool::OUTPUTS.map(HostTool::to_raw)).0
}

/// Answers one request.
fn serve(runner: &mut SessionRunner, request: &Value) -> Result<Value, String> {
    let session = &mut runner.session;
    match request.get("op").and_then(Value::as_str) {
        Some("list") => {
            let tools = session.visible();
            let names: Vec<&String> = tools.iter().map(|tool| &tool.name).collect();
            Ok(json!({"tools": tools.iter().map(|tool| tool.to_json()).collect::<Vec<_>>(), "visible": names}))
        }
        Some("call") => {
            let name = request.get("name").and_then(Value::as_str).ok_or("`name` is required")?;
            let empty = json!({});
            let reply = call(runner, name, request.get("arguments").unwrap_or(&empty));
            runner.learn();
            Ok(reply)
        }
        Some("prompt") => Ok(json!({"text": session.prompt()})),
        Some("messages") => {
            let messages = request.get("messages").and_then(Value::as_array).ok_or("`messages` must be a list")?;
            let mut chat = OpenAiChat { messages: messages.clone() };
            let loaded = session.follow(&mut chat);
            Ok(json!({"messages": chat.messages, "loaded": loaded, "visible": session.visible_names()}))
        }
        Some("pin") => {
            let name = request.get("name").and_then(Value::as_str).ok_or("`name` is required")?;
            Ok(json!({"pinned": session.pin(name)}))
        }
        Some(_) => Err("unknown `op`: expected list, call, prompt, messages or pin".to_owned()),
        None => Err("`op` is required: list, call, prompt, messages or pin".to_owned()),
    }
}

impl SessionRunner {
    /// Answers a call, with the vectors of its queries if they are available.
    fn call(&mut self, name: &str, arguments: &Value) -> CallAnswer {
        let vectors = self.embeddings.as_ref().zip(self.session.vectors_for(name, arguments));
        let queries = |session: &Session| session.ranked_texts(name, arguments);
        let vectors = vectors
            .map(|(embeddings, soon)| embeddings.wait_for_vectors(&queries(&self.session), soon))
            .unwrap_or_default();
        self.session.call_with(name, arguments, &vectors)
    }

    /// Learns from the last call. Its result is not known, so it counts as successful.
    fn learn(&mut self) {
        let (Some(learner), Some(lead)) = (&self.learner, self.session.lead().cloned()) else { return };
        if let Some(step) = self.session.confirm_lead(&lead) {
            learner.learn(Holder::Local, &step);
        }
    }
}

fn call(runner: &mut SessionRunner, name: &str, arguments: &Value) -> Value {
    let answer = runner.call(name, arguments);
    let mut reply = Map::new();
    match answer.target {
        Some(target) => {
            let target = json!({"server": target.server, "name": target.name, "arguments": target.arguments});
            reply.insert("would_call".into(), target);
        }
        None => {
            reply.insert("result".into(), answer.reply.to_json());
        }
    }
    if let Some(metadata) = answer.metadata {
        reply.insert("metadata".into(), metadata);
    }
    reply.insert("is_error".into(), answer.is_error.into());
    reply.insert("visible".into(), runner.session.visible_names().into());
    reply.insert("list_changed".into(), answer.list_changed.into());
    if !answer.evicted.is_empty() {
        reply.insert("evicted".into(), answer.evicted.into());
    }
    Value::Object(reply)
}
