//! Parsers of this crate, for the fuzz targets alone.

use std::path::PathBuf;

use pegboard_config::{document::Problems, keys::Lookup};
use pegboard_upstream::config::ServerConfig;
use serde_json::Value;

use crate::{
    clients::{Client, config_files, edit, read},
    config,
};

/// The servers of a configuration, and what is wrong with it.
pub fn configuration(text: &str, env: Lookup<'_>) -> (Vec<ServerConfig>, Problems) {
    let (config, problems) = config::parse(text, env);
    (config.servers, problems)
}

/// What a client's file holds: servers in our words, and what is said of the rest.
#[derive(Debug, PartialEq)]
pub struct Imported {
    /// Servers by name, or why one is none.
    pub servers: Vec<(String, Result<Value, String>)>,
    /// Slips.
    pub warnings: Vec<String>,
}

/// A client's file, by the number of the client.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    client: Client,
    text: &'a str,
}

impl<'a> File<'a> {
    /// `text` as the file of a client; the numbers go round.
    pub fn new(client: usize, text: &'a str) -> Self {
        Self { client: Client::ALL[client % Client::ALL.len()], text }
    }

    /// Another text of the same client.
    pub fn with<'b>(&self, text: &'b str) -> File<'b> {
        File { client: self.client, text }
    }

    /// Its text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Its servers.
    ///
    /// # Errors
    /// Why it says nothing to us, in words.
    pub fn import(&self, project: Option<&str>) -> Result<Imported, String> {
        let place = config_files::Place {
            client: self.client,
            path: PathBuf::new(),
            project: project.map(PathBuf::from),
            keys: config_files::keys_of(self.client),
        };
        let content = read::content(self.text, &place).map_err(|error| error.to_string())?;
        let servers = content.entries.into_iter();
        let servers = servers.map(|entry| (entry.name, entry.server.map(|server| server.to_json()))).collect();
        Ok(Imported { servers, warnings: content.warnings })
    }

    /// Its text with `value` as a server.
    ///
    /// # Errors
    /// Why it cannot be changed, in words.
    pub fn set(&self, name: &str, value: &Value) -> Result<String, String> {
        let keys = config_files::keys_of(self.client);
        edit::set(self.text, self.client.syntax(), keys, name, value).map_err(|error| error.to_string())
    }

    /// Its text without a server.
    ///
    /// # Errors
    /// Why it cannot be changed, in words.
    pub fn remove(&self, name: &str) -> Result<String, String> {
        let keys = config_files::keys_of(self.client);
        edit::remove(self.text, self.client.syntax(), keys, name).map_err(|error| error.to_string())
    }

    /// All that it says, comments left out.
    ///
    /// # Errors
    /// Why it says nothing, in words.
    pub fn value(&self) -> Result<Value, String> {
        let value = match self.client.syntax() {
            crate::clients::Syntax::Json => edit::json::to_json(self.text),
            crate::clients::Syntax::Toml => edit::toml::to_json(self.text),
        };
        value.map_err(|error| error.to_string())
    }

    /// The key under which the client keeps its servers.
    pub fn servers_key(&self) -> &'static str {
        self.client.servers_key()
    }
}
