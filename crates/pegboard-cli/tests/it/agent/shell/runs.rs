//! Harmless commands.

use std::time::Duration;

use pegboard_agent::shell::{ExceededLimit, ShellError};

use super::{Place, in_each_sandbox};

/// Checks the standard output of a command, and how it ends.
async fn check(place: &Place, command: &str, code: i32, stdout: &str) {
    let ran = place.run(command).await;
    assert_eq!((ran.exit_code, ran.stdout.as_str()), (code, stdout), "{}: `{command}`: {ran:?}", place.kind);
    assert_eq!(ran.ended_by, None, "{}: `{command}`", place.kind);
}

#[tokio::test]
async fn exit_codes_and_signals() {
    in_each_sandbox(
        "codes",
        |_| (),
        async |place| {
            check(place, "echo fine", 0, "fine\n").await;
            check(place, "exit 7", 7, "").await;
            check(place, "echo begun; kill -KILL $$", 137, "begun\n").await;
            check(place, "kill -TERM $$", 143, "").await;
            check(place, "no-such-program", 127, "").await;
            check(place, "", 0, "").await;
            check(place, "cat", 0, "").await;
            let ran = place.run("echo out; echo err >&2; exit 3").await;
            assert_eq!(ran.to_string(), "exit_code: 3\nstdout:\nout\n\nstderr:\nerr\n");
        },
    )
    .await;
}

#[tokio::test]
async fn the_working_folder_persists() {
    in_each_sandbox(
        "persists",
        |_| (),
        async |place| {
            let folder = place.shell.folder().display();
            check(place, "pwd; echo $HOME", 0, &format!("{folder}\n{folder}\n")).await;
            check(place, "mkdir -p a/b; echo kept > a/b/file", 0, "").await;
            check(place, "cat a/b/file; diff <(echo x) <(echo x) && mktemp > made; test -s made", 0, "kept\n").await;
            let seen = std::fs::read_to_string(place.work().join("a/b/file")).expect("the same folder");
            assert_eq!(seen, "kept\n");
            std::fs::remove_dir_all(place.work()).expect("it is ours");
            check(place, "ls", 0, "").await;
        },
    )
    .await;
}

#[tokio::test]
async fn output_is_text_without_control_characters() {
    in_each_sandbox(
        "text",
        |settings| settings.output_bytes = 1000,
        async |place| {
            check(place, r"printf 'a\033[31mred\033]0;t\007\r\n\tb\000c'", 0, "a[31mred]0;t\n\tbc").await;
            check(place, r"printf '\377ok\342\202'", 0, "\u{fffd}ok\u{fffd}").await;
            let ran = place.run("head -c 100000 /dev/zero | tr '\\0' x; printf end; printf '\\033[0m' >&2").await;
            assert!(ran.stdout.len() < 1100 && ran.stdout.ends_with("xend"), "{ran:?}");
            assert!(ran.stdout.contains("x\n[… 99003 bytes omitted …]\nx"), "{ran:?}");
            assert_eq!(ran.stderr, "[0m");
        },
    )
    .await;
}

#[tokio::test]
async fn what_no_command_can_be_is_refused() {
    in_each_sandbox(
        "refused",
        |settings| settings.max_timeout = Duration::from_secs(5),
        async |place| {
            let refused = |command: String| async move { place.shell.run(&command, None).await };
            assert!(matches!(refused("echo a\0b".to_owned()).await, Err(ShellError::Nul)));
            let long = refused(format!("#{}", "x".repeat(64 * 1024))).await;
            assert!(matches!(long, Err(ShellError::TooLong { bytes: 65_537, limit: 65_536 })), "{long:?}");
            check(place, &format!("#{}", "x".repeat(64 * 1024 - 1)), 0, "").await;
            // No command gets more time than the limit.
            let ran = place.shell.run("sleep 1000", Some(Duration::from_secs(1000))).await.expect("it runs");
            assert_eq!((ran.exit_code, ran.ended_by), (137, Some(ExceededLimit::Timeout)));
        },
    )
    .await;
}

#[tokio::test]
async fn a_clean_environment() {
    in_each_sandbox(
        "environment",
        |settings| settings.environment.push(("EXTRA".into(), "a b".into())),
        async |place| {
            let ran = place.run("env | cut -d= -f1 | sort | tr '\\n' ' '; echo $EXTRA").await;
            let expected = "EXTRA HOME LANG PATH PEGBOARD_TEST_MARK PWD PYTHONNOUSERSITE SHLVL TERM TMPDIR _ a b\n";
            assert_eq!(ran.stdout, expected, "{}", place.kind);
            // The mark by which other tests find what is left.
            tokio::select! {
                ran = place.run("touch there; sleep 1000") => panic!("{ran:?}"),
                () = place.wait_until_running() => {}
            }
            place.wait_until_empty().await;
        },
    )
    .await;
}

/// Programs that the system call filter must not break.
#[tokio::test]
async fn ordinary_programs_work() {
    let python = "import asyncio, os, resource, socket, subprocess, sys, threading
thread = threading.Thread(target=lambda: print(subprocess.check_output(['echo', 'thread']).decode(), end='', flush=True))
thread.start(); thread.join()
asyncio.run(asyncio.sleep(0))
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
os.setpriority(os.PRIO_PROCESS, 0, 15)
one, other = socket.socketpair()
one.sendmsg([b'pair\\n']); print(other.recv(9).decode(), end='')
try: socket.getaddrinfo('localhost', 80)
except OSError: pass
read, write = os.pipe()
if os.fork() == 0: os.write(write, b'child\\n'); os._exit(0)
os.wait(); print(os.read(read, 9).decode(), end='')";
    in_each_sandbox(
        "ordinary",
        |_| (),
        async |place| {
            check(place, &format!("python3 -c \"{python}\""), 0, "thread\npair\nchild\n").await;
            check(
                place,
                "ulimit -n 99; nice -n 2 bash -c 'ulimit -n; nice'; (echo sub) | cat; : & wait",
                0,
                "99\n12\nsub\n",
            )
            .await;
        },
    )
    .await;
}

#[tokio::test]
async fn without_a_sandbox_there_are_limits_and_a_warning() {
    let place = Place::new("bare", "none", &|_| (), None).expect("it needs nothing");
    assert!(place.shell.sandbox().to_string().contains("WITHOUT A SANDBOX"));
    check(&place, "echo bare", 0, "bare\n").await;
    let ran = place.shell.run("setsid sleep 1000 & sleep 1000", Some(Duration::from_secs(1))).await.expect("it runs");
    assert_eq!(ran.ended_by, Some(ExceededLimit::Timeout));
    place.assert_clean().await;
}
