//! The configuration file, as the console shows and edits it.

use pegboard_config::document::{Document, Node, Problems};
use pegboard_gateway::control::host::{
    ConfigurationFile, ConfigurationProblem, ConfigurationView, HostError, HostErrorKind, SettingView,
};
use serde_json::Value;

use super::host_error;
use crate::{
    commands::{
        doctor::{self, Mask},
        servers,
    },
    config,
    source::Source,
};

/// Stands for a secret.
const SECRET: &str = "••••••";

/// Maximum number of shown values.
const MAX_SETTINGS: usize = 5000;

/// How deep values are shown one by one.
const MAX_DEPTH: usize = 20;

/// Objects whose values are given to servers.
const GIVEN: [&str; 2] = ["env", "headers"];

/// Keys whose values are secrets.
const SECRET_KEYS: [&str; 4] = ["token", "clientSecret", "apiKey", "password"];

/// The configuration file of a running gateway.
#[derive(Debug)]
pub(super) struct EditedFile {
    pub(super) source: Source,
    pub(super) state: Option<String>,
}

impl ConfigurationFile for EditedFile {
    fn read(&self) -> Result<ConfigurationView, HostError> {
        let missing = || HostError::new(HostErrorKind::NotFound, "this gateway has no configuration file", None);
        let path = self.source.path().ok_or_else(missing)?;
        let file = doctor::masked_file(path).map_err(|error| host_error(HostErrorKind::Rejected, &error))?;
        let problems = file.problems.iter().map(|problem| ConfigurationProblem {
            message: problem.to_string(),
            line: Some(problem.line),
            hint: problem.hint.clone(),
            severity: "error",
        });
        let mut ignored = Problems::default();
        let document = Document::parse(&file.text, &mut ignored);
        let mut settings = Vec::new();
        if let Some(document) = &document {
            collect(&document.root(), Place::default(), &file.mask, &mut settings);
        }
        let unset = unset_defaults(&settings);
        settings.extend(unset);
        // Secrets are known by their values; what stands at a secret place is hidden in the text as well.
        let text = secret_texts(document.as_ref())
            .into_iter()
            .fold(file.mask.hide(&file.text, SECRET), |text, secret| text.replace(&secret, SECRET));
        Ok(ConfigurationView {
            file: Some(self.path()),
            text: Some(text),
            settings,
            problems: problems.collect(),
            refused: None,
        })
    }

    fn switch(&self, server: &str, is_on: bool) -> Result<(), HostError> {
        servers::switch_server(&self.source, self.state.as_deref(), server, is_on)
            .map_err(|error| host_error(HostErrorKind::Rejected, &error))
    }

    fn hide_tools(&self, server: &str, tools: &[String]) -> Result<(), HostError> {
        servers::hide_tools(&self.source, self.state.as_deref(), server, tools)
            .map_err(|error| host_error(HostErrorKind::Rejected, &error))
    }

    fn path(&self) -> String {
        self.source.path().map(|path| path.display().to_string()).unwrap_or_default()
    }
}

/// Where a value is.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    depth: usize,
    /// Whether its values are given to a server.
    is_given: bool,
}

impl Place {
    fn below(self, node: &Node<'_>) -> Self {
        Self { depth: self.depth + 1, is_given: self.is_given || GIVEN.contains(&node.key()) }
    }

    /// Returns whether a value here is a secret: it is one by its key, or it is given to a server and
    /// is not only a variable.
    fn is_secret(self, node: &Node<'_>) -> bool {
        let value = node.to_json();
        let text = value.as_str().unwrap_or_default();
        let is_variable = text.starts_with("${") && text.ends_with('}') && !text.contains(":-");
        !is_variable && !text.is_empty() && (self.is_given || SECRET_KEYS.contains(&node.key()))
    }
}

fn children<'a>(node: &Node<'a>) -> Vec<Node<'a>> {
    if node.is_list() { node.items() } else { node.entries(&mut Problems::default()) }
}

/// Collects the values of a file with their places.
fn collect(node: &Node<'_>, place: Place, mask: &Mask, settings: &mut Vec<SettingView>) {
    let has_children = node.is_object() || node.is_list();
    if has_children && place.depth < MAX_DEPTH {
        for child in children(node) {
            let below = place.below(node);
            collect(&child, below, mask, settings);
        }
        return;
    }
    if settings.len() >= MAX_SETTINGS {
        return;
    }
    let value = node.to_json();
    let shown = match &value {
        _ if place.is_secret(node) => Value::String(SECRET.to_owned()),
        Value::String(text) => Value::String(mask.hide(text, SECRET)),
        Value::Object(_) | Value::Array(_) => Value::String("…".to_owned()),
        other => other.clone(),
    };
    settings.push(SettingView {
        path: node.path().to_owned(),
        is_secret: shown.as_str().is_some_and(|text| text.contains(SECRET)),
        value: shown,
        is_default: false,
        line: Some(node.line()),
    });
}

/// Returns the defaults of the settings that the file does not set, not even in part.
fn unset_defaults(set: &[SettingView]) -> Vec<SettingView> {
    let is_part = |path: &str, of: &str| {
        path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let defaults = config::defaults().into_iter();
    let unset = defaults.filter(|(path, _)| !set.iter().any(|setting| is_part(&setting.path, path)));
    let view = |(path, value)| SettingView { path, value, is_secret: false, is_default: true, line: None };
    unset.map(view).collect()
}

/// Returns the texts at secret places, longest first.
fn secret_texts(document: Option<&Document<'_>>) -> Vec<String> {
    fn find(node: &Node<'_>, place: Place, found: &mut Vec<String>) {
        if (node.is_object() || node.is_list()) && place.depth < MAX_DEPTH {
            children(node).iter().for_each(|child| find(child, place.below(node), found));
        } else if place.is_secret(node)
            && let Value::String(text) = node.to_json()
        {
            found.push(text);
        }
    }
    let mut found = Vec::new();
    if let Some(document) = document {
        find(&document.root(), Place::default(), &mut found);
    }
    found.sort_by_key(|text| std::cmp::Reverse(text.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_places_are_shown() {
        let text = r#"{
  "mcpServers": {"a": {"command": "run", "env": {"KEY": "hunter2-long", "HOME": "${HOME}"}}},
  "pegboard": {"tokens": [{"name": "me", "token": "0123456789abcdef"}]}
}"#;
        let path = std::env::temp_dir().join(format!("pegboard-console-{}.json", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        let view = EditedFile { source: Source::Named(path.clone()), state: None }.read().expect("a view");
        std::fs::remove_file(path).expect("a file");
        let shown = view.text.expect("a text");
        assert!(!shown.contains("hunter2") && !shown.contains("0123456789abcdef"), "{shown}");
        assert!(shown.contains("${HOME}") && shown.contains("\"run\""), "{shown}");
        let found: Vec<String> = view
            .settings
            .iter()
            .filter(|setting| !setting.is_default)
            .map(|setting| format!("{} {} {:?} {}", setting.path, setting.value, setting.line, setting.is_secret))
            .collect();
        assert_eq!(
            found,
            [
                "mcpServers.a.command \"run\" Some(2) false",
                "mcpServers.a.env.KEY \"••••••\" Some(2) true",
                "mcpServers.a.env.HOME \"${HOME}\" Some(2) false",
                "pegboard.tokens[0].name \"me\" Some(3) false",
                "pegboard.tokens[0].token \"••••••\" Some(3) true",
            ]
        );
        let defaults: Vec<&str> =
            view.settings.iter().filter(|setting| setting.is_default).map(|setting| setting.path.as_str()).collect();
        assert!(defaults.contains(&"pegboard.catalogs"), "{defaults:?}");
        assert!(!defaults.contains(&"pegboard.tokens"), "the file sets it");
    }
}
