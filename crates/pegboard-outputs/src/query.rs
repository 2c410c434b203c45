//! Runs jq filters over outputs in a separate process.

use std::{
    io,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use pegboard_process::processes::{self, ResourceLimit};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStdin, Command},
    time::timeout,
};

use crate::{
    Source,
    error::ReadError,
    exit::{Exit, STACK_BYTES},
    limits::QueryLimits,
    program::Program,
};

/// The hidden command that runs a filter.
const COMMAND: &str = "query-output";

/// Maximum size of the standard error of the process that is read.
const MAX_COMPLAINT_BYTES: u64 = 8 * 1024;

/// A filter and its options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a> {
    pub(crate) filter: &'a str,
    pub(crate) compact: bool,
    pub(crate) raw: bool,
}

/// The output of a query, and whether it is complete.
#[derive(Debug)]
pub(crate) struct QueryOutput {
    pub(crate) text: String,
    /// Whether it printed more than it may.
    pub(crate) is_cut: bool,
    /// Why it ended before its end.
    pub(crate) failure: Option<ReadError>,
}

/// Runs the filter over `source`, which is given to the process as its input.
pub(crate) async fn run(
    program: &Program,
    source: Source,
    query: Query<'_>,
    limits: &QueryLimits,
) -> Result<QueryOutput, ReadError> {
    if query.filter.len() > limits.filter_bytes {
        return Err(ReadError::TooLong { name: "query", limit: limits.filter_bytes });
    }
    if query.filter.contains('\0') {
        return Err(ReadError::Filter("it contains a NUL byte".to_owned()));
    }
    let (input, text) = match source {
        Source::File(file) => (Stdio::from(file), None),
        Source::Text(text) => (Stdio::piped(), Some(text)),
    };
    let mut child = command(program, input, query, limits).spawn().map_err(ReadError::Program)?;
    let feeding = feed(child.stdin.take(), text);
    let mut output = Vec::new();
    let following = follow(&mut child, &mut output, limits.output_bytes);
    let ended = timeout(limits.wall, async { tokio::join!(following, feeding).0 }).await;
    let is_cut = output.len() > limits.output_bytes;
    output.truncate(limits.output_bytes);
    let failure = match ended {
        Err(_) => {
            let _ = child.kill().await;
            Some(ReadError::Time(seconds(limits.wall)))
        }
        Ok(Err(error)) => Some(ReadError::Program(error)),
        // The process was killed on purpose, or because its output was not read any more.
        Ok(Ok(_)) if is_cut => None,
        Ok(Ok((status, complaint))) => failure(status, complaint, limits),
    };
    Ok(QueryOutput { text: as_text(output), is_cut, failure })
}

fn command(program: &Program, input: Stdio, query: Query<'_>, limits: &QueryLimits) -> Command {
    let mut line = program.command(COMMAND).into_iter();
    let mut command = Command::new(line.next().unwrap_or_default());
    command.args(line);
    if query.compact {
        command.arg("--compact");
    }
    if query.raw {
        command.arg("--raw");
    }
    command
        .arg(format!("--memory-bytes={}", limits.memory_bytes))
        .arg(format!("--cpu-seconds={}", seconds(limits.cpu)))
        .args(["--", query.filter])
        .env_clear()
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    // Keyboard signals of the terminal must not reach it.
    processes::start_in_group(command.as_std_mut());
    command
}

/// Writes the input of the process. A process that ends before it has read everything says why.
async fn feed(input: Option<ChildStdin>, text: Option<Arc<str>>) {
    if let (Some(mut input), Some(text)) = (input, text) {
        let _ = input.write_all(text.as_bytes()).await;
        let _ = input.shutdown().await;
    }
}

/// Reads what the process prints, one byte more than it may, and waits for its end.
async fn follow(child: &mut Child, output: &mut Vec<u8>, limit: usize) -> io::Result<(ExitStatus, String)> {
    let one_more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    read(child.stdout.take(), one_more, output).await?;
    if output.len() > limit {
        child.start_kill()?;
    }
    // Read afterwards: the process prints little to it, and only at its end.
    let mut complaint = Vec::new();
    read(child.stderr.take(), MAX_COMPLAINT_BYTES, &mut complaint).await?;
    Ok((child.wait().await?, String::from_utf8_lossy(&complaint).trim().to_owned()))
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, limit: u64, into: &mut Vec<u8>) -> io::Result<()> {
    if let Some(pipe) = pipe {
        pipe.take(limit).read_to_end(into).await?;
    }
    Ok(())
}

/// Returns why the process ended, unless it succeeded.
fn failure(status: ExitStatus, complaint: String, limits: &QueryLimits) -> Option<ReadError> {
    if status.success() {
        return None;
    }
    let too_much_memory = || ReadError::Memory(limits.memory_bytes >> 20);
    let too_deep = || ReadError::Depth(STACK_BYTES >> 20);
    Some(match (status.code().and_then(Exit::from_code), processes::ended_by(status)) {
        (Some(Exit::Filter), _) => ReadError::Filter(complaint),
        (Some(Exit::NotJson), _) => ReadError::NotJson(complaint),
        (Some(Exit::Failed), _) => ReadError::Failed(complaint),
        // Messages of Rust's runtime before an abort.
        _ if complaint.contains("memory allocation of") => too_much_memory(),
        _ if complaint.contains("has overflowed its stack") => too_deep(),
        (_, Some(ResourceLimit::CpuTime)) => ReadError::Time(seconds(limits.cpu)),
        // Our own kill signal is reported as a timeout.
        (_, Some(ResourceLimit::Memory)) => too_much_memory(),
        _ if complaint.is_empty() => ReadError::OtherProgram(status.to_string()),
        _ => ReadError::OtherProgram(complaint),
    })
}

/// Rounds up to whole seconds, at least one.
fn seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}

/// Converts the output to text; it may have been cut within a character.
fn as_text(output: Vec<u8>) -> String {
    let text = match String::from_utf8(output) {
        Ok(text) => text,
        Err(error) if error.utf8_error().error_len().is_none() => {
            let end = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..end]).into_owned()
        }
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    text.trim_end_matches('\n').to_owned()
}
