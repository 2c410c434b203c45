//! The file format of manifests.
//!
//! The first line names the format and has a seal of the rest, which is JSON:
//!
//! ```text
//! pegboard-manifest VERSION SEAL
//! {"era":…,"version":…,…,"tools":[{"key":…,"raw":{…}},…],…}
//! ```
//!
//! Definitions are stored unchanged, each with its key, so that none of them is parsed before it
//! is needed.

use std::{borrow::Cow, sync::Arc};

use pegboard_mcp::{
    era::Era,
    json::{Fields, Raw},
};
use pegboard_state::{BYTES, Key, digest};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Fingerprint, Manifest, ReadError};
use crate::{
    capabilities::Capabilities,
    handshake::Hello,
    listing::{Item, Lists},
};

/// First word of every file.
const MAGIC: &str = "pegboard-manifest";

/// Version of the format and of the processing of lists before they are stored.
const VERSION: u32 = 4;

/// The oldest version that is still read. Version 2 does not say whether a server asks, version 3 not what was declared.
const OLDEST: u32 = 2;

/// A signature that binds a content to a configuration and an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal([u8; BYTES]);

impl Seal {
    fn of(version: u32, body: &[u8], fingerprint: &Fingerprint, key: &Key) -> Self {
        let digest = digest(body);
        Self(key.sign("seal", [version.to_le_bytes().as_slice(), fingerprint.as_bytes(), &digest]))
    }

    fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    era: StoredEra,
    version: String,
    capabilities: Fields,
    server_info: Option<Raw>,
    instructions: Option<String>,
    #[serde(default)]
    asks: bool,
    #[serde(default)]
    declared: Option<Vec<Cow<'a, str>>>,
    #[serde(borrow)]
    tools: Vec<Entry<'a>>,
    prompts: Vec<Entry<'a>>,
    resources: Vec<Entry<'a>>,
    templates: Vec<Entry<'a>>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum StoredEra {
    Legacy,
    Modern,
}

#[derive(Deserialize, Serialize)]
struct Entry<'a> {
    key: Cow<'a, str>,
    #[serde(borrow)]
    raw: &'a RawValue,
}

/// Returns the file of a manifest, and its seal.
pub(super) fn encode(manifest: &Manifest, fingerprint: &Fingerprint, key: &Key) -> (Vec<u8>, Seal) {
    let Manifest { hello, lists, asks, declared } = manifest;
    let body = Body {
        era: match hello.era {
            Era::Legacy => StoredEra::Legacy,
            Era::Modern => StoredEra::Modern,
        },
        version: hello.version.clone(),
        capabilities: hello.capabilities.clone(),
        server_info: hello.server_info.clone(),
        instructions: hello.instructions.clone(),
        asks: *asks,
        declared: declared.map(|declared| declared.names().map(Cow::from).collect()),
        tools: to_entries(&lists.offered),
        prompts: to_entries(&lists.prompts),
        resources: to_entries(&lists.resources),
        templates: to_entries(&lists.templates),
    };
    let body = pegboard_mcp::json::raw(&body);
    let seal = Seal::of(VERSION, body.get().as_bytes(), fingerprint, key);
    (format!("{MAGIC} {VERSION} {}\n{}", seal.to_hex(), body.get()).into_bytes(), seal)
}

fn to_entries(items: &[Item]) -> Vec<Entry<'_>> {
    items.iter().map(|item| Entry { key: item.key.as_str().into(), raw: &item.raw }).collect()
}

fn to_items(entries: Vec<Entry<'_>>) -> Arc<Vec<Item>> {
    let item = |Entry { key, raw }: Entry<'_>| Item { key: key.into_owned(), raw: raw.to_owned().into() };
    Arc::new(entries.into_iter().map(item).collect())
}

/// Returns the manifest in a file, if its seal is valid for this fingerprint and installation.
pub(super) fn decode(bytes: &[u8], fingerprint: &Fingerprint, key: &Key) -> Result<(Manifest, Seal), ReadError> {
    let line = bytes.iter().take(MAX_LINE).position(|byte| *byte == b'\n').ok_or(ReadError::Version)?;
    let (line, body) = (String::from_utf8_lossy(&bytes[..line]), &bytes[line + 1..]);
    let (version, sealed) = version_and_seal(&line).ok_or(ReadError::Version)?;
    let seal = Seal::of(version, body, fingerprint, key);
    if seal.to_hex() != sealed {
        return Err(ReadError::Seal);
    }
    let body: Body = serde_json::from_slice(body).map_err(ReadError::Content)?;
    let hello = Hello {
        era: match body.era {
            StoredEra::Legacy => Era::Legacy,
            StoredEra::Modern => Era::Modern,
        },
        version: body.version,
        capabilities: body.capabilities,
        server_info: body.server_info,
        instructions: body.instructions,
    };
    let tools = to_items(body.tools);
    let lists = Lists {
        offered: Arc::clone(&tools),
        tools,
        prompts: to_items(body.prompts),
        resources: to_items(body.resources),
        templates: to_items(body.templates),
        ..Lists::default()
    };
    let declared = body.declared.map(|names| Capabilities::named(names.iter().map(AsRef::as_ref)));
    Ok((Manifest { hello, lists, asks: body.asks, declared }, seal))
}

/// The file of a manifest as version 2 wrote it.
#[cfg(test)]
pub(super) fn encode_older(manifest: &Manifest, fingerprint: &Fingerprint, key: &Key) -> Vec<u8> {
    let (file, _) = encode(manifest, fingerprint, key);
    let text = String::from_utf8(file).unwrap_or_default();
    let body = text
        .split_once('\n')
        .map(|(_, body)| body.replacen("\"asks\":true,\"declared\":[\"roots\"],", "", 1))
        .unwrap_or_default();
    let seal = Seal::of(OLDEST, body.as_bytes(), fingerprint, key).to_hex();
    format!("{MAGIC} {OLDEST} {seal}\n{body}").into_bytes()
}

/// Reads the first line of a file; `None` if this build does not read its version.
fn version_and_seal(line: &str) -> Option<(u32, &str)> {
    let (version, seal) = line.strip_prefix(MAGIC)?.strip_prefix(' ')?.split_once(' ')?;
    let version: u32 = version.parse().ok()?;
    (OLDEST..=VERSION).contains(&version).then_some((version, seal))
}

/// Returns a fixed key and fingerprint.
#[cfg(fuzzing)]
pub(super) fn fixed_key() -> (Key, Fingerprint) {
    let key = Key::fixed();
    let transport = crate::config::TransportConfig::Http {
        url: "http://localhost".to_owned(),
        headers: Vec::new(),
        kind: crate::config::HttpKind::Auto,
    };
    let config = crate::config::ServerConfig::new("always", transport);
    let fingerprint = Fingerprint::of(&config, &key).expect("a remote server has one");
    (key, fingerprint)
}

/// Returns `body` behind the line that seals it.
#[cfg(fuzzing)]
pub(super) fn seal_body(body: &[u8], fingerprint: &Fingerprint, key: &Key) -> Vec<u8> {
    let seal = Seal::of(VERSION, body, fingerprint, key).to_hex();
    [format!("{MAGIC} {VERSION} {seal}\n").as_bytes(), body].concat()
}

/// Maximum number of bytes of the first line.
const MAX_LINE: usize = 256;
