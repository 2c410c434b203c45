//! Runs jq filters over outputs in a separate process.

use std::{
    fs::File,
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use pegboard_process::processes::{self, ResourceLimit};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    time::timeout,
};

use super::{
    error::ReadError,
    settings::QueryLimits,
    worker::{Exit, STACK_BYTES},
};
use crate::program::Program;

/// The hidden command that runs a filter.
const COMMAND: &str = "query-output";

/// Maximum size of the standard error of the process that is read.
const MAX_COMPLAINT_BYTES: u64 = 8 * 1024;

/// A filter and its options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'a> {
    pub(super) filter: &'a str,
    pub(super) compact: bool,
    pub(super) raw: bool,
}

/// The output of a query, and whether it is complete.
#[derive(Debug)]
pub(super) struct QueryOutput {
    pub(super) text: String,
    /// Whether the query printed more than allowed.
    pub(super) is_cut: bool,
    /// Why the query ended early.
    pub(super) failure: Option<ReadError>,
}

/// Runs the filter over `file`, which is the standard input of the process.
pub(super) async fn run(
    program: &Program,
    file: File,
    query: Query<'_>,
    limits: &QueryLimits,
) -> Result<QueryOutput, ReadError> {
    if query.filter.len() > limits.filter_bytes {
        return Err(ReadError::TooLong { name: "query", limit: limits.filter_bytes });
    }
    if query.filter.contains('\0') {
        return Err(ReadError::Filter("it contains a NUL byte".to_owned()));
    }
    let mut child = command(program, file, query, limits).spawn().map_err(ReadError::Program)?;
    let mut output = Vec::new();
    let ended = timeout(limits.wall, follow(&mut child, &mut output, limits.output_bytes)).await;
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

fn command(program: &Program, file: File, query: Query<'_>, limits: &QueryLimits) -> Command {
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
        .stdin(Stdio::from(file))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    // Keyboard signals of the terminal must not reach it.
    processes::start_in_group(command.as_std_mut());
    command
}

/// Reads the output of the process, up to one byte more than allowed, and waits for its end.
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
