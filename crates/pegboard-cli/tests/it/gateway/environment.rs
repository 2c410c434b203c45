//! The environment variables that servers inherit from the gateway.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{Legacy, PATIENCE, Served, client::http, fixture, fixture_path, follow, real, text};

const TOKEN: &str = "front-door-token-of-ada";
const OTHER: &str = "front-door-token-of-bob";

/// The environment of the gateway in these tests.
const VARIABLES: &[(&str, &str)] = &[
    ("PEGBOARD_LOG", "debug"),
    ("PB_ADMIN", TOKEN),
    ("PB_OTHER", OTHER),
    ("PEGBOARD_TOKEN", TOKEN),
    ("PB_SECRET_ONE", "one"),
    ("PB_SECRET_TWO", "two"),
    ("LC_TIME", "C"),
    ("TZ", "UTC"),
    ("XDG_DATA_HOME", "/nonexistent/data"),
    ("XDG_RUNTIME_DIR", "/nonexistent/run"),
    ("https_proxy", "http://proxy.invalid"),
    ("NO_PROXY", "*"),
    ("NODE_EXTRA_CA_CERTS", "/nonexistent/certs"),
    ("npm_config_registry", "https://registry.invalid"),
    ("UV_INDEX_URL", "https://index.invalid"),
];

/// Returns the fixture under another name.
fn fixture_named(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("environment-programs");
    fs::create_dir_all(&folder).expect("a temporary folder");
    let program = folder.join(name);
    let _ = fs::remove_file(&program);
    symlink(fixture_path(), &program).expect("a link");
    program
}

fn server(own: &Value) -> Value {
    let mut server = fixture(&["--environment"]);
    if !own.is_null() {
        server["pegboard"] = json!({"inheritEnv": own});
    }
    server
}

fn config(servers: &Value, variable: &str) -> Value {
    let tokens = json!([{"name": "ada", "token": format!("${{env:{variable}:-unused-default-of-a-token}}")}]);
    json!({"mcpServers": servers, "pegboard": {"tokens": tokens, "prefix": "always", "dialect": "passthrough"}})
}

/// Returns the environment that a server reports.
async fn report(served: &Served, token: &str, server: &str) -> Value {
    let session = Legacy::begin_as(&served.url, "test", json!({}), Some(token)).await;
    let reply = session.call(&format!("{server}___environment"), json!({})).await;
    reply.result()["structuredContent"].clone()
}

/// Returns which of [`VARIABLES`] a server has.
async fn inherited(served: &Served, server: &str) -> String {
    let report = report(served, TOKEN, server).await;
    assert!(report["own"]["PATH"].is_string() && report["own"]["HOME"].is_string(), "{report}");
    assert_eq!(report["own"], report["parent"], "the supervisor has the environment of the server");
    assert!(!report["own"].to_string().contains(TOKEN), "{server}: {report}");
    let names = VARIABLES.iter().map(|(name, _)| *name).filter(|name| report["own"].get(name).is_some());
    names.collect::<Vec<_>>().join(" ")
}

const SHORT: &str = "LC_TIME TZ XDG_DATA_HOME https_proxy NO_PROXY NODE_EXTRA_CA_CERTS";

#[tokio::test]
async fn servers_inherit_a_short_list_and_what_is_named() {
    let mut runner = server(&Value::Null);
    runner["command"] = json!(fixture_named("npx"));
    let servers = json!({
        "plain": server(&Value::Null),
        "npx": runner,
        "named": server(&json!(["PB_SECRET_ONE"])),
        "pattern": server(&json!(["PB_*", "PEGBOARD_*", "UV_*"])),
        "all": server(&json!(true)),
    });
    let served = Served::start_with("environment", &config(&servers, "PB_ADMIN"), &[], VARIABLES).await;
    assert_eq!(inherited(&served, "plain").await, SHORT);
    assert_eq!(inherited(&served, "npx").await, format!("{SHORT} npm_config_registry"));
    assert_eq!(inherited(&served, "named").await, format!("PB_SECRET_ONE {SHORT}"));
    // Neither a pattern nor everything covers the variables that supply tokens.
    let pattern = format!("PEGBOARD_LOG PB_OTHER PB_SECRET_ONE PB_SECRET_TWO {SHORT} UV_INDEX_URL");
    assert_eq!(inherited(&served, "pattern").await, pattern);
    let others = VARIABLES.iter().map(|(name, _)| *name).filter(|name| !["PB_ADMIN", "PEGBOARD_TOKEN"].contains(name));
    assert_eq!(inherited(&served, "all").await, others.collect::<Vec<_>>().join(" "));
}

#[tokio::test]
async fn a_real_server_reports_the_short_list() {
    let Some(tools) = real::tools() else { return };
    let servers = real::peer_file("servers.json", &tools);
    let servers = json!({"everything": servers["mcpServers"]["everything"]});
    let served = Served::start_with("environment-real", &config(&servers, "PB_ADMIN"), &[], VARIABLES).await;
    let session = Legacy::begin_as(&served.url, "test", json!({}), Some(TOKEN)).await;
    let reply = session.call("everything___get-env", json!({})).await;
    let found: Value = serde_json::from_str(&text(&reply)).expect("a JSON object");
    let names = VARIABLES.iter().map(|(name, _)| *name).filter(|name| found.get(name).is_some());
    assert_eq!(names.collect::<Vec<_>>().join(" "), SHORT, "{found}");
}

#[tokio::test]
async fn a_general_setting_holds_for_servers_that_do_not_switch_it_off() {
    let mut config = config(&json!({"plain": server(&Value::Null), "none": server(&json!(false))}), "PB_ADMIN");
    config["pegboard"]["inheritEnv"] = json!(["PB_SECRET_*"]);
    let served = Served::start_with("environment-general", &config, &[], VARIABLES).await;
    assert_eq!(inherited(&served, "plain").await, format!("PB_SECRET_ONE PB_SECRET_TWO {SHORT}"));
    assert_eq!(inherited(&served, "none").await, SHORT);
    // By its name it is a mistake, and the configuration is refused.
    config["pegboard"]["inheritEnv"] = json!(["PB_ADMIN"]);
    assert!(!served.reconfigure(&config.to_string()).await);
    let line = served.wait_for_log("names `PB_ADMIN`, which supplies a token in `pegboard.tokens`").await;
    assert!(line.contains("pegboard.inheritEnv[0]"), "{line}");
}

#[tokio::test]
async fn other_tokens_hold_for_servers_that_are_started_later() {
    let servers = || json!({"all": server(&json!(true))});
    let served = Served::start_with("environment-reload", &config(&servers(), "PB_ADMIN"), &[], VARIABLES).await;
    let before = report(&served, TOKEN, "all").await;
    assert!(before["own"].get("PB_ADMIN").is_none() && before["own"]["PB_OTHER"] == OTHER, "{before}");
    assert!(served.reconfigure(&config(&servers(), "PB_OTHER").to_string()).await);
    let url = format!("{}/control/servers/all/restart", served.url.trim_end_matches("/mcp"));
    let request = http().post(url).bearer_auth(OTHER).header("content-type", "application/json").body("{}");
    let answer = request.send().await.expect("an answer");
    assert!(answer.status().is_success(), "{answer:?}");
    let after = report(&served, OTHER, "all").await;
    assert!(after["own"].get("PB_OTHER").is_none(), "{after}");
}

#[tokio::test]
async fn a_server_that_fails_without_a_variable_is_reported_once() {
    let script = "[ -n \"$PB_SECRET_ONE\" ] || { echo 'Error: PB_SECRET_ONE is required' >&2; for i in 1 2 3 4 5 6 7 8 9; \
                  do echo \"  at $i\" >&2; done; exit 1; }; exec \"$0\"";
    let failing = json!({"command": "/bin/sh", "args": ["-c", script, fixture_path()]});
    let mut config = json!({"mcpServers": {"failing": failing}, "pegboard": {"dialect": "passthrough"}});
    let served = Served::start_with("environment-warning", &config, &[], VARIABLES).await;
    let warning = "failed server may lack variables that it does not inherit";
    let line = served.wait_for_log(warning).await;
    assert!(line.contains("WARN") && line.contains("PB_SECRET_ONE"), "{line}");
    assert!(line.contains("mcpServers.failing.pegboard.inheritEnv") && !line.contains("PB_SECRET_TWO"), "{line}");
    // The same series of failures is not reported again.
    let mut log = served.log.clone();
    let again = log.wait_for(|log| log.matches("server failed").count() >= 3);
    tokio::time::timeout(PATIENCE, again).await.expect("it fails again").expect("a log");
    assert_eq!(served.log().matches(warning).count(), 1, "{}", served.log());
    let is_failure = |line: &&str| line.contains("server failed") && line.contains(" WARN ");
    assert_eq!(served.log().lines().filter(is_failure).count(), 1, "{}", served.log());
    config["mcpServers"]["failing"]["pegboard"] = json!({"inheritEnv": ["PB_SECRET_ONE"]});
    assert!(served.reconfigure(&config.to_string()).await);
    served.wait_for_log("server ready").await;
}

/// Returns how to run a program as an unprivileged user; `None` if that is not possible.
fn unprivileged() -> Option<Vec<&'static str>> {
    if fs::metadata("/proc/self").ok()?.uid() != 0 {
        return Some(Vec::new());
    }
    let line = vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).args([env!("CARGO_BIN_EXE_pegboard"), "--version"]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then_some(line)
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_server_cannot_read_the_environment_of_the_gateway() {
    let Some(line) = unprivileged() else {
        eprintln!("SKIPPED: `setpriv` cannot run the binary as another user");
        return;
    };
    let servers = json!({"reader": server(&Value::Null)});
    let (folder, file) = super::write_config("environment-proc", &config(&servers, "PB_ADMIN"));
    let mut words = line.iter().map(|&word| word.to_owned());
    let binary = env!("CARGO_BIN_EXE_pegboard").to_owned();
    let mut command = match words.next() {
        Some(program) => {
            let mut command = tokio::process::Command::new(program);
            command.args(words).arg(binary);
            command
        }
        None => tokio::process::Command::new(binary),
    };
    let mut child = command
        .args(["serve", &file, "--listen", "127.0.0.1:0", "--state", "none"])
        .envs(VARIABLES.iter().copied())
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let log = follow(child.stderr.take().expect("a pipe"));
    let mut served = Served { child, url: String::new(), log, folder };
    let line = served.wait_for_log("listening on ").await;
    let url = line.split("listening on ").nth(1).and_then(|rest| rest.split(['"', ' ']).next());
    served.url = url.expect("an address").to_owned();
    let report = report(&served, TOKEN, "reader").await;
    assert!(report["own"].is_object() && report["parent"].is_object(), "{report}");
    assert_eq!(report["grandparent"], Value::Null, "the server reads the environment of the gateway");
    // The files belong to root although the process does not.
    let owner = |file: &str| fs::metadata(format!("/proc/{}/{file}", served.pid())).expect("it runs").uid();
    assert_eq!((owner("environ"), owner("mem")), (0, 0));
}
