use std::process::{Child, Command, Stdio};

use super::*;

/// A program that runs until its standard input is closed.
fn waiting() -> Child {
    let mut command = Command::new("sort");
    start_in_group(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("there is one")
}

#[test]
fn systems_without_signals_wait_for_a_child_and_do_nothing_else() {
    let mut child = waiting();
    let pid = i32::try_from(child.id()).expect("a number");
    let ends: [fn(i32); 3] = [not_unix::terminate, not_unix::kill, not_unix::kill_group];
    ends.iter().for_each(|end| end(pid));
    not_unix::reap();
    not_unix::start_in_group(&mut Command::new("sort"));
    assert!(not_unix::is_running(child.id()));
    assert_eq!(not_unix::raise_open_files(1), u64::MAX);
    drop(child.stdin.take());
    assert_eq!(not_unix::wait_for(&mut child), 0);
    assert_eq!(not_unix::ended_by(child.wait().expect("it has ended")), None);
}

#[cfg(unix)]
#[test]
fn signals_end_processes() {
    let check = |end: fn(i32), expected: Option<ResourceLimit>| {
        let mut child = waiting();
        assert!(is_running(child.id()));
        end(i32::try_from(child.id()).expect("a number"));
        let status = child.wait().expect("it ends");
        assert!(!status.success());
        assert_eq!(ended_by(status), expected, "{status}");
    };
    check(terminate, None);
    check(kill, Some(ResourceLimit::Memory));
    check(kill_group, Some(ResourceLimit::Memory));
    // No system gives out such a number.
    assert!(!is_running(2_147_483_646) && !is_running(0) && !is_running(u32::MAX));
    let limit = raise_open_files(1);
    assert!(limit > 1, "it is not lowered");
}
