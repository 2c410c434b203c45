use std::{path::PathBuf, time::Duration};

use super::*;

#[test]
fn a_run_is_shown_as_the_interface_says() {
    let ran = |stderr: &str, ended_by| CommandOutput {
        exit_code: 3,
        stdout: "a\n".to_owned(),
        stderr: stderr.to_owned(),
        ended_by,
    };
    assert_eq!(ran("b", None).to_string(), "exit_code: 3\nstdout:\na\n\nstderr:\nb");
    assert_eq!(ran("", None).to_string(), "exit_code: 3\nstdout:\na\n\nstderr:\n");
    let ended = ran("b", Some(ExceededLimit::Timeout)).to_string();
    assert_eq!(ended, "exit_code: 3\nstdout:\na\n\nstderr:\nb\nended by the time limit");
    for ending in [ExceededLimit::Memory, ExceededLimit::Machine, ExceededLimit::Processes, ExceededLimit::Disk] {
        let shown = ran("b\n", Some(ending)).to_string();
        assert_eq!(shown.lines().last(), Some(format!("ended by {ending}").as_str()));
    }
}

#[test]
fn a_sandbox_says_what_it_does_not_contain() {
    let has = |abi, what: &str| {
        let shown = Sandbox::Landlock { abi }.to_string();
        let (_, open) = shown.split_once("not contained: ").expect("something never is");
        open.split("; ").any(|open| open.contains(what))
    };
    assert!(has(3, "TCP connections") && !has(4, "TCP connections"));
    assert!(has(5, "signals") && !has(6, "signals"));
    assert!(has(9, "sizes, modes and times"));
    let landlock = Sandbox::Landlock { abi: 9 }.to_string();
    assert!(landlock.contains("cannot change modes, owners, times or attributes of any file"), "{landlock}");
    let bubblewrap = |is_filtered| Sandbox::Bubblewrap { program: PathBuf::new(), is_filtered }.to_string();
    let namespaces = |is_filtered| Sandbox::Namespaces { is_filtered }.to_string();
    for shown in [bubblewrap, namespaces] {
        assert!(!shown(true).contains("not contained") && shown(false).contains("not contained"));
    }
    let none = Sandbox::None { reason: "disabled".to_owned() }.to_string();
    assert!(none.contains("WITHOUT A SANDBOX (disabled)") && none.contains("evade these limits"), "{none}");
}

#[test]
fn a_sandbox_is_required_unless_it_is_switched_off() {
    assert_eq!(SandboxPolicy::default(), SandboxPolicy::Require);
    assert_eq!(ShellSettings::new("x").policy, SandboxPolicy::Require);
    assert_eq!(ShellSettings::new("x").sandboxes, SandboxKind::preferred());
    let folder = std::env::temp_dir().join(format!("pegboard-shell-require-{}", std::process::id()));
    // Without a kind to try, nothing is started.
    let settings = ShellSettings { sandboxes: Vec::new(), ..ShellSettings::new(&folder) };
    let error = Shell::new(settings, Some(Program::at("/no/such/program")), None).expect_err("no sandbox");
    assert!(matches!(error, ShellError::NoSandbox { .. }), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("`--sandbox off`")), "{error}");
    std::fs::remove_dir(&folder).expect("it is empty");
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
fn variables_are_shown_by_name() {
    let environment = vec![("NAME".to_owned(), "a-secret-value".to_owned())];
    let settings = ShellSettings { environment, ..ShellSettings::new("x") };
    let shown = format!("{settings:?}");
    assert!(shown.contains("NAME") && !shown.contains("a-secret-value"), "{shown}");
}

#[cfg(unix)]
#[test]
fn a_working_folder_is_for_us_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = std::env::temp_dir().join(format!("pegboard-shell-own-{}", std::process::id()));
    let full = prepare_folder(&folder.join("a/b")).expect("a folder");
    for made in [folder.as_path(), full.as_path()] {
        let mode = std::fs::metadata(made).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", made.display());
    }
    std::os::unix::fs::symlink(&full, folder.join("link")).expect("a link");
    assert_eq!(prepare_folder(&folder.join("link")).expect("it is our link"), full);
    if rustix::process::getuid().is_root() {
        std::os::unix::fs::lchown(folder.join("link"), Some(12_345), None).expect("root may");
        std::os::unix::fs::chown(&full, Some(12_345), None).expect("root may");
    }
    let other = if rustix::process::getuid().is_root() { full } else { PathBuf::from("/usr") };
    for foreign in [other, folder.join("link")] {
        if foreign.is_symlink() && !rustix::process::getuid().is_root() {
            continue;
        }
        let refused = prepare_folder(&foreign).expect_err("it is not ours");
        assert!(matches!(refused, ShellError::OtherOwner { .. }) && refused.hint().is_some(), "{refused}");
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn a_token_is_not_shown() {
    let api = ApiAccess { address: ([127, 0, 0, 1], 9).into(), token: "a-secret-token".to_owned() };
    assert!(!format!("{api:?}").contains("a-secret-token"));
}

#[test]
fn the_usual_limits() {
    let settings = ShellSettings::new("x");
    assert_eq!((settings.timeout, settings.max_timeout), (Duration::from_secs(120), Duration::from_secs(600)));
    assert_eq!((settings.memory_bytes, settings.output_bytes, settings.command_bytes), (1 << 30, 1 << 18, 1 << 16));
}
