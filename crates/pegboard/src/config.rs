//! The configuration file: JSON with comments, the `mcpServers` object that every MCP
//! client has, and a `pegboard` section.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::Value;

use crate::{catalogs::read_bounded, error::CliError, rankers::RankerName};

/// More than any hand-written configuration.
const MAX_BYTES: usize = 4 << 20;

/// What a search takes from the configuration.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Config {
    /// `pegboard.catalogs`, relative to the file that names them.
    pub(crate) catalogs: Vec<PathBuf>,
    /// `pegboard.ranker`.
    pub(crate) ranker: Option<RankerName>,
    /// `pegboard.limit`.
    pub(crate) limit: Option<usize>,
    /// `searchThreshold` of an enabled `tool_search` middleware.
    pub(crate) threshold: Option<f64>,
    /// How many MCP servers the file configures.
    pub(crate) servers: usize,
}

/// Reads a configuration; all that is wrong with it is reported at once.
pub(crate) fn read(path: &Path) -> Result<Config, CliError> {
    let bytes = read_bounded(path, MAX_BYTES)?;
    if bytes.len() > MAX_BYTES {
        return Err(CliError::new(format!("`{}` is larger than {MAX_BYTES} bytes", path.display())));
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| CliError::new(format!("`{}` is not UTF-8", path.display())).because(error))?;
    let (mut config, problems) = parse(&text).map_err(|error| {
        CliError::new(format!("`{}` is not JSON (comments are fine)", path.display())).because(error)
    })?;
    if !problems.is_empty() {
        let problems = problems.join("\n  ");
        return Err(CliError::new(format!("`{}` has mistakes:\n  {problems}", path.display())));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    config.catalogs.iter_mut().for_each(|catalog| *catalog = folder.join(&*catalog));
    Ok(config)
}

/// The configuration in `text`, and the mistakes in it.
pub(crate) fn parse(text: &str) -> Result<(Config, Vec<String>), jsonc_parser::errors::ParseError> {
    let value: Value = jsonc_parser::parse_to_serde_value(text, &jsonc_parser::ParseOptions::default())?;
    let mut reader = Reader::default();
    reader.read(&value);
    Ok((reader.config, reader.problems))
}

#[derive(Default)]
struct Reader {
    config: Config,
    problems: Vec<String>,
}

impl Reader {
    fn read(&mut self, value: &Value) {
        let Some(root) = value.as_object() else {
            self.problems.push("an object is expected".into());
            return;
        };
        match root.get("mcpServers") {
            None => {}
            Some(Value::Object(servers)) => self.config.servers = servers.len(),
            Some(_) => self.problems.push("`mcpServers` must be an object".into()),
        }
        match root.get("pegboard") {
            None => {}
            Some(Value::Object(section)) => section.iter().for_each(|(key, value)| self.setting(key, value)),
            Some(_) => self.problems.push("`pegboard` must be an object".into()),
        }
        for middleware in root.get("middleware").and_then(Value::as_array).into_iter().flatten() {
            let is_search = middleware.get("type").and_then(Value::as_str) == Some("tool_search");
            let is_enabled = middleware.get("enabled").and_then(Value::as_bool) != Some(false);
            let threshold = middleware.get("config").and_then(|config| config.get("searchThreshold"));
            if let (true, Some(threshold)) = (is_search && is_enabled, threshold) {
                self.config.threshold = threshold.as_f64().filter(|share| (0.0..=1.0).contains(share));
                if self.config.threshold.is_none() {
                    self.problems.push("`searchThreshold` must be a number from 0 to 1".into());
                }
            }
        }
    }

    fn setting(&mut self, key: &str, value: &Value) {
        let understood = match key {
            "catalogs" => {
                strings(value).map(|files| self.config.catalogs = files.into_iter().map(PathBuf::from).collect())
            }
            "ranker" => {
                let name = value.as_str().and_then(|name| RankerName::from_str(name, false).ok());
                name.map(|name| self.config.ranker = Some(name))
            }
            "limit" => {
                let limit = value.as_u64().and_then(|limit| usize::try_from(limit).ok());
                limit.map(|limit| self.config.limit = Some(limit))
            }
            _ => {
                self.problems.push(format!("`pegboard.{key}` is not a setting"));
                return;
            }
        };
        if understood.is_none() {
            let expected = match key {
                "catalogs" => "a list of file names",
                "ranker" => "the name of a ranker",
                _ => "a whole number",
            };
            self.problems.push(format!("`pegboard.{key}` must be {expected}"));
        }
    }
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_fine() {
        let (config, problems) = parse("{/* a */ \"pegboard\": {\"limit\": 3,}, // b\n}").expect("JSON");
        assert_eq!((config.limit, problems), (Some(3), Vec::new()));
    }

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_an_error(text in ".{0,80}") {
            let _ = parse(&text);
        }

        #[test]
        fn any_json_like_text_is_a_configuration_or_an_error(
            text in r#"[\[\]{}":,a-z0-9 /*\n]{0,40}("mcpServers"|"pegboard"|"limit"|"catalogs")?[\[\]{}":,a-z0-9\n]{0,40}"#
        ) {
            let _ = parse(&text);
        }
    }
}
