//! The system call filter: calls that a command does not need are rejected by the kernel.
//!
//! Landlock restricts files, ports and signals. This filter rejects what Landlock does not cover:
//! other kinds of sockets, limits and priorities of other processes, keys, memory that outlives its
//! process, and system administration. In bubblewrap most of that is out of reach already; the
//! filter is a second line of defence.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

/// The sandbox that the filter complements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterTarget {
    /// Only Landlock of this version: sockets must not connect except by TCP, and modes, owners,
    /// times and attributes of files must not change. A filter does not see paths, so this includes
    /// the working folder.
    Landlock { abi: u32 },
    /// Namespaces with their own network and file system.
    Namespaces,
}

/// The rules by system call: it is rejected if one of them matches, or always if there are none.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// The first system call number that is unknown to this program. Numbers of the other calling
/// convention of `x86_64` are much larger.
const FIRST_UNKNOWN: u32 = 463;

/// The first version of Landlock that restricts truncating files by path.
const TRUNCATION: u32 = 3;

/// `SOCK_STREAM` and so on are in the lower bits, and flags in the others.
const KINDS: [u64; 4] = [1, 2, 4, 8];

/// `MSG_FASTOPEN` connects without a call of `connect`.
const FAST_OPEN: u64 = libc::MSG_FASTOPEN as u64;

/// Calls that are always rejected.
const NEVER: [c_long; 51] = [
    // Keys of the parent process.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // Memory without an owner.
    libc::SYS_mq_open,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_shmat,
    libc::SYS_shmget,
    // Other processes.
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    // Mounts and other namespaces.
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
    // The machine.
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_perf_event_open,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_userfaultfd,
];

/// Calls that exist only on this architecture.
#[cfg(target_arch = "x86_64")]
const HERE: [c_long; 5] =
    [libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_kexec_file_load, libc::SYS_modify_ldt, libc::SYS_vhangup];
#[cfg(not(target_arch = "x86_64"))]
const HERE: [c_long; 2] = [libc::SYS_kexec_file_load, libc::SYS_vhangup];

/// Calls that are reported as missing, so that programs use others: rings of requests and calls
/// whose arguments no filter sees, and memory without a name.
const UNKNOWN: [c_long; 6] = [
    libc::SYS_clone3,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
];

/// Calls that change modes and owners of files, which Landlock does not restrict.
const MODES: [c_long; 5] =
    [libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchmodat2, libc::SYS_fchown, libc::SYS_fchownat];

/// The same, and times, in older calls that exist only on this architecture.
#[cfg(target_arch = "x86_64")]
const OLD_MODES: [c_long; 6] =
    [libc::SYS_chmod, libc::SYS_chown, libc::SYS_futimesat, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes];
#[cfg(not(target_arch = "x86_64"))]
const OLD_MODES: [c_long; 0] = [];

/// `ioctl` requests that change attributes of an open file: flags, the version, extended flags, the
/// label, encryption and verity.
const FILE_COMMANDS: [u64; 8] = [
    0x4008_6602, // FS_IOC_SETFLAGS
    0x4004_6602, // FS_IOC32_SETFLAGS
    0x4008_7602, // FS_IOC_SETVERSION
    0x4004_7602, // FS_IOC32_SETVERSION
    0x401c_5820, // FS_IOC_FSSETXATTR
    0x4100_9432, // FS_IOC_SETFSLABEL
    0x800c_6613, // FS_IOC_SET_ENCRYPTION_POLICY
    0x4080_6685, // FS_IOC_ENABLE_VERITY
];

/// Calls on files that Landlock does not restrict: extended attributes, and watching for changes.
/// They are reported as not supported, which programs handle. Newer calls for them have unknown
/// numbers.
const FILES: [c_long; 7] = [
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_inotify_init1,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_setxattr,
];

/// Flags of new namespaces.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Applies the filter to this thread and its children, permanently.
pub(super) fn apply(around: FilterTarget) -> Result<(), String> {
    let programs = programs(around).map_err(|error| error.to_string())?;
    programs.iter().try_for_each(|program| seccompiler::apply_filter(program)).map_err(|error| error.to_string())
}

fn programs(around: FilterTarget) -> Result<Vec<BpfProgram>, Error> {
    let mut refused = always(NEVER.into_iter().chain(HERE));
    refused.extend(rules_on_other_processes()?);
    refused.extend(sockets(around)?);
    let (mut unsupported, mut ignored) = (Rules::new(), Rules::new());
    if let FilterTarget::Landlock { abi } = around {
        refused.extend(attributes()?);
        if abi < TRUNCATION {
            refused.extend(always([libc::SYS_truncate]));
        }
        // Setting the current time on an open file, as `touch` does with a file that it has just
        // created: the file has that time already, and `touch` must not fail, so it succeeds
        // without effect.
        ignored.insert(libc::SYS_utimensat, vec![wide_rule(&[(1, SeccompCmpOp::Eq, 0), (2, SeccompCmpOp::Eq, 0)])?]);
        unsupported.extend(always(FILES));
        #[cfg(target_arch = "x86_64")]
        unsupported.extend(always([libc::SYS_inotify_init]));
        // Binding is not possible, but listening on a port that the kernel chooses would be.
        refused.extend(always([libc::SYS_listen]));
    }
    let mut programs = vec![unknown(), compile(refused, libc::EPERM)?, compile(always(UNKNOWN), libc::ENOSYS)?];
    for (rules, error) in [(unsupported, libc::ENOTSUP), (ignored, 0)] {
        if !rules.is_empty() {
            programs.push(compile(rules, error)?);
        }
    }
    Ok(programs)
}

fn compile(rules: Rules, error: i32) -> Result<BpfProgram, Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    // Programs of another architecture have other numbers, and are killed.
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()?)
}

/// Reports all calls from the first unknown number on as missing.
fn unknown() -> BpfProgram {
    let load = sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: 0 };
    let compare = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    let answer = |k| sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k };
    vec![
        load,
        sock_filter { code: compare, jt: 0, jf: 1, k: FIRST_UNKNOWN },
        answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        answer(libc::SECCOMP_RET_ALLOW),
    ]
}

fn always(calls: impl IntoIterator<Item = c_long>) -> Rules {
    calls.into_iter().map(|call| (call, Vec::new())).collect()
}

/// Rules on changing modes, owners, times and flags of files.
fn attributes() -> Result<Rules, Error> {
    let mut rules = always(MODES.into_iter().chain(OLD_MODES));
    // With a path or with a time; without either the call has no effect.
    let given = |at| wide_rule(&[(at, SeccompCmpOp::Ne, 0)]);
    rules.insert(libc::SYS_utimensat, vec![given(1)?, given(2)?]);
    let commands = FILE_COMMANDS.map(|command| rule(&[(1, SeccompCmpOp::Eq, command)]));
    rules.insert(libc::SYS_ioctl, commands.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}

/// Rules on limits and priorities: only the process's own, which has the number zero.
fn rules_on_other_processes() -> Result<Rules, Error> {
    let is_other = |at| rule(&[(at, SeccompCmpOp::Ne, 0)]);
    let mut rules = Rules::new();
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ] {
        rules.insert(call, vec![is_other(0)?]);
    }
    rules.insert(libc::SYS_setpriority, vec![is_other(0)?, is_other(1)?]);
    rules.insert(libc::SYS_ioprio_set, vec![rule(&[(0, SeccompCmpOp::Ne, 1)])?, is_other(1)?]);
    let namespaces = NAMESPACES.map(|flag| rule(&[has(0, u64::from(flag.unsigned_abs()))]));
    rules.insert(libc::SYS_clone, namespaces.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}

/// Rules on sockets that nothing else restricts.
fn sockets(around: FilterTarget) -> Result<Rules, Error> {
    let other_than = |at, allowed: &[i32]| {
        let all = allowed.iter().map(|value| (at, SeccompCmpOp::Ne, u64::from(value.unsigned_abs())));
        rule(&all.collect::<Vec<_>>())
    };
    let [stream, datagram, _, high] = KINDS;
    let lacks = |at, bit| rule(&[(at, SeccompCmpOp::MaskedEq(bit), 0)]);
    let mut rules = Rules::new();
    // These connect without Landlock noticing.
    rules.insert(libc::SYS_sendto, vec![rule(&[has(3, FAST_OPEN)])?]);
    rules.insert(libc::SYS_sendmsg, vec![rule(&[has(2, FAST_OPEN)])?]);
    rules.insert(libc::SYS_sendmmsg, vec![rule(&[has(3, FAST_OPEN)])?]);
    let tcp = u64::from(libc::IPPROTO_TCP.unsigned_abs());
    let connects = u64::from(libc::TCP_FASTOPEN_CONNECT.unsigned_abs());
    let connects = rule(&[(1, SeccompCmpOp::Eq, tcp), (2, SeccompCmpOp::Eq, connects)])?;
    rules.insert(libc::SYS_setsockopt, vec![connects]);
    let mut socket = vec![rule(&[(2, SeccompCmpOp::Eq, u64::from(libc::IPPROTO_MPTCP.unsigned_abs()))])?];
    match around {
        FilterTarget::Namespaces => {
            socket.push(other_than(0, &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_UNIX])?);
        }
        FilterTarget::Landlock { .. } => {
            socket.push(other_than(0, &[libc::AF_INET, libc::AF_INET6])?);
            socket.push(lacks(1, stream)?);
            for bit in &KINDS[1..] {
                socket.push(rule(&[has(1, *bit)])?);
            }
            socket.push(other_than(2, &[0, libc::IPPROTO_TCP])?);
            // Only stream pairs: a datagram socket could still send elsewhere.
            let pair =
                [other_than(0, &[libc::AF_UNIX]), lacks(1, stream), rule(&[has(1, datagram)]), rule(&[has(1, high)])];
            rules.insert(libc::SYS_socketpair, pair.into_iter().collect::<Result<_, _>>()?);
        }
    }
    rules.insert(libc::SYS_socket, socket);
    Ok(rules)
}

type Condition = (u8, SeccompCmpOp, u64);

/// Matches if the argument has this bit.
fn has(at: u8, bit: u64) -> Condition {
    (at, SeccompCmpOp::MaskedEq(bit), bit)
}

/// Matches if all conditions do. The kernel reads the lower half of these arguments, and so does
/// the rule.
fn rule(conditions: &[Condition]) -> Result<SeccompRule, Error> {
    rule_of(conditions, &SeccompCmpArgLen::Dword)
}

/// Matches if all conditions do, on arguments that are addresses.
fn wide_rule(conditions: &[Condition]) -> Result<SeccompRule, Error> {
    rule_of(conditions, &SeccompCmpArgLen::Qword)
}

fn rule_of(conditions: &[Condition], length: &SeccompCmpArgLen) -> Result<SeccompRule, Error> {
    let conditions = conditions
        .iter()
        .map(|(at, operator, value)| SeccompCondition::new(*at, length.clone(), operator.clone(), *value));
    Ok(SeccompRule::new(conditions.collect::<Result<_, _>>()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_are_small_and_compile() {
        let landlock = |abi| FilterTarget::Landlock { abi };
        for (around, count) in [(landlock(2), 5), (landlock(7), 5), (FilterTarget::Namespaces, 3)] {
            let programs = programs(around).expect("they compile");
            assert_eq!(programs.len(), count);
            // All of them are run at every system call that is not known to be allowed always.
            let steps: usize = programs.iter().map(Vec::len).sum();
            assert!(steps < 1000, "{around:?}: {steps} steps");
        }
    }
}
