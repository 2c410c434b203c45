use std::{path::PathBuf, time::Duration};

use super::*;

#[test]
fn a_run_is_shown_as_the_interface_says() {
    let ran =
        |stderr: &str, ended_by| Ran { exit_code: 3, stdout: "a\n".to_owned(), stderr: stderr.to_owned(), ended_by };
    assert_eq!(ran("b", None).to_string(), "exit_code: 3\nstdout:\na\n\nstderr:\nb");
    assert_eq!(ran("", None).to_string(), "exit_code: 3\nstdout:\na\n\nstderr:\n");
    let ended = ran("b", Some(Ending::Timeout)).to_string();
    assert_eq!(ended, "exit_code: 3\nstdout:\na\n\nstderr:\nb\nended by the time limit");
    for ending in [Ending::Memory, Ending::Processes, Ending::Disk] {
        let shown = ran("b\n", Some(ending)).to_string();
        assert_eq!(shown.lines().last(), Some(format!("ended by {ending}").as_str()));
    }
}

#[test]
fn a_sandbox_says_what_it_does_not_contain() {
    let shown = |abi| Sandbox::Landlock { abi }.to_string();
    assert!(shown(3).contains("not contained: TCP connections"), "{}", shown(3));
    assert!(!shown(4).contains("TCP connections") && shown(4).contains("signals to other processes"));
    assert!(!shown(9).contains("sockets that are files") && shown(9).contains("other than TCP"));
    let none = Sandbox::None { reason: "it is switched off".to_owned() }.to_string();
    assert!(none.contains("WITHOUT A SANDBOX (it is switched off)"), "{none}");
}

#[test]
fn wrong_settings_are_refused_with_a_hint() {
    let folder = std::env::temp_dir().join(format!("pegboard-shell-settings-{}", std::process::id()));
    let settings = || ShellSettings::new(&folder);
    let program = || Some(Program::at("/no/such/program"));
    let error = Shell::new(settings(), None, None).expect_err("no program");
    assert!(matches!(error, ShellError::NoProgram) && error.hint().is_some());
    let error = Shell::new(settings(), program(), None).expect_err("no such program");
    assert_eq!(error.to_string(), "cannot start `/no/such/program`");
    let error = Shell::new(ShellSettings { folder: PathBuf::from("/"), ..settings() }, program(), None);
    assert!(matches!(error, Err(ShellError::Root { .. })), "{error:?}");
    let variable = vec![("A=B".to_owned(), String::new())];
    let error = Shell::new(ShellSettings { environment: variable, ..settings() }, program(), None);
    assert!(matches!(error, Err(ShellError::Variable { .. })), "{error:?}");
    // Not everything that can be started speaks our language.
    for other in ["/bin/true", "/bin/cat"] {
        let error = Shell::new(settings(), Some(Program::at(other)), None).expect_err(other);
        assert!(matches!(error, ShellError::Lost { .. }) && error.hint().is_some(), "{error:?}");
    }
    std::fs::remove_dir(&folder).expect("it is empty");
}

#[test]
fn a_token_is_not_shown() {
    let api = Api { address: ([127, 0, 0, 1], 9).into(), token: "a-secret-token".to_owned() };
    assert!(!format!("{api:?}").contains("a-secret-token"));
}

#[test]
fn the_usual_limits() {
    let settings = ShellSettings::new("x");
    assert_eq!((settings.timeout, settings.max_timeout), (Duration::from_secs(120), Duration::from_secs(600)));
    assert_eq!((settings.memory_bytes, settings.output_bytes, settings.command_bytes), (1 << 30, 1 << 18, 1 << 16));
}
