//! The configuration file, as the console shows and edits it.

use std::ops::Range;

use pegboard_config::document::{Document, Node, Problems};
use pegboard_gateway::control::host::{
    ConfigurationFile, ConfigurationProblem, ConfigurationView, HostError, HostErrorKind, SettingView,
};
use pegboard_upstream::SecretFilter;
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
        // Positions do not count a byte order mark.
        let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
        let document = Document::parse(text, &mut Problems::default());
        let secrets = document.as_ref().map(|document| SecretPlaces::of(&document.root())).unwrap_or_default();
        let hidden = Hidden { mask: file.mask, repeated: SecretFilter::new(secrets.texts) };
        let mut settings = Vec::new();
        if let Some(document) = &document {
            collect(&document.root(), Place::default(), &hidden, &mut settings);
        }
        let unset = unset_defaults(&settings);
        settings.extend(unset);
        // Where the secrets are is not known in a file that cannot be parsed.
        let text = document.is_some().then(|| hidden.hide(&without_ranges(text, secrets.ranges)));
        Ok(ConfigurationView { file: Some(self.path()), text, settings, problems: problems.collect(), refused: None })
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
        let is_shown = match &value {
            Value::Null => true,
            Value::String(text) => {
                let is_variable = text.starts_with("${") && text.ends_with('}') && !text.contains(":-");
                is_variable || text.is_empty()
            }
            _ => false,
        };
        !is_shown && (self.is_given || SECRET_KEYS.contains(&node.key()))
    }
}

/// Secrets to hide.
struct Hidden {
    /// Secrets that are known by their values.
    mask: Mask,
    /// What stands at a secret place, in case it is repeated elsewhere.
    repeated: SecretFilter,
}

impl Hidden {
    fn hide(&self, text: &str) -> String {
        self.repeated.replace(&self.mask.hide(text, SECRET), SECRET).into_owned()
    }
}

/// The values at secret places.
#[derive(Default)]
struct SecretPlaces {
    /// Where they are in the text, in its order.
    ranges: Vec<Range<usize>>,
    texts: Vec<String>,
}

impl SecretPlaces {
    fn of(root: &Node<'_>) -> Self {
        let mut places = Self::default();
        places.find(root, Place::default());
        places
    }

    fn find(&mut self, node: &Node<'_>, place: Place) {
        let has_children = node.is_object() || node.is_list();
        if has_children && place.depth < MAX_DEPTH {
            node.children().iter().for_each(|child| self.find(child, place.below(node)));
        } else if has_children || place.is_secret(node) {
            // Deeper values are not inspected and are hidden whole.
            self.ranges.push(node.range());
            if let Value::String(text) = node.to_json() {
                let token = text.split_once(' ').map(|(_, token)| token.trim().to_owned());
                self.texts.extend(token.into_iter().chain([text]));
            }
        }
    }
}

/// Returns the text with the values at `ranges` hidden. Its lines keep their numbers.
fn without_ranges(text: &str, ranges: Vec<Range<usize>>) -> String {
    let (mut shown, mut read) = (String::with_capacity(text.len()), 0);
    for range in ranges {
        let lines = text[range.clone()].matches('\n').count();
        shown += &text[read..range.start];
        shown += &format!("\"{SECRET}\"{}", "\n".repeat(lines));
        read = range.end;
    }
    shown + &text[read..]
}

fn children<'a>(node: &Node<'a>) -> Vec<Node<'a>> {
    if node.is_list() { node.items() } else { node.entries(&mut Problems::default()) }
}

/// Collects the values of a file with their places.
fn collect(node: &Node<'_>, place: Place, hidden: &Hidden, settings: &mut Vec<SettingView>) {
    let has_children = node.is_object() || node.is_list();
    if has_children && place.depth < MAX_DEPTH {
        for child in children(node) {
            collect(&child, place.below(node), hidden, settings);
        }
        return;
    }
    if settings.len() >= MAX_SETTINGS {
        return;
    }
    let value = node.to_json();
    let shown = match &value {
        _ if place.is_secret(node) => Value::String(SECRET.to_owned()),
        Value::String(text) => Value::String(hidden.hide(text)),
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

    /// Returns the text of a file as the console shows it.
    fn shown(name: &str, text: &str) -> Option<String> {
        let path = std::env::temp_dir().join(format!("pegboard-console-{name}-{}.json", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        let view = EditedFile { source: Source::Named(path.clone()), state: None }.read().expect("a view");
        std::fs::remove_file(path).expect("a file");
        view.text
    }

    #[test]
    fn short_values_are_hidden_where_they_stand_and_nowhere_else() {
        let text = r#"{
  // Version 1 of 11.
  "mcpServers": {"a1": {"command": "run1", "env": {"DEBUG": "1", "LEVEL": "e", "PIN": 1234}}},
  "pegboard": {"port": 8181}
}"#;
        let expected = text.replace("\"1\"", "\"••••••\"").replace("\"e\"", "\"••••••\"").replace("1234", "\"••••••\"");
        assert_eq!(shown("short", text), Some(expected));
    }

    #[test]
    fn secrets_are_hidden_wherever_they_are_repeated() {
        let text = "\u{feff}{\n  // The old one: hunter2-long\n  \"mcpServers\": {\"a\": {\"command\": \"run\", \
                    \"args\": [\"--key=hunter2-long\"], \"env\": {\"KEY\": \"first-secret\", \"KEY\": \"second-secret\", \
                    \"HEADER\": \"Bearer hunter2-long\", \"ESCAPED\": \"quoted\\\"secret\"}}}}";
        let shown = shown("repeated", text).expect("a text");
        for secret in ["hunter2", "first-secret", "second-secret", "Bearer", "quoted"] {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
        assert_eq!(shown.lines().count(), text.lines().count());
        assert!(shown.contains("The old one: ••••••"), "{shown}");
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_not_shown() {
        let text = "{\"mcpServers\": {\"a\": {\"env\": {\"KEY\": \"hunter2-long\"";
        assert_eq!(shown("broken", text), None);
    }

    #[test]
    fn hidden_values_leave_the_lines_where_they_are() {
        let check = |text: &str, hidden: &[Range<usize>], expected: &str| {
            assert_eq!(without_ranges(text, hidden.to_vec()), expected);
        };
        check("a [\n1,\n2] b, c", &[2..9, 13..14], "a \"••••••\"\n\n b, \"••••••\"");
        check("é x, y", &[3..4, 6..7], "é \"••••••\", \"••••••\"");
        check("a", &[], "a");
    }
}
