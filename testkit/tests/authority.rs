//! The authority refuses what real ones refuse.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use pegboard_testkit::authority::{Authority, Rules};
use serde_json::{Value, json};

/// One request; the status, where it leads, and the body.
fn send(authority: &Authority, method: &str, target: &str, body: &str) -> (u16, String, Value) {
    let address = authority.url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let length = body.len();
    write!(stream, "{method} {target} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}")
        .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let location = head.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap_or_default();
    (status, location.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

const BACK: &str = "http://127.0.0.1:1/callback";

/// 43 characters, and the SHA-256 of them in Base64 for addresses.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// Registers, and gets a code; the client and the code.
fn begin(authority: &Authority) -> (String, String) {
    let (status, _, client) =
        send(authority, "POST", "/register", &json!({"redirect_uris": [BACK], "client_name": "x"}).to_string());
    assert_eq!(status, 201);
    let client = client["client_id"].as_str().expect("an id").to_owned();
    let (status, location, _) = send(authority, "GET", &authorize(authority, &client), "");
    assert_eq!(status, 302);
    let (_, code) = location.split_once("code=").expect("a code");
    (client, code.split('&').next().unwrap_or_default().to_owned())
}

fn authorize(authority: &Authority, client: &str) -> String {
    format!(
        "/authorize?response_type=code&client_id={client}&redirect_uri={BACK}&state=s&code_challenge={CHALLENGE}\
         &code_challenge_method=S256&resource={}",
        authority.mcp()
    )
}

fn redeem(authority: &Authority, client: &str, code: &str) -> String {
    format!(
        "grant_type=authorization_code&code={code}&client_id={client}&redirect_uri={BACK}&code_verifier={VERIFIER}\
         &resource={}",
        authority.mcp()
    )
}

fn token(authority: &Authority, form: &str) -> Result<Value, String> {
    let (status, _, answer) = send(authority, "POST", "/token", form);
    if status == 200 { Ok(answer) } else { Err(answer["error_description"].as_str().unwrap_or_default().to_owned()) }
}

#[test]
fn a_person_is_sent_back_only_where_the_client_said() {
    let authority = Authority::start(Rules::default());
    let (client, _) = begin(&authority);
    let good = authorize(&authority, &client);
    for (from, to) in [
        (BACK, "http://127.0.0.1:2/callback"),
        ("client_id=client", "client_id=other"),
        ("S256", "plain"),
        ("/mcp", "/other"),
        ("&state=s", ""),
        ("response_type=code", "response_type=token"),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(good, bad);
        assert_eq!(send(&authority, "GET", &bad, "").0, 400, "{bad}");
    }
}

#[test]
fn codes_are_for_one_use_by_the_client_that_asked() {
    let authority = Authority::start(Rules::default());
    let check = |from: &str, to: &str, expected: &str| {
        let (client, code) = begin(&authority);
        let form = redeem(&authority, &client, &code).replace(from, to);
        assert_eq!(token(&authority, &form).expect_err("a refusal"), expected);
    };
    check("_wW1g", "_wW1h", "a verifier that does not fit");
    check("/callback", "/elsewhere", "another redirect than before");
    check("/mcp", "/other", "a token for another server");
    check("code=code-", "code=xxxx-", "an unknown code");
    check("client_id=client-", "client_id=other-", "a client that cannot prove who it is");
    let (client, code) = begin(&authority);
    let form = redeem(&authority, &client, &code);
    let given = token(&authority, &form).expect("a token");
    assert_eq!(token(&authority, &form).expect_err("a refusal"), "a code that was used before");
    // And what came of it is worth nothing any more.
    let refresh = given["refresh_token"].as_str().expect("a token");
    let renew =
        format!("grant_type=refresh_token&refresh_token={refresh}&client_id={client}&resource={}", authority.mcp());
    assert_eq!(token(&authority, &renew).expect_err("a refusal"), "an unknown refresh token");
}

#[test]
fn refresh_tokens_rotate() {
    let authority = Authority::start(Rules::default());
    let (client, code) = begin(&authority);
    let given = token(&authority, &redeem(&authority, &client, &code)).expect("a token");
    let renew = |given: &Value| {
        let refresh = given["refresh_token"].as_str().expect("a token");
        let resource = authority.mcp();
        token(
            &authority,
            &format!("grant_type=refresh_token&refresh_token={refresh}&client_id={client}&resource={resource}"),
        )
    };
    let next = renew(&given).expect("another");
    assert_eq!(renew(&given).expect_err("a refusal"), "a refresh token that was used before");
    assert_eq!(renew(&next).expect_err("a refusal"), "an unknown refresh token");
}
