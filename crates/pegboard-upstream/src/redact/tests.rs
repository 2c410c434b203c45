use base64::{Engine as _, engine::general_purpose};
use proptest::prelude::*;

use super::*;
use crate::config::HttpKind;

fn secrets(pairs: &[(&str, &str)]) -> Vec<(String, Secret)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
}

#[test]
fn a_program() {
    let env = secrets(&[("KEY", "s3cret-value"), ("MODE", "prod"), ("PEM", "---\nabcdefghijklmnopqrst\n---")]);
    let transport = TransportConfig::Stdio { command: "x".to_owned(), args: Vec::new(), env, cwd: None };
    let mut config = ServerConfig::new("s", transport);
    config.secrets = vec![Secret::new("s3cret-value-and-more")];
    let redactor = Redactor::of(&config);
    let check = |text: &str, expected: &str| assert_eq!(redactor.redact(text), expected, "{text}");
    check("nothing here in prod", "nothing here in prod");
    check("KEY=s3cret-value;s3cret-value", "KEY=[hidden];[hidden]");
    check("arg s3cret-value-and-more", "arg [hidden]");
    check("a line: abcdefghijklmnopqrst", "a line: [hidden]");
    assert_eq!(format!("{redactor:?}"), "Redactor(4 values)");
}

#[test]
fn what_is_meant_for_others() {
    let shared = SharedSecrets::default();
    let config = |env: &[(&str, &str)], filled: &str| {
        let transport =
            TransportConfig::Stdio { command: "x".to_owned(), args: Vec::new(), env: secrets(env), cwd: None };
        ServerConfig { secrets: vec![Secret::new(filled)], ..ServerConfig::new("s", transport) }
    };
    let redactor = Redactor::with_shared(&config(&[("MODE", "production")], "own-s3cret"), shared.clone());
    // Later on, as when a configuration changes.
    shared.add_server(&config(&[("LEVEL", "verbose")], "other-s3cret"));
    shared.add(&[Secret::new("client-s3cret")]);
    let check = |text: &str, expected: &str| assert_eq!(redactor.redact(text), expected, "{text}");
    check("own-s3cret other-s3cret client-s3cret", "[hidden] [hidden] [hidden]");
    check("production, verbose", "[hidden], verbose");
    assert_eq!(format!("{shared:?}"), "SharedSecrets(2 values)");
}

#[test]
fn a_remote_server() {
    let url = "https://ada:pa55word@example.com/mcp?key=t%2Fo%2Fk%2Fe%2Fn&page=2".to_owned();
    let headers = secrets(&[("Authorization", "Bearer abcdef123")]);
    let transport = TransportConfig::Http { url, headers, kind: HttpKind::Auto };
    let redactor = Redactor::of(&ServerConfig::new("s", transport));
    let check = |text: &str, expected: &str| assert_eq!(redactor.redact(text), expected, "{text}");
    check("token abcdef123 is wrong", "token [hidden] is wrong");
    check("got Bearer abcdef123", "got [hidden]");
    check("t/o/k/e/n, t%2Fo%2Fk%2Fe%2Fn and pa55word on page 2", "[hidden], [hidden] and [hidden] on page 2");
}

/// A redactor of one filled-in secret.
fn redactor(secret: &str) -> Redactor {
    let transport = TransportConfig::Stdio { command: "x".to_owned(), args: Vec::new(), env: Vec::new(), cwd: None };
    Redactor::of(&ServerConfig { secrets: vec![Secret::new(secret)], ..ServerConfig::new("s", transport) })
}

#[test]
fn encoded_forms() {
    let check = |text: &str, expected: &str| {
        assert_eq!(redactor("p\u{e4}ss/w\"rd+1").redact(text), expected, "{text}");
    };
    check("p\u{e4}ss/w\"rd+1", "[hidden]");
    check("P\u{c4}SS/W\"RD+1", "[hidden]");
    check("p%C3%A4ss%2Fw%22rd%2B1 p%c3%a4ss/w%22rd+1", "[hidden] [hidden]");
    check(r#"{"x":"päss/w\"rd+1"} {"x":"p\u00e4ss\/w\"rd+1"}"#, r#"{"x":"[hidden]"} {"x":"[hidden]"}"#);
    check("70c3a473732f77227264 70C3A473732F772272642B31", "70c3a473732f77227264 [hidden]");
    // `user:` and the secret, as in `Authorization: Basic`: what stands before it is left.
    let basic = general_purpose::STANDARD.encode("user:p\u{e4}ss/w\"rd+1");
    check(&format!("Basic {basic}"), "Basic dXNlcj[hidden]=");
    check("p\u{e4}ss/w\"rd+2", "p\u{e4}ss/w\"rd+2");
}

#[test]
fn short_values_are_found_as_they_are() {
    let check = |text: &str, expected: &str| assert_eq!(redactor("s3cr3t").redact(text), expected, "{text}");
    check("s3cr3t S3CR3T czNjcjN0", "[hidden] S3CR3T czNjcjN0");
}

#[test]
fn overlapping_values_are_hidden_whole() {
    let filter = SecretFilter::new(vec!["abcdefgh1234".to_owned(), "1234ijklmnop".to_owned()]);
    assert_eq!(filter.replace("<abcdefgh1234ijklmnop>", "X"), "<X>");
    assert_eq!(filter.replace("abcdefgh1234, 1234ijklmnop", "X"), "X, X");
}

#[test]
fn long_values_are_hidden_too() {
    let value = "0123456789abcdef".repeat(1000);
    let text = format!("it is {value}.");
    assert_eq!(redactor(&value).redact(&text), "it is [hidden].");
    let encoded = general_purpose::STANDARD.encode(&value);
    let redacted = redactor(&value).redact(&encoded).into_owned();
    assert!(redacted.starts_with("[hidden]") && redacted.len() < encoded.len());
}

#[test]
fn identities_do_not_depend_on_encoded_forms() {
    let redactor = redactor("analytics");
    assert_eq!(redactor.redact_literally("analytics Analytics"), "[hidden] Analytics");
    assert_eq!(redactor.redact("analytics Analytics"), "[hidden] [hidden]");
}

/// Encoders that are not the ones under test.
fn encoded(secret: &str, before: &str, after: &str) -> Vec<(String, String)> {
    let context = format!("{before}{secret}{after}");
    let json = |text: &str| {
        let quoted = serde_json::to_string(text).expect("JSON");
        quoted[1..quoted.len() - 1].to_owned()
    };
    let form = |text: &str| {
        let url = reqwest::Url::parse_with_params("http://x", [("k", text)]).expect("an address");
        url.query().unwrap_or_default()[2..].to_owned()
    };
    let upper_hex: String = secret.bytes().map(|byte| format!("{byte:02X}")).collect();
    let every: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let unicode: String = secret.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
    let mut pairs = vec![
        (secret.to_owned(), context.clone()),
        (secret.to_uppercase(), format!("{before}{}{after}", secret.to_uppercase())),
        (json(secret), json(&context)),
        (json(secret).replace('/', "\\/"), json(&context).replace('/', "\\/")),
        (form(secret), form(&context)),
        (form(secret).to_lowercase(), form(&context).to_lowercase()),
        (upper_hex.to_lowercase(), format!("{before}{}{after}", upper_hex.to_lowercase())),
        (upper_hex.clone(), format!("{before}{upper_hex}{after}")),
        (every.clone(), format!("{before}{every}{after}")),
        (unicode.clone(), format!("{before}{unicode}{after}")),
    ];
    for engine in [
        &general_purpose::STANDARD,
        &general_purpose::STANDARD_NO_PAD,
        &general_purpose::URL_SAFE,
        &general_purpose::URL_SAFE_NO_PAD,
    ] {
        // The characters that hold the secret and nothing else.
        let offset = before.len();
        let text = engine.encode(&context);
        let inner = text[(8 * offset).div_ceil(6)..8 * (offset + secret.len()) / 6].to_owned();
        pairs.push((inner, text));
    }
    pairs
}

proptest! {
    #[test]
    fn no_form_of_a_secret_is_left(
        secret in r#"[a-zA-Z0-9/+=&%"\\ _.~\-äß漢😀]{8,40}"#,
        before in "[a-z:]{0,4}",
        after in "[a-z:]{0,4}",
    ) {
        prop_assume!(secret.trim().len() >= 8 && secret.trim() == secret);
        let redactor = redactor(&secret);
        for (form, text) in encoded(&secret, &before, &after) {
            let redacted = redactor.redact(&text);
            prop_assert!(!redacted.contains(&form), "{form} is left in {redacted} of {text}");
            prop_assert!(redacted.contains(HIDDEN), "{redacted} of {text}");
        }
    }

    #[test]
    fn text_without_secrets_stays_as_it_is(
        secret in r"[a-zA-Z0-9/+=&%_.~-]{8,40}",
        words in prop::collection::vec(r#"[a-zA-Z0-9/+=%"\\äß漢]{1,7}"#, 0..40),
    ) {
        // Every form is longer than the longest word.
        let text = words.join(" ");
        prop_assert!(matches!(redactor(&secret).redact(&text), Cow::Borrowed(_)), "{text}");
    }
}
