//! Entry points to private parsers for the fuzz targets.

use std::path::PathBuf;

use pegboard_config::{document::Problems, keys::Lookup};
use pegboard_upstream::config::ServerConfig;
use serde_json::Value;

use crate::{
    clients::{Client, config_files, edit, read},
    config,
};

/// Parses a configuration: its servers and its mistakes.
pub fn configuration(text: &str, env: Lookup<'_>) -> (Vec<ServerConfig>, Problems) {
    let (config, problems) = config::parse(text, env);
    (config.servers, problems)
}

/// The servers of a client's file, and its warnings.
#[derive(Debug, PartialEq)]
pub struct Imported {
    /// Servers by name, or the reason why an entry cannot be converted.
    pub servers: Vec<(String, Result<Value, String>)>,
    /// Mistakes that did not prevent reading the rest.
    pub warnings: Vec<String>,
}

/// A file of a client.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    client: Client,
    text: &'a str,
}

impl<'a> File<'a> {
    /// Returns `text` as the file of a client; the client number wraps around.
    pub fn new(client: usize, text: &'a str) -> Self {
        Self { client: Client::ALL[client % Client::ALL.len()], text }
    }

    /// Returns another text of the same client.
    pub fn with<'b>(&self, text: &'b str) -> File<'b> {
        File { client: self.client, text }
    }

    /// Returns the text of the file.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the servers of the file.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    pub fn import(&self, project: Option<&str>) -> Result<Imported, String> {
        let place = config_files::ConfigLocation {
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

    /// Returns the text with `value` as a server.
    ///
    /// # Errors
    /// The reason why the file cannot be changed.
    pub fn set(&self, name: &str, value: &Value) -> Result<String, String> {
        let keys = config_files::keys_of(self.client);
        edit::set(self.text, self.client.syntax(), keys, name, value).map_err(|error| error.to_string())
    }

    /// Returns the text without a server.
    ///
    /// # Errors
    /// The reason why the file cannot be changed.
    pub fn remove(&self, name: &str) -> Result<String, String> {
        let keys = config_files::keys_of(self.client);
        edit::remove(self.text, self.client.syntax(), keys, name).map_err(|error| error.to_string())
    }

    /// Returns the value of the file without comments.
    ///
    /// # Errors
    /// The reason why the file cannot be parsed.
    pub fn value(&self) -> Result<Value, String> {
        let value = match self.client.syntax() {
            crate::clients::Syntax::Json => edit::json::to_json(self.text),
            crate::clients::Syntax::Toml => edit::toml::to_json(self.text),
        };
        value.map_err(|error| error.to_string())
    }

    /// Returns the key under which the client keeps its servers.
    pub fn servers_key(&self) -> &'static str {
        self.client.servers_key()
    }
}
