//! Escapes without files: sockets of other kinds, other processes' limits, keys, anonymous memory.

use std::net::TcpListener;

use super::{Place, in_each_sandbox};

/// The prelude of every attempt below. It prints failures, and nothing else does.
const BEGIN: &str = "import ctypes, os, platform, resource, socket
libc = ctypes.CDLL(None, use_errno=True)
here = 0 if platform.machine() == 'x86_64' else 1
def call(*numbers):
    ctypes.set_errno(0)
    return libc.syscall(*[ctypes.c_long(n[here] if type(n) is tuple else n) for n in numbers])
def attempt(name, do):
    ctypes.set_errno(0)
    try:
        answer = do()
        print(name, ctypes.get_errno() if type(answer) is int and answer < 0 else 'DONE')
    except OSError as error:
        print(name, error.errno)
TCP = ('127.0.0.1', PORT)
";

/// Runs these attempts, each of which must fail with its error.
async fn check(place: &Place, port: u16, attempts: &[(&str, i32)]) {
    let lines = attempts.iter().enumerate().map(|(at, (attempt, _))| format!("attempt({at}, lambda: {attempt})\n"));
    let program = format!("{}{}", BEGIN.replace("PORT", &port.to_string()), lines.collect::<String>());
    let ran = place.run(&format!("python3 - <<'END'\n{program}\nEND")).await;
    assert_eq!((ran.exit_code, ran.ended_by), (0, None), "{}: {ran:?}", place.kind);
    let said: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(said.len(), attempts.len(), "{}: {ran:?}", place.kind);
    for (at, ((attempt, error), said)) in attempts.iter().zip(said).enumerate() {
        assert_eq!(said, format!("{at} {error}"), "{}: `{attempt}`", place.kind);
    }
}

/// `EPERM`.
const REFUSED: i32 = 1;

/// `ENOSYS`.
const UNKNOWN: i32 = 38;

/// `EOPNOTSUPP`.
const UNSUPPORTED: i32 = 95;

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

#[tokio::test]
async fn no_socket_leads_out() {
    let everywhere = [
        ("socket.socket().sendto(b'x', 0x20000000, TCP)", REFUSED),
        ("socket.socket().sendmsg([b'x'], [], 0x20000000, TCP)", REFUSED),
        ("socket.socket().setsockopt(6, 30, 1)", REFUSED),
        ("socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)", REFUSED),
        ("socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 262)", REFUSED),
        ("socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)", REFUSED),
        ("socket.socket(40, socket.SOCK_STREAM)", REFUSED),
        ("call(425, 1, 0)", UNKNOWN),
        // The kernel ignores the upper half of an argument.
        ("call((41, 198), (7 << 32) + 2, 1, 262)", REFUSED),
    ];
    let landlock = [
        ("socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", REFUSED),
        ("socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)", REFUSED),
        ("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", REFUSED),
        ("socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)", REFUSED),
        ("socket.socket(socket.AF_UNIX)", REFUSED),
        ("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", REFUSED),
        ("socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)", REFUSED),
        ("socket.socket().listen()", REFUSED),
    ];
    in_each_sandbox(
        "sockets",
        |_| (),
        async |place| {
            let (listener, port) = listener();
            check(place, port, &everywhere).await;
            if place.landlock().is_some() {
                check(place, port, &landlock).await;
            }
            let accepted = listener.accept().map_err(|error| error.kind());
            assert_eq!(accepted.expect_err("nobody came"), std::io::ErrorKind::WouldBlock, "{}", place.kind);
        },
    )
    .await;
}

#[tokio::test]
async fn other_processes_keep_their_limits() {
    in_each_sandbox(
        "others",
        |_| (),
        async |place| {
            let us = format!("resource.prlimit({}, resource.RLIMIT_CPU)", std::process::id());
            let attempts = [
                (us.as_str(), REFUSED),
                ("resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)", REFUSED),
                ("os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)", REFUSED),
                ("os.setpriority(os.PRIO_USER, 0, 19)", REFUSED),
                ("os.sched_setaffinity(os.getppid(), [0])", REFUSED),
                ("os.sched_setscheduler(os.getppid(), os.SCHED_BATCH, os.sched_param(0))", REFUSED),
                ("call((251, 30), 1, os.getppid(), 0)", REFUSED),
                ("libc.ptrace(16, os.getppid(), 0, 0)", REFUSED),
                ("libc.process_vm_readv(os.getppid(), 0, 0, 0, 0, 0)", REFUSED),
            ];
            check(place, 1, &attempts).await;
        },
    )
    .await;
}

#[tokio::test]
async fn the_system_is_out_of_reach() {
    let everywhere = [
        // The keys of the parent process, read and added to.
        ("call((250, 219), 0, -3, 0)", REFUSED),
        ("call((248, 217), 0, 0, 0, 0, -3)", REFUSED),
        ("call((249, 218), 0, 0, 0, -3)", REFUSED),
        // Memory that outlives its process.
        ("libc.shmget(0, 4096, 0o1600)", REFUSED),
        ("libc.msgget(0, 0o1600)", REFUSED),
        ("libc.semget(0, 1, 0o1600)", REFUSED),
        ("call(447, 0)", UNKNOWN),
        // Powers.
        ("libc.unshare(0x10000000)", REFUSED),
        ("call((56, 220), 0x10000000 + 17, 0, 0, 0, 0)", REFUSED),
        ("call(435, 0, 0)", UNKNOWN),
        ("libc.mount(b'none', b'.', b'tmpfs', 0, 0)", REFUSED),
        ("call(430, 0, 0)", REFUSED),
        ("call((321, 280), 0, 0, 0)", REFUSED),
        ("call((298, 241), 0, 0, 0, 0, 0)", REFUSED),
        ("call((323, 282), 0)", REFUSED),
        ("call((246, 104), 0, 0, 0, 0)", REFUSED),
        // System calls of newer kernels, and the other numbers of `x86_64`.
        ("call(470, 0)", UNKNOWN),
        ("call(0x40000000 + 41, 2, 2, 0)", UNKNOWN),
    ];
    let landlock = [
        ("os.setxattr('.', 'user.x', b'1')", UNSUPPORTED),
        ("call((294, 26), 0)", UNSUPPORTED),
        // Modes, owners and times, by path and by descriptor, and by the newer calls.
        ("os.chmod('.', 0o700)", REFUSED),
        ("os.fchmod(os.open('.', os.O_RDONLY), 0o700)", REFUSED),
        ("call(452, -100, 0, 0o700, 0)", REFUSED),
        ("os.chown('.', -1, -1)", REFUSED),
        ("os.lchown('.', -1, -1)", REFUSED),
        ("os.fchown(os.open('.', os.O_RDONLY), -1, -1)", REFUSED),
        ("os.utime('.')", REFUSED),
        ("os.utime('.', (1, 1))", REFUSED),
        ("os.utime(os.open('.', os.O_RDONLY), (1, 1))", REFUSED),
        ("call(463, -100, 0, 0, 0, 0, 0)", UNKNOWN),
        ("call(466, -100, 0, 0, 0)", UNKNOWN),
        ("call(469, -100, 0, 0, 0, 0)", UNKNOWN),
        // Flags of files, as `chattr` sets them.
        ("call((16, 29), os.open('.', os.O_RDONLY), 0x40086602, 0)", REFUSED),
        ("call((16, 29), os.open('.', os.O_RDONLY), 0x401c5820, 0)", REFUSED),
    ];
    in_each_sandbox(
        "system",
        |_| (),
        async |place| {
            check(place, 1, &everywhere).await;
            if place.landlock().is_some() {
                check(place, 1, &landlock).await;
            }
        },
    )
    .await;
}
