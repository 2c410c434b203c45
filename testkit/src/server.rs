//! The process: its state, and the loop that reads its input.

use std::{
    collections::BTreeSet,
    io::{BufRead, stdin},
    process::ExitCode,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::{
    args::{Args, Fault},
    call::Level,
    calls::Calls,
    changes::Changes,
    dispatch,
    questions::Questions,
    subscriptions::Subscriptions,
    tools::hostile_text,
    wire::{Output, log},
};

/// How long requests in progress may still take once the input has ended. Scripts that
/// pipe a few lines in get their answers; a gateway that closes the pipe is not kept
/// waiting.
const GRACE: Duration = Duration::from_millis(500);

/// How long `--fault linger` outstays its welcome; not for ever, so that a failed test
/// leaves no process behind.
const LINGER: Duration = Duration::from_secs(60);

/// The code of an exit that a test asked for.
pub(crate) const DELIBERATE_EXIT: u8 = 3;

/// Everything that requests share.
pub(crate) struct Server {
    pub(crate) args: Args,
    pub(crate) output: Output,
    pub(crate) session: Mutex<Option<Session>>,
    pub(crate) calls: Calls,
    pub(crate) questions: Questions,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) changes: Changes,
}

/// What `initialize` established; the modern era has nothing of the kind.
pub(crate) struct Session {
    pub(crate) capabilities: Value,
    pub(crate) level: Level,
    /// Whether the client has said so; until then it gets no notifications.
    pub(crate) initialized: bool,
    /// Resources whose updates the client wants.
    pub(crate) subscribed: BTreeSet<String>,
}

/// Serves until the input ends.
pub(crate) fn run(args: Args) -> ExitCode {
    log("ready");
    if args.has(Fault::Hostile) {
        log(&hostile_text("hostile words"));
    }
    let server = Arc::new(Server {
        output: Output::new(args.has(Fault::Garbage)),
        args,
        session: Mutex::default(),
        calls: Calls::default(),
        questions: Questions::default(),
        subscriptions: Subscriptions::default(),
        changes: Changes::default(),
    });
    for line in stdin().lock().split(b'\n') {
        let Ok(line) = line else { break };
        if server.args.has(Fault::Exit) {
            return ExitCode::from(DELIBERATE_EXIT);
        }
        if !server.args.has(Fault::Hang) && !line.trim_ascii().is_empty() {
            dispatch::take(&server, &String::from_utf8_lossy(&line));
        }
    }
    if server.args.has(Fault::Linger) {
        thread::sleep(LINGER);
    }
    server.calls.drain(GRACE);
    server.subscriptions.close_all(&server.output);
    ExitCode::SUCCESS
}
