//! The files and how they are served.

use std::{collections::BTreeSet, fs, path::Path};

use axum::{http::Request, routing::get};
use serde_json::Value;
use tower::ServiceExt as _;

use super::*;
use crate::assets::ASSETS;

/// The most bytes that the files may have together: a first load stays below 100 kB.
const MOST_BYTES: usize = 400_000;

/// The endings of files that no browser loads.
const UNSERVED: [&str; 3] = ["d.ts", "md", "LICENSE"];

fn list(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        match entry.path().is_dir() {
            true => list(&entry.path(), &format!("{name}/"), found),
            false => _ = found.insert(name),
        }
    }
}

#[test]
fn every_file_of_the_folder_is_served() {
    let mut found = BTreeSet::new();
    list(&Path::new(env!("CARGO_MANIFEST_DIR")).join("assets"), "", &mut found);
    found.retain(|name| !UNSERVED.iter().any(|ending| name.ends_with(ending)) && !name.contains("LICENSE"));
    found.retain(|name| !name.ends_with("jsconfig.json") && !name.ends_with("tsconfig.json"));
    let served: BTreeSet<String> = ASSETS.iter().map(|asset| asset.path.to_owned()).collect();
    assert_eq!(served, found);
    assert!(ASSETS.iter().all(|asset| asset.content_type() != "application/octet-stream"));
    assert!(ASSETS.iter().map(|asset| asset.bytes.len()).sum::<usize>() < MOST_BYTES);
}

#[test]
fn pages_have_no_inline_script_or_style_and_load_nothing_from_elsewhere() {
    for asset in ASSETS.iter().filter(|asset| asset.path.ends_with(".html")) {
        let text = std::str::from_utf8(asset.bytes).expect("text");
        assert!(!text.contains("<style") && !text.contains(" style=") && !text.contains(" onclick="), "{}", asset.path);
        assert!(!text.contains("http://") && !text.contains("https://"), "{}", asset.path);
        let scripts = text.matches("<script").count();
        assert_eq!(scripts, text.matches("<script type=\"module\" src=").count(), "{}", asset.path);
    }
}

async fn ask(method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, String) {
    let router = serve(Router::new().route("/", get(async || "a gateway")));
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let Ok(response) = router.oneshot(request.body(Body::empty()).expect("a request")).await;
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.expect("a body");
    (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn a_browser_gets_the_console_and_others_what_was_there_before() {
    let page = [("accept", "text/html,application/xhtml+xml")];
    let (status, headers, _) = ask("GET", "/", &page).await;
    assert_eq!((status, headers["location"].to_str().ok()), (307, Some("/console/")));
    assert_eq!(ask("GET", "/", &[]).await.2, "a gateway");
    assert_eq!(ask("GET", "/console", &[]).await.0, 307);
    let (status, headers, text) = ask("GET", "/console/", &page).await;
    assert_eq!((status, headers["content-type"].to_str().ok()), (200, Some("text/html; charset=utf-8")));
    assert!(text.starts_with("<!doctype html>") || text.starts_with("<!DOCTYPE html>"), "{text}");
    assert_eq!(ask("GET", "/elsewhere", &page).await.0, 404);
}

#[tokio::test]
async fn every_response_is_confined() {
    for path in ["/console/", "/console/index.html", "/console/missing.js", "/console/../Cargo.toml"] {
        let (_, headers, _) = ask("GET", path, &[]).await;
        let policy = headers["content-security-policy"].to_str().expect("text");
        assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["referrer-policy"], "no-referrer");
    }
    assert_eq!(ask("GET", "/console/../Cargo.toml", &[]).await.0, 404);
    assert_eq!(ask("POST", "/console/index.html", &[]).await.0, 405);
}

#[tokio::test]
async fn a_known_file_is_not_sent_again() {
    let (_, headers, _) = ask("GET", "/console/console.css", &[]).await;
    let tag = headers["etag"].to_str().expect("text").to_owned();
    for known in [tag.clone(), format!("\"other\", W/{tag}")] {
        let (status, headers, body) = ask("GET", "/console/console.css", &[("if-none-match", &known)]).await;
        assert_eq!((status, headers["etag"].to_str().ok(), body.len()), (304, Some(tag.as_str()), 0));
    }
    assert_eq!(ask("GET", "/console/console.css", &[("if-none-match", "\"other\"")]).await.0, 200);
    let (status, _, body) = ask("HEAD", "/console/console.css", &[]).await;
    assert_eq!((status, body.len()), (200, 0));
}

#[tokio::test]
async fn every_reference_of_the_description_exists() {
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let description: Value = serde_json::from_str(&ask("GET", "/console/openapi.json", &[]).await.2).expect("JSON");
    let mut found = BTreeSet::new();
    references(&description, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("a place in this file");
        assert!(description.pointer(pointer).is_some(), "{reference}");
    }
}
