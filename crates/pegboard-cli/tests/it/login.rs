//! Logins: the binary, an authorization server, and a browser in between.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use pegboard_testkit::authority::{Authority, Rules};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdout},
};

use crate::gateway::{
    Legacy, PATIENCE, Served,
    client::{self, http},
    command, fixture, names, real, text,
};

/// A folder of one test, with a configuration and a state folder.
struct Stage {
    folder: PathBuf,
    test: &'static str,
}

impl Stage {
    fn new(test: &'static str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("login-{test}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a temporary folder");
        Self { folder, test }
    }

    /// Configures one server, `far`.
    fn configure(&self, server: Value) -> &Self {
        let mut config = json!({"mcpServers": {}, "pegboard": {"exposure": "never"}});
        config["mcpServers"]["far"] = server;
        fs::write(self.file(), config.to_string()).expect("a temporary file");
        self
    }

    fn file(&self) -> PathBuf {
        self.folder.join("pegboard.json")
    }

    fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Returns the files with logins.
    fn login_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state().join("logins")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "json")).collect()
    }

    async fn serve(&self, name: &str) -> Served {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-login-{}-{name}", self.test));
        fs::create_dir_all(&folder).expect("a temporary folder");
        Served::start_in(folder, &self.file(), &self.state()).await
    }

    fn begin(&self, args: &[&str]) -> Running {
        let mut child = command()
            .args(args)
            .env("PEGBOARD_STATE", self.state())
            .env("PEGBOARD_CONFIG", self.file())
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the binary starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Running { child, lines }
    }

    /// Logs in with a browser that follows the redirects.
    async fn log_in(&self) -> (i32, String) {
        let mut running = self.begin(&["login", "far", "--no-browser"]);
        if let Some(url) = running.url().await {
            // Some are not let back in, and end on a page that says so.
            let _ = http().get(url).send().await;
        }
        running.end().await
    }

    async fn run(&self, args: &[&str]) -> (i32, String) {
        self.begin(args).end().await
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A running command.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Returns the address that it prints.
    async fn url(&mut self) -> Option<String> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("it goes on");
        line.expect("text")
    }

    async fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
    }

    /// Returns its exit code and its output.
    async fn end(mut self) -> (i32, String) {
        let mut said = String::new();
        let mut pipe = self.child.stderr.take().expect("a pipe");
        let ended = async {
            pipe.read_to_string(&mut said).await.expect("text");
            self.child.wait().await.expect("a status").code().unwrap_or(-1)
        };
        let code = tokio::time::timeout(PATIENCE, ended).await.expect("it ends");
        (code, said)
    }
}

/// Returns a gateway in front of the fixture, and an authority in front of that.
async fn protected(test: &str, rules: Rules) -> (Served, Authority) {
    let config = json!({"mcpServers": {"fixture": fixture(&["--extras"])}, "pegboard": {"exposure": "never"}});
    let inner = Served::start(&format!("login-inner-{test}"), &config).await;
    let address = inner.url.trim_start_matches("http://").trim_end_matches("/mcp");
    let backend: SocketAddr = address.parse().expect("an address");
    (inner, Authority::start(Rules { backend: Some(backend), ..rules }))
}

/// Waits until the gateway has the tools of its server.
async fn wait_until_connected(served: &Served) -> Legacy {
    let session = served.legacy().await;
    let listed = async {
        while !names(&session.request("tools/list", json!({})).await, "tools").contains(&"echo".to_owned()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, listed).await.unwrap_or_else(|_| panic!("no tools; the log is\n{}", served.log()));
    session
}

async fn echo(session: &Legacy, message: &str) -> String {
    text(&session.call("echo", json!({"message": message})).await)
}

/// Calls until the server is available again.
async fn call_until_answered(session: &Legacy, message: &str) {
    let called = async {
        while !echo(session, message).await.contains(message) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, called).await.unwrap_or_else(|_| panic!("`{message}` is not answered"));
}

fn without_addresses(text: &str, authority: &Authority, stage: &Stage) -> String {
    let text = text.replace(authority.url(), "[authority]").replace(stage.folder.to_str().expect("a path"), "[folder]");
    let port = regex::Regex::new(r"127\.0\.0\.1:\d+").expect("a pattern");
    port.replace_all(&text, "127.0.0.1:[port]").into_owned()
}

#[tokio::test]
async fn from_login_to_logout() {
    let (_inner, authority) = protected("whole", Rules::default()).await;
    let stage = Stage::new("whole");
    stage.configure(json!({"type": "http", "url": authority.mcp()}));
    let served = stage.serve("one").await;
    served.wait_for_log("the server requires a login (hint: run `pegboard login far`)").await;

    let (code, said) = stage.log_in().await;
    insta::assert_snapshot!("logged_in", without_addresses(&format!("exit {code}\n{said}"), &authority, &stage));
    only_for_the_owner(&stage);
    // The gateway runs on, and finds the login by itself.
    let session = wait_until_connected(&served).await;
    assert!(echo(&session, "let in").await.contains("let in"));

    // An expired token is refreshed, once for all callers.
    authority.expire();
    let (one, two, three) = tokio::join!(echo(&session, "a"), echo(&session, "b"), echo(&session, "c"));
    assert!(one.contains('a') && two.contains('b') && three.contains('c'), "{one} {two} {three}");
    assert_eq!(authority.count("renewed a token"), 1, "{:?}", authority.events());
    authority.expire();
    assert!(echo(&session, "and again").await.contains("and again"));
    assert_eq!(authority.count("refused"), 0, "{:?}", authority.events());

    // A login that has ended needs the user.
    authority.end_logins();
    let ended = echo(&session, "too late").await;
    assert!(ended.contains("run `pegboard login far`"), "{ended}");
    assert_eq!(stage.log_in().await.0, 0);
    call_until_answered(&session, "back").await;

    let (code, said) = stage.run(&["logout", "far"]).await;
    assert_eq!((code, said.as_str()), (0, "logged out of `far`\n"));
    assert_eq!((stage.login_files().len(), authority.count("took a login back")), (0, 1));
    assert!(echo(&session, "after the end").await.contains("run `pegboard login far`"));
    let (code, said) = stage.run(&["logout", "far"]).await;
    assert_eq!((code, said.as_str()), (1, "not logged in to `far`\n"));
    for secret in authority.secrets() {
        assert!(!served.log().contains(&secret), "the log has `{secret}`");
    }
}

#[cfg(unix)]
fn only_for_the_owner(stage: &Stage) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let kept = stage.login_files();
    assert_eq!(kept.len(), 1);
    assert_eq!((mode(&kept[0]), mode(&stage.state().join("logins"))), (0o600, 0o700));
}

#[cfg(not(unix))]
fn only_for_the_owner(_stage: &Stage) {}

#[tokio::test]
async fn tokens_that_are_about_to_expire_are_renewed_before_they_are_used() {
    let (_inner, authority) = protected("short", Rules { lifetime: 1, rotates: false, ..Rules::default() }).await;
    let stage = Stage::new("short");
    stage.configure(json!({"type": "http", "url": authority.mcp()}));
    assert_eq!(stage.log_in().await.0, 0);
    let session_of = stage.serve("one").await;
    let session = wait_until_connected(&session_of).await;
    assert!(echo(&session, "short").await.contains("short"));
    assert!(authority.count("renewed a token") > 0);
    assert_eq!(authority.count("mcp: token refused"), 0, "{:?}", authority.events());
}

#[tokio::test]
async fn two_gateways_share_a_login() {
    let (_inner, authority) = protected("shared", Rules::default()).await;
    let stage = Stage::new("shared");
    stage.configure(json!({"type": "http", "url": authority.mcp()}));
    assert_eq!(stage.log_in().await.0, 0);
    let (one, two) = (stage.serve("one").await, stage.serve("two").await);
    let (first, second) = (wait_until_connected(&one).await, wait_until_connected(&two).await);
    for _ in 0..3 {
        authority.expire();
        let (a, b) = tokio::join!(echo(&first, "first"), echo(&second, "second"));
        assert!(a.contains("first") && b.contains("second"), "{a} {b} {:?}", authority.events());
    }
    assert_eq!((authority.count("renewed a token"), authority.count("refused")), (3, 0), "{:?}", authority.events());
}

#[tokio::test]
async fn a_registered_application_with_a_secret() {
    let port = {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        socket.local_addr().expect("an address").port()
    };
    let rules = Rules {
        clients: vec![("our app".to_owned(), "s3cr3t+/%".to_owned())],
        redirect: format!("http://127.0.0.1:{port}/callback"),
        registers: false,
        ..Rules::default()
    };
    let (_inner, authority) = protected("client", rules).await;
    let stage = Stage::new("client");
    stage.configure(
        json!({"type": "http", "url": authority.mcp(), "oauth": {"clientId": "our app", "callbackPort": port}}),
    );
    let (code, said) = stage.log_in().await;
    assert!(code == 2 && said.contains("a client that cannot prove who it is"), "{said}");
    let oauth = json!({
        "clientId": "our app", "clientSecret": "s3cr3t+/%", "callbackPort": port, "scopes": "tools more"
    });
    stage.configure(json!({"type": "http", "url": authority.mcp(), "oauth": oauth}));
    let (code, said) = stage.log_in().await;
    assert_eq!(code, 0, "{said}");
    assert_eq!((authority.count("registered"), authority.count("allowed tools more")), (0, 1));
    assert!(!fs::read_to_string(&stage.login_files()[0]).expect("a file").contains("s3cr3t"));
    let served = stage.serve("one").await;
    let session = wait_until_connected(&served).await;
    authority.expire();
    assert!(echo(&session, "proven").await.contains("proven"));
    assert_eq!(stage.run(&["logout", "far"]).await.0, 0);
    assert_eq!(authority.count("took a login back"), 1);
}

#[tokio::test]
async fn a_browser_on_another_machine() {
    let authority = Authority::start(Rules::default());
    let stage = Stage::new("pasted");
    stage.configure(json!({"type": "http", "url": authority.mcp()}));
    let mut running = stage.begin(&["login", "far", "--no-browser"]);
    let url = running.url().await.expect("an address");
    let browser = client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
    let response = browser.get(url).send().await.expect("an answer");
    let page = response.headers()["location"].to_str().expect("an address").to_owned();
    running.say("what do you mean?").await;
    running.say(&page.replace("state=", "state=x")).await;
    running.say(&format!(" {page} ")).await;
    let (code, said) = running.end().await;
    insta::assert_snapshot!("pasted", without_addresses(&format!("exit {code}\n{said}"), &authority, &stage));
}

#[tokio::test]
async fn any_page_can_knock_and_none_but_the_right_one_is_let_in() {
    let authority = Authority::start(Rules::default());
    let stage = Stage::new("knocking");
    stage.configure(json!({"type": "http", "url": authority.mcp()}));
    let mut running = stage.begin(&["login", "far", "--no-browser"]);
    let url = running.url().await.expect("an address");
    let parsed = reqwest::Url::parse(&url).expect("an address");
    let back = parsed.query_pairs().find(|(key, _)| key == "redirect_uri").expect("a way back").1.into_owned();
    for wrong in ["?code=mine&state=mine", "?error=access_denied", "?error=access_denied&state=mine", ""] {
        let answer = http().get(format!("{back}{wrong}")).send().await.expect("an answer");
        assert_eq!(answer.status(), 404, "{wrong}");
    }
    assert_eq!(http().get(url).send().await.expect("an answer").status(), 200);
    assert_eq!(running.end().await.0, 0);
}

/// Returns the address of this machine on a private network, if it has one. No packet is sent.
fn private_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    matches!(address, IpAddr::V4(address) if address.is_private()).then_some(address)
}

/// Counts connections and closes them.
async fn count_connections(address: IpAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind((address, 0)).await.expect("a port");
    let (address, count) = (listener.local_addr().expect("an address"), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (address, count)
}

/// Private endpoints are rejected before any request. The server of these tests is on the loopback
/// interface; it must not redirect into a private network.
#[tokio::test]
async fn private_endpoints_are_refused_before_they_are_asked() {
    let stage = Stage::new("private");
    let far = |authority: &Authority| json!({"type": "http", "url": authority.mcp()});
    let named = |place: &str| Rules { named: Some(place.to_owned()), ..Rules::default() };
    let tokens_at = |place: &str| Rules { token_endpoint: Some(place.to_owned()), ..Rules::default() };
    for (rules, expected) in [
        (named("https://10.255.255.1"), "`https://10.255.255.1` is a private address"),
        (named("https://[::ffff:10.255.255.1]/x"), "is a private address"),
        (tokens_at("https://[fd00::1]/token"), "`https://[fd00::1]` is a private address"),
        (tokens_at("https://169.254.169.254/token"), "`https://169.254.169.254` is a link-local address"),
        (tokens_at("https://[64:ff9b::a00:1]/token"), "is a private address"),
    ] {
        let authority = Authority::start(rules);
        let (code, said) = stage.configure(far(&authority)).log_in().await;
        assert!(code != 0 && said.contains(expected) && said.contains("`allowPrivateIssuers`"), "{expected}: {said}");
        assert!(stage.login_files().is_empty() && authority.count("token") == 0, "{:?}", authority.events());
    }
    let Some(address) = private_address() else { return };
    let (place, count) = count_connections(address).await;
    let authority = Authority::start(tokens_at(&format!("https://{place}/token")));
    let (code, said) = stage.configure(far(&authority)).log_in().await;
    assert!(code != 0 && said.contains("is a private address"), "{said}");
    assert_eq!(count.load(Ordering::SeqCst), 0, "it was asked");
    let mut allowed = far(&authority);
    allowed["pegboard"] = json!({"allowPrivateIssuers": true});
    let (code, said) = stage.configure(allowed).log_in().await;
    assert!(code != 0 && !said.contains("is a private address"), "{said}");
    assert!(count.load(Ordering::SeqCst) > 0, "it was not asked: {said}");
}

#[tokio::test]
async fn what_is_refused() {
    let far = |authority: &Authority| json!({"type": "http", "url": authority.mcp()});
    let mut shown = String::new();
    let cases: Vec<(&str, Rules)> = vec![
        ("the person says no", Rules { denies: true, ..Rules::default() }),
        ("no registration", Rules { registers: false, ..Rules::default() }),
        ("somebody else answers", Rules { issuer_of_answers: Some("https://evil.example".into()), ..Rules::default() }),
        ("tokens in the clear", Rules { token_endpoint: Some("http://example.com/t".into()), ..Rules::default() }),
        ("an issuer in the clear", Rules { named: Some("http://example.com".into()), ..Rules::default() }),
        ("out of order", Rules { is_out_of_order: true, ..Rules::default() }),
    ];
    for (at, (case, rules)) in cases.into_iter().enumerate() {
        let authority = Authority::start(rules);
        let stage = Stage::new(["a", "b", "c", "d", "e", "f"][at]);
        stage.configure(far(&authority));
        let (code, said) = stage.log_in().await;
        assert!(stage.login_files().is_empty(), "{case}");
        shown.push_str(&format!("# {case}: exit {code}\n{}\n", without_addresses(&said, &authority, &stage)));
    }
    let authority = Authority::start(Rules::default());
    let stage = Stage::new("refused");
    let (url, open) = (authority.mcp(), Served::demo("login-open").await);
    let servers = [
        ("a program", json!({"command": "true"})),
        ("a token is configured", json!({"url": url, "authorizationToken": "fixed"})),
        ("in the clear", json!({"url": "http://mcp.example/mcp"})),
        ("nobody asks", json!({"url": open.url})),
    ];
    for (case, server) in servers {
        let (code, said) = stage.configure(server).log_in().await;
        shown.push_str(&format!("# {case}: exit {code}\n{}\n", without_addresses(&said, &authority, &stage)));
    }
    stage.configure(far(&authority));
    for (case, args) in [
        ("another name", &["login", "fra"][..]),
        ("no place for it", &["login", "far", "--state", "none"]),
        ("nobody comes", &["login", "far", "--no-browser", "--timeout", "1"]),
    ] {
        let (code, said) = stage.run(args).await;
        shown.push_str(&format!("# {case}: exit {code}\n{}\n", without_addresses(&said, &authority, &stage)));
    }
    insta::assert_snapshot!("refused", shown);
}

#[tokio::test]
async fn a_token_does_not_follow_to_another_host() {
    let (_inner, authority) = protected("moved", Rules::default()).await;
    let elsewhere = Authority::start(Rules::default());
    let stage = Stage::new("moved");
    stage.configure(json!({"type": "http", "url": authority.mcp(), "headers": {"X-Key": "also mine"}}));
    assert_eq!(stage.log_in().await.0, 0);
    authority.change(|rules| rules.moved_to = Some(elsewhere.mcp()));
    let served = stage.serve("one").await;
    served.wait_for_log("the server answered with HTTP status 307").await;
    assert!(authority.count("mcp: sent away") > 0);
    assert_eq!(elsewhere.events(), Vec::<String>::new());
}

#[tokio::test]
async fn another_address_does_not_get_the_token() {
    let (_inner, authority) = protected("other", Rules::default()).await;
    let other = Authority::start(Rules::default());
    let stage = Stage::new("other");
    stage.configure(json!({"type": "http", "url": authority.mcp()}));
    assert_eq!(stage.log_in().await.0, 0);
    // The name is the same, the place is not.
    stage.configure(json!({"type": "http", "url": other.mcp()}));
    let served = stage.serve("one").await;
    served.wait_for_log("the server requires a login").await;
    assert!(other.count("mcp: no token") > 0);
    assert_eq!(other.count("mcp: token refused"), 0);
}

#[tokio::test]
#[cfg(unix)]
async fn the_browser_of_the_user_is_opened() {
    use std::os::unix::fs::PermissionsExt as _;
    let authority = Authority::start(Rules::default());
    let stage = Stage::new("browser");
    stage.configure(json!({"type": "http", "url": authority.mcp()}));
    let (script, page) = (stage.folder.join("browser.sh"), stage.folder.join("page"));
    let text = format!("#!/bin/sh\nprintf %s \"$1\" > '{0}.new' && mv '{0}.new' '{0}'\n", page.display());
    fs::write(&script, text).expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).expect("ours");
    let mut login = command();
    login.args(["login", "far"]).arg(stage.file()).arg("--state").arg(stage.state()).env("BROWSER", &script);
    let child = login.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let opened = async {
        while !page.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, opened).await.expect("a browser is opened");
    let url = fs::read_to_string(&page).expect("an address");
    http().get(&url).send().await.expect("an answer");
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").expect("a status");
    let said = String::from_utf8_lossy(&ended.stderr).replace(&url, "[address]");
    let code = ended.status.code().unwrap_or(-1);
    insta::assert_snapshot!("with_a_browser", without_addresses(&format!("exit {code}\n{said}"), &authority, &stage));
}

/// FastMCP's own authorization server: an implementation that is not ours.
#[tokio::test]
async fn a_real_server() {
    let Some(tools) = real::tools() else { return };
    let script = real::peers().join("remote.py").to_str().expect("a path").to_owned();
    let python = tools.join("python/bin/python");
    let args = |port: u16| vec![script.clone(), port.to_string(), "--login".to_owned()];
    let remote = real::remote(&python, args, |_| Vec::new()).await;
    let stage = Stage::new("real");
    stage.configure(json!({"url": format!("http://127.0.0.1:{}/mcp", remote.port)}));
    let (code, said) = stage.log_in().await;
    assert_eq!(code, 0, "{said}");
    // As if its time were over.
    let kept = &stage.login_files()[0];
    let mut login: Value = serde_json::from_slice(&fs::read(kept).expect("a file")).expect("JSON");
    login["expiresAt"] = 1.into();
    fs::write(kept, login.to_string()).expect("ours");
    let served = stage.serve("one").await;
    served.wait_for_log("login refreshed").await;
    served.wait_for_log("server ready").await;
    let session = served.legacy().await;
    assert_eq!(text(&session.call("add", json!({"a": 19, "b": 23})).await), "42");
    let (code, said) = stage.run(&["logout", "far"]).await;
    assert_eq!((code, said.as_str()), (0, "logged out of `far`\n"));
}
