//! What the process gives up before it reads anything.

use std::io;

use super::Job;

/// Takes away files, sockets, memory and time beyond what the job may use.
#[cfg(unix)]
pub(super) fn confine(job: &Job) -> io::Result<()> {
    use rustix::process::Resource;

    // Before the limit on files: it needs one for a moment.
    #[cfg(target_os = "linux")]
    forget_files();
    limit(Resource::As, job.memory_bytes, job.memory_bytes)?;
    // The first limit ends the process with a signal that says why, the second without.
    limit(Resource::Cpu, job.cpu_seconds, job.cpu_seconds.saturating_add(1))?;
    limit(Resource::Fsize, 0, 0)?;
    limit(Resource::Core, 0, 0)?;
    // The three that are open stay open.
    limit(Resource::Nofile, 3, 3)
}

/// There are no such limits here; whoever started the process watches the clock.
#[cfg(not(unix))]
pub(super) fn confine(_job: &Job) -> io::Result<()> {
    Ok(())
}

/// Lowers a limit; one that is lower already stays.
#[cfg(unix)]
fn limit(resource: rustix::process::Resource, current: u64, maximum: u64) -> io::Result<()> {
    use rustix::process::{Rlimit, getrlimit, setrlimit};

    let maximum = getrlimit(resource).maximum.map_or(maximum, |already| already.min(maximum));
    let limit = Rlimit { current: Some(current.min(maximum)), maximum: Some(maximum) };
    Ok(setrlimit(resource, limit)?)
}

/// Where the kernel has Landlock, no path leads anywhere any more. Where it has not, the
/// limit on open files is what is left.
#[cfg(target_os = "linux")]
fn forget_files() {
    use landlock::{ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetError, Scope};

    fn restrict() -> Result<(), RulesetError> {
        Ruleset::default()
            .handle_access(AccessFs::from_all(ABI::V5))?
            .handle_access(AccessNet::from_all(ABI::V5))?
            .scope(Scope::from_all(ABI::V6))?
            .create()?
            .restrict_self()?;
        Ok(())
    }
    let _ = restrict();
}
