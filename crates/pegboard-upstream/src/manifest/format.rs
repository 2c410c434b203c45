//! How a manifest is written.
//!
//! A [sealed](crate::state::sealed) file of JSON:
//!
//! ```text
//! {"era":…,"version":…,…,"tools":[{"key":…,"raw":{…}},…],…}
//! ```
//!
//! Definitions are kept as they came, with the key that was read out of each, so that
//! nothing of them is taken apart again before it is needed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Fingerprint, Manifest, ReadError};
use crate::{
    era::Era,
    handshake::Hello,
    json::{Fields, Raw},
    listing::{Item, Lists},
    state::{
        Key, Seal,
        sealed::{Broken, Kind},
    },
};

/// The version grows with every change of the format, and of what is done to lists before they
/// are kept.
const KIND: Kind = Kind { name: "pegboard-manifest", version: 2 };

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    era: WrittenEra,
    version: String,
    capabilities: Fields,
    server_info: Option<Raw>,
    instructions: Option<String>,
    tools: Vec<Entry>,
    prompts: Vec<Entry>,
    resources: Vec<Entry>,
    templates: Vec<Entry>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum WrittenEra {
    Legacy,
    Modern,
}

#[derive(Deserialize, Serialize)]
struct Entry {
    key: String,
    raw: Raw,
}

/// The file of a manifest, and its seal.
pub(super) fn encode(manifest: &Manifest, fingerprint: &Fingerprint, key: &Key) -> (Vec<u8>, Seal) {
    let Manifest { hello, lists } = manifest;
    let entries = |items: &[Item]| -> Vec<Entry> {
        items.iter().map(|item| Entry { key: item.key.clone(), raw: item.raw.clone() }).collect()
    };
    let body = Body {
        era: match hello.era {
            Era::Legacy => WrittenEra::Legacy,
            Era::Modern => WrittenEra::Modern,
        },
        version: hello.version.clone(),
        capabilities: hello.capabilities.clone(),
        server_info: hello.server_info.clone(),
        instructions: hello.instructions.clone(),
        tools: entries(&lists.offered),
        prompts: entries(&lists.prompts),
        resources: entries(&lists.resources),
        templates: entries(&lists.templates),
    };
    KIND.seal(crate::json::raw(&body).get(), fingerprint.as_bytes(), key)
}

/// The manifest in a file, if it is whole and was made here for this fingerprint.
pub(super) fn decode(bytes: &[u8], fingerprint: &Fingerprint, key: &Key) -> Result<(Manifest, Seal), ReadError> {
    let (body, seal) = KIND.open(bytes, fingerprint.as_bytes(), key).map_err(|broken| match broken {
        Broken::Version => ReadError::Version,
        Broken::Seal => ReadError::Seal,
    })?;
    let body: Body = serde_json::from_slice(body).map_err(ReadError::Content)?;
    let items = |entries: Vec<Entry>| -> Arc<Vec<Item>> {
        Arc::new(entries.into_iter().map(|Entry { key, raw }| Item { key, raw }).collect())
    };
    let hello = Hello {
        era: match body.era {
            WrittenEra::Legacy => Era::Legacy,
            WrittenEra::Modern => Era::Modern,
        },
        version: body.version,
        capabilities: body.capabilities,
        server_info: body.server_info,
        instructions: body.instructions,
    };
    let tools = items(body.tools);
    let lists = Lists {
        offered: Arc::clone(&tools),
        tools,
        prompts: items(body.prompts),
        resources: items(body.resources),
        templates: items(body.templates),
        ..Lists::default()
    };
    Ok((Manifest { hello, lists }, seal))
}
