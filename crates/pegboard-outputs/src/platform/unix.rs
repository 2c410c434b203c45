//! Unix resource limits.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The size of standard input, if that is a file.
pub(crate) fn input_size() -> Option<usize> {
    let size = rustix::fs::fstat(io::stdin()).ok()?.st_size;
    usize::try_from(size).ok().filter(|size| *size > 0)
}

/// Takes away files, sockets, memory and time beyond what the process may use from now on.
pub(crate) fn give_up_rights(memory_bytes: u64, cpu_seconds: u64) -> io::Result<()> {
    // Before the limit on files: it needs one for a moment.
    #[cfg(target_os = "linux")]
    forget_files();
    limit(Resource::As, memory_bytes, memory_bytes)?;
    // The first limit ends the process with a signal that says why, the second without.
    limit(Resource::Cpu, cpu_seconds, cpu_seconds.saturating_add(1))?;
    limit(Resource::Fsize, 0, 0)?;
    limit(Resource::Core, 0, 0)?;
    // The three that are open stay open.
    limit(Resource::Nofile, 3, 3)
}

/// Lowers a limit; one that is lower already stays.
fn limit(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
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
