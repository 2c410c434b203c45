//! jq over outputs, in a process of its own.

use std::{
    fs::File,
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use pegboard_process::processes::{self, EndedBy};
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

/// How much of what the process says about a failure is read.
const MAX_COMPLAINT_BYTES: u64 = 8 * 1024;

/// What to ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'a> {
    pub(super) filter: &'a str,
    pub(super) compact: bool,
    pub(super) raw: bool,
}

/// What a query printed, and whether that was all.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) text: String,
    /// Whether it printed more than it may.
    pub(super) is_cut: bool,
    /// Why it ended before its end.
    pub(super) failure: Option<ReadError>,
}

/// Runs the filter over `file`, which is given to the process as its input.
pub(super) async fn run(
    program: &Program,
    file: File,
    query: Query<'_>,
    limits: &QueryLimits,
) -> Result<Answered, ReadError> {
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
        // It was ended by us, or for want of a reader.
        Ok(Ok(_)) if is_cut => None,
        Ok(Ok((status, complaint))) => failure(status, complaint, limits),
    };
    Ok(Answered { text: as_text(output), is_cut, failure })
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
    // What is typed at the terminal is not meant for it.
    processes::start_in_group(command.as_std_mut());
    command
}

/// Reads what the process prints, one byte more than it may, and waits for its end.
async fn follow(child: &mut Child, output: &mut Vec<u8>, limit: usize) -> io::Result<(ExitStatus, String)> {
    let one_more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    read(child.stdout.take(), one_more, output).await?;
    if output.len() > limit {
        child.start_kill()?;
    }
    // Afterwards: the process says little, and that at its end.
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

/// Why the process ended, unless all went well.
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
        // Rust's own last words. Both end in an abort.
        _ if complaint.contains("memory allocation of") => too_much_memory(),
        _ if complaint.contains("has overflowed its stack") => too_deep(),
        (_, Some(EndedBy::CpuTime)) => ReadError::Time(seconds(limits.cpu)),
        // Our own signal comes with a timeout.
        (_, Some(EndedBy::Memory)) => too_much_memory(),
        _ if complaint.is_empty() => ReadError::Foreign(status.to_string()),
        _ => ReadError::Foreign(complaint),
    })
}

/// Whole seconds, at least one.
fn seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}

/// What was printed, which may have been cut within a character.
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
