//! Commands that exceed the limits.

use std::time::Duration;

use pegboard_agent::shell::{CommandOutput, ExceededLimit, ShellSettings};

use super::{Place, in_each_sandbox};

const MIB: u64 = 1 << 20;

fn small(settings: &mut ShellSettings) {
    settings.memory_bytes = 256 * MIB;
    settings.max_processes = 40;
    settings.disk_bytes = 24 * MIB;
    settings.max_file_bytes = 8 * MIB;
    settings.max_files = 500;
    settings.output_bytes = 10_000;
}

async fn check(place: &Place, command: &str, ended_by: Option<ExceededLimit>) -> CommandOutput {
    let ran = place.run(command).await;
    assert_eq!(ran.ended_by, ended_by, "{}: `{command}`: {ran:?}", place.kind);
    assert_ne!(ran.exit_code, 0, "{}: `{command}`: {ran:?}", place.kind);
    place.assert_clean().await;
    ran
}

#[tokio::test]
async fn a_fork_bomb_is_contained() {
    in_each_sandbox("forks", small, async |place| {
        for bomb in [
            "for i in $(seq 100); do sleep 1000 & done; wait",
            // The usual one; it would end by itself, should nothing else end it.
            ":(){ [ $SECONDS -lt 4 ] && :|:& }; :; sleep 1000",
            // Each in a session of its own, a thousand at most.
            "f='[ $0 -gt 9 ] || { setsid bash -c \"$f\" $(($0+1)) & setsid bash -c \"$f\" $(($0+1)) & }; sleep 9'; \
             export f; bash -c \"$f\" 0; sleep 1000",
        ] {
            check(place, bomb, Some(ExceededLimit::Processes)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn memory_is_limited_for_one_and_for_all() {
    in_each_sandbox("memory", small, async |place| {
        let ran = place.run("ulimit -d; ulimit -c; tail /dev/zero").await;
        assert_eq!(ran.stdout, format!("{}\n0\n", 256 * 1024), "{}", place.kind);
        // Whichever comes first.
        let is_refused = ran.stderr.contains("memory") && ran.ended_by.is_none();
        assert!(is_refused || ran.ended_by == Some(ExceededLimit::Memory), "{}: {ran:?}", place.kind);
        let hold = "hold() { (head -c 80M /dev/zero; sleep 1000) | tail > /dev/null; }";
        let many = format!("{hold}; for i in 1 2 3 4; do hold & done; wait");
        check(place, &many, Some(ExceededLimit::Memory)).await;
    })
    .await;
}

#[tokio::test]
async fn disk_is_limited_by_bytes_and_by_files() {
    in_each_sandbox("disk", small, async |place| {
        let one = check(place, "yes > file", None).await;
        // Ended by the signal for files that are too large.
        assert_eq!(one.exit_code, 128 + 25, "{one:?}");
        check(place, "for i in $(seq 9); do head -c 4M /dev/zero > f$i; done; sleep 1000", Some(ExceededLimit::Disk))
            .await;
        // Existing files may stay, and can be removed.
        let ran = place.run("ls f1 && rm -f f* && ls | wc -l").await;
        assert_eq!((ran.exit_code, ran.stdout.as_str()), (0, "f1\n0\n"), "{ran:?}");
        check(place, "for i in $(seq 600); do : > e$i; done; sleep 1000", Some(ExceededLimit::Disk)).await;
        assert_eq!(place.run("rm -f e*").await.exit_code, 0);
        let hidden = "for i in $(seq 9); do exec {fd}> f; rm f; head -c 4M /dev/zero >&$fd; done; sleep 1000";
        check(place, hidden, Some(ExceededLimit::Disk)).await;
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_measured_ends_the_command_and_can_be_removed() {
    in_each_sandbox("unmeasured", small, async |place| {
        // Too deep.
        check(place, "for i in $(seq 260); do mkdir d; cd d; done; sleep 1000", Some(ExceededLimit::Disk)).await;
        assert_eq!(place.run("rm -rf d; ls").await.stdout, "", "{}", place.kind);
        // Closed, where a command can do that.
        if place.landlock().is_none() {
            let ran = place.run("mkdir d; echo kept > d/f; chmod 0 d").await;
            assert_eq!((ran.exit_code, ran.ended_by), (0, None), "{}: {ran:?}", place.kind);
            assert_eq!(place.run("cat d/f; rm -r d; chmod 0 .").await.stdout, "kept\n", "{}", place.kind);
            assert_eq!(place.run("ls").await.stderr, "", "{}", place.kind);
        }
        // Far too many: they can be removed, and nothing else can grow.
        for number in 0..4 * 500 + 10 {
            std::fs::write(place.work().join(format!("e{number}")), "").expect("a file");
        }
        assert_eq!(place.run("ls | wc -l").await.stdout, "2010\n", "{}", place.kind);
        check(
            place,
            "python3 -c \"import os, time; [open(f'f{i}', 'w').close() for i in range(6000)]; time.sleep(99)\"",
            Some(ExceededLimit::Disk),
        )
        .await;
        assert_eq!(place.run("rm -f e* f*; ls").await.stdout, "", "{}", place.kind);
        check(place, "for i in $(seq 600); do : > e$i; done; sleep 1000", Some(ExceededLimit::Disk)).await;
    })
    .await;
}

/// Returns a Python program in an argument.
fn python(program: &str) -> String {
    format!("python3 -c \"{program}\"")
}

#[tokio::test]
async fn what_has_no_name_is_counted() {
    in_each_sandbox("nameless", small, async |place| {
        // Half of each file is still seen without a privilege.
        let mapped = "import ctypes, os, time
libc = ctypes.CDLL(None)
for i in range(9):
    with open('f', 'w+b') as f:
        f.write(bytes(8 << 20)); f.flush(); libc.mmap(None, 4 << 20, 1, 1, f.fileno(), 0)
    os.unlink('f')
time.sleep(99)";
        check(place, &python(mapped), Some(ExceededLimit::Disk)).await;
        let sockets = "import socket, time; held = [socket.socketpair() for i in range(330)]; time.sleep(99)";
        check(place, &python(sockets), Some(ExceededLimit::Memory)).await;
        let flood = "import os, time
held = [open('/dev/null') for i in range(1000)]
for i in range(22):
    if os.fork() == 0: break
time.sleep(99)";
        check(place, &python(flood), Some(ExceededLimit::Disk)).await;
        let wandering = "import os
os.makedirs('a/x'); os.mkdir('b')
for i in range(9): open(f'a/x/{i}', 'wb').write(bytes(4 << 20))
while True: os.rename('a/x', 'b/x'); os.rename('b/x', 'a/x')";
        check(place, &python(wandering), Some(ExceededLimit::Disk)).await;
        assert_eq!(place.run("rm -rf a b").await.exit_code, 0);
    })
    .await;
}

/// Shared memory that counts for no process, released by the process that filled it.
#[tokio::test]
async fn memory_that_no_process_has_is_noticed() {
    in_each_sandbox("unmapped", small, async |place| {
        let shared = "import mmap, time
held = []
for i in range(6):
    part = mmap.mmap(-1, 64 << 20); part.write(bytes(64 << 20)); part.madvise(mmap.MADV_DONTNEED); held.append(part)
    time.sleep(0.1)
time.sleep(99)";
        let ran = place.run(&python(shared)).await;
        assert_eq!(ran.ended_by, Some(ExceededLimit::Memory), "{}: {ran:?}", place.kind);
        // None of it uses file descriptors, which would show in `/proc`.
        let ran = place.run(&python("import os; os.memfd_create('x')")).await;
        assert!(ran.stderr.contains("Function not implemented"), "{}: {ran:?}", place.kind);
    })
    .await;
}

#[tokio::test]
async fn temporary_files_are_limited() {
    in_each_sandbox(
        "temporary",
        |settings| (small(settings), settings.temporary_bytes = MIB).0,
        async |place| {
            let fill = "for i in $(seq 9); do head -c 4M /dev/zero > $TMPDIR/f$i || exit 9; done; sleep 1000";
            let ending = (place.kind == "landlock").then_some(ExceededLimit::Disk);
            check(place, fill, ending).await;
            if place.landlock().is_none() {
                check(place, &fill.replace("$TMPDIR", "/dev/shm"), None).await;
            }
            assert_eq!(place.run("ls $TMPDIR").await.stdout, "");
            // Empty files take room too.
            let many = "import os, time; [open(os.environ['TMPDIR'] + f'/{i}', 'w').close() for i in range(600)]; time.sleep(99)";
            check(place, &python(many), Some(ExceededLimit::Disk)).await;
            let closed = "mkdir $TMPDIR/a; (umask 277; mkdir $TMPDIR/a/b)";
            assert_eq!(place.run(closed).await.exit_code, 0);
            if place.landlock().is_none() {
                assert_eq!(place.run("mkdir $TMPDIR/a; chmod 500 $TMPDIR/a; chmod 0 $TMPDIR").await.exit_code, 0);
            }
        },
    )
    .await;
}

#[tokio::test]
async fn endless_output_is_cut() {
    in_each_sandbox("endless", small, async |place| {
        for command in ["yes", "yes >&2", "cat /dev/zero", "cat /dev/urandom"] {
            let ran = place.shell.run(command, Some(Duration::from_millis(500))).await.expect("it runs");
            assert_eq!(ran.ended_by, Some(ExceededLimit::Timeout), "{command}");
            assert!(ran.stdout.len() + ran.stderr.len() < 3 * 10_000 + 100, "{command}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_runs_for_ever_is_ended_with_all_it_started() {
    in_each_sandbox("forever", small, async |place| {
        let commands = [
            "sleep 1000",
            "while :; do :; done",
            "setsid sleep 1000 & sleep 1000",
            "nohup sleep 1000 & wait",
            "(setsid bash -c 'sleep 1000 & sleep 1000' &); sleep 1000",
            "trap '' TERM INT HUP; while :; do sleep 1000; done",
            "kill -STOP $$",
        ];
        // At once: a shell can run many.
        let running = commands.map(|command| {
            let shell = std::sync::Arc::clone(&place.shell);
            tokio::spawn(async move { shell.run(command, Some(Duration::from_secs(1))).await })
        });
        for (command, run) in commands.iter().zip(running) {
            let ran = run.await.expect("no panic").expect("it runs");
            assert_eq!(
                (ran.exit_code, ran.ended_by),
                (137, Some(ExceededLimit::Timeout)),
                "{}: `{command}`",
                place.kind
            );
        }
    })
    .await;
}
