//! Programs that talk to an LLM API, and the settings that send them through `pegboard proxy`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    Client, Syntax,
    config_files::SystemEnvironment,
    edit::{self, EditError},
    hooks,
};

/// The address of the proxy unless another one is named.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8090";

/// A program whose base URL can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LlmProgram {
    ClaudeCode,
    Codex,
    Cline,
    Continue,
    Opencode,
    Aider,
}

impl LlmProgram {
    /// All programs, in the order in which they are listed.
    pub(crate) const ALL: [Self; 6] =
        [Self::ClaudeCode, Self::Codex, Self::Cline, Self::Continue, Self::Opencode, Self::Aider];

    /// Returns the program of an MCP client, if it has a base URL that reaches this machine.
    pub(crate) fn of_client(client: Client) -> Option<Self> {
        match client {
            Client::ClaudeCode => Some(Self::ClaudeCode),
            Client::Codex => Some(Self::Codex),
            _ => None,
        }
    }

    /// Returns the display name.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Cline => "Cline",
            Self::Continue => "Continue",
            Self::Opencode => "OpenCode",
            Self::Aider => "Aider",
        }
    }

    /// Returns the name on the command line.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Cline => "cline",
            Self::Continue => "continue",
            Self::Opencode => "opencode",
            Self::Aider => "aider",
        }
    }

    /// Returns the settings in the program's file, and the file; `None` if they are made elsewhere.
    pub(crate) fn file(self, surroundings: &SystemEnvironment<'_>) -> Option<PathBuf> {
        match self {
            Self::ClaudeCode => hooks::file(surroundings, None),
            Self::Codex => surroundings.user_file(Client::Codex),
            Self::Opencode => surroundings.opencode_file(),
            Self::Cline | Self::Continue | Self::Aider => None,
        }
    }

    /// Returns the syntax of the file.
    pub(crate) fn syntax(self) -> Syntax {
        if self == Self::Codex { Syntax::Toml } else { Syntax::Json }
    }

    /// Returns what the file needs for a proxy at `url`; nothing if there is no file that can be edited.
    pub(crate) fn settings(self, url: &str) -> Vec<LlmSetting> {
        let setting = |keys, name, value| LlmSetting { keys, name, value };
        match self {
            Self::ClaudeCode => vec![
                setting(&["env"], "ANTHROPIC_BASE_URL", json!(format!("{url}/anthropic"))),
                // Off by itself where the address is not Anthropic's own.
                setting(&["env"], "ENABLE_TOOL_SEARCH", json!("true")),
            ],
            Self::Codex => vec![
                setting(&[], "model_provider", json!("pegboard")),
                setting(
                    &["model_providers"],
                    "pegboard",
                    json!({
                        "name": "OpenAI through Pegboard",
                        "base_url": format!("{url}/openai/v1"),
                        "env_key": "OPENAI_API_KEY",
                        "wire_api": "responses",
                        // The proxy refuses WebSockets, and Codex would try them first.
                        "supports_websockets": false,
                    }),
                ),
            ],
            Self::Opencode => vec![
                setting(&["provider", "anthropic", "options"], "baseURL", json!(format!("{url}/anthropic/v1"))),
                setting(&["provider", "openai", "options"], "baseURL", json!(format!("{url}/openai/v1"))),
                setting(&["provider", "google", "options"], "baseURL", json!(format!("{url}/gemini/v1beta"))),
            ],
            Self::Cline | Self::Continue | Self::Aider => Vec::new(),
        }
    }

    /// Returns what a user has to do where [`settings`](Self::settings) has nothing: a text for a file or a terminal,
    /// and where it goes.
    pub(crate) fn instructions(self, url: &str) -> Option<(String, &'static str)> {
        match self {
            Self::Cline => Some((
                format!(
                    "API Provider: Anthropic          Use custom base URL: {url}/anthropic\n\
                     API Provider: OpenAI Compatible  Base URL:            {url}/openai/v1\n\
                     API Provider: Google Gemini      Use custom base URL: {url}/gemini\n"
                ),
                "enter the line of your provider in Cline's settings (API Configuration)",
            )),
            Self::Continue => Some((
                format!(
                    "models:\n  \
                       - name: Claude through Pegboard\n    \
                         provider: anthropic\n    \
                         model: claude-sonnet-5\n    \
                         apiBase: {url}/anthropic/v1\n    \
                         apiKey: ${{{{ secrets.ANTHROPIC_API_KEY }}}}\n  \
                       - name: GPT through Pegboard\n    \
                         provider: openai\n    \
                         model: gpt-5.4\n    \
                         apiBase: {url}/openai/v1\n    \
                         apiKey: ${{{{ secrets.OPENAI_API_KEY }}}}\n"
                ),
                "set `apiBase` of your models in `~/.continue/config.yaml` like this",
            )),
            Self::Aider => Some((
                format!("export OPENAI_API_BASE={url}/openai/v1\nexport ANTHROPIC_API_BASE={url}/anthropic\n"),
                "set these variables where you start Aider; it sends no tools, so its requests pass unchanged",
            )),
            Self::ClaudeCode | Self::Codex | Self::Opencode => None,
        }
    }

    /// Renders the settings as a user would write them into an empty file.
    pub(crate) fn render(self, url: &str) -> Result<String, EditError> {
        apply("", self.syntax(), &self.settings(url))
    }
}

/// One value in the file of a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LlmSetting {
    pub(crate) keys: &'static [&'static str],
    pub(crate) name: &'static str,
    pub(crate) value: Value,
}

impl LlmSetting {
    /// Returns whether the address of the proxy is in the value.
    fn has_address(&self) -> bool {
        let is_address = |value: &Value| value.as_str().is_some_and(|text| base_url(text).is_some());
        is_address(&self.value) || self.value.as_object().is_some_and(|map| map.values().any(is_address))
    }
}

/// Returns `text` with the settings.
pub(crate) fn apply(text: &str, syntax: Syntax, settings: &[LlmSetting]) -> Result<String, EditError> {
    settings.iter().try_fold(text.to_owned(), |text, setting| {
        let is_there = edit::get(&text, syntax, setting.keys, setting.name)?.as_ref() == Some(&setting.value);
        if is_there { Ok(text) } else { edit::set(&text, syntax, setting.keys, setting.name, &setting.value) }
    })
}

/// Returns `text` without the settings that are still as they were written, if one with the address of the proxy is
/// among them. A value that an earlier text of the file
/// had in place of one comes back; `earlier` are such texts, newest first.
pub(crate) fn revert(
    text: &str,
    syntax: Syntax,
    settings: &[LlmSetting],
    earlier: &[String],
) -> Result<String, EditError> {
    let is_there = |setting: &LlmSetting| {
        let current = edit::get(text, syntax, setting.keys, setting.name);
        current.map(|current| current.as_ref() == Some(&setting.value))
    };
    let addresses: Vec<bool> =
        settings.iter().filter(|setting| setting.has_address()).map(is_there).collect::<Result<_, _>>()?;
    if !addresses.contains(&true) {
        return Ok(text.to_owned());
    }
    settings.iter().try_fold(text.to_owned(), |text, setting| {
        let LlmSetting { keys, name, value } = setting;
        if edit::get(&text, syntax, keys, name)?.as_ref() != Some(value) {
            return Ok(text);
        }
        let value_then = |earlier: &String| edit::get(earlier, syntax, keys, name).ok();
        // The newest text in which the setting was another one, or none.
        let then = earlier.iter().filter_map(value_then).find(|then| then.as_ref() != Some(value)).flatten();
        match then {
            Some(then) => edit::set(&text, syntax, keys, name, &then),
            None => edit::remove(&text, syntax, keys, name),
        }
    })
}

/// Returns the base address of the proxy, without the path of a provider.
pub(crate) fn base_url(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let is_plain = !rest.is_empty() && !rest.starts_with('/') && !rest.contains(['?', '#', ' ', '"']);
    is_plain.then(|| url.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_and_go() {
        for program in [LlmProgram::ClaudeCode, LlmProgram::Codex, LlmProgram::Opencode] {
            let (syntax, settings) = (program.syntax(), program.settings(DEFAULT_URL));
            let before = match program {
                LlmProgram::ClaudeCode => {
                    "{\n  // mine\n  \"env\": {\"ANTHROPIC_BASE_URL\": \"https://a\", \"X\": \"y\"}\n}\n"
                }
                LlmProgram::Codex => {
                    "# mine\nmodel_provider = \"azure\" # theirs\nmodel = \"gpt\"\n\n[model_providers.azure]\nname = \"A\"\n"
                }
                _ => "{\"provider\": {\"openai\": {\"options\": {\"timeout\": 5}}}}\n",
            };
            let with = apply(before, syntax, &settings).expect("an edit");
            assert_eq!(apply(&with, syntax, &settings).expect("an edit"), with, "once");
            for setting in &settings {
                let there = edit::get(&with, syntax, setting.keys, setting.name).expect("a file");
                assert_eq!(there.as_ref(), Some(&setting.value));
            }
            let without = revert(&with, syntax, &settings, &[before.to_owned()]).expect("an edit");
            let value = |text: &str| match syntax {
                Syntax::Json => edit::json::to_json(text).expect("JSON"),
                Syntax::Toml => edit::toml::to_json(text).expect("TOML"),
            };
            for setting in &settings {
                let pointer = format!("/{}", [setting.keys, &[setting.name]].concat().join("/"));
                assert_eq!(value(&without).pointer(&pointer), value(before).pointer(&pointer), "{without}");
            }
            assert_eq!(without.contains("mine"), before.contains("mine"));
        }
    }

    #[test]
    fn settings_of_others_stay() {
        let settings = LlmProgram::ClaudeCode.settings(DEFAULT_URL);
        let theirs = "{\"env\": {\"ANTHROPIC_BASE_URL\": \"https://b/anthropic\", \"ENABLE_TOOL_SEARCH\": \"true\"}}";
        assert_eq!(revert(theirs, Syntax::Json, &settings, &[]).expect("an edit"), theirs);
    }

    #[test]
    fn addresses() {
        for (url, expected) in [
            ("http://127.0.0.1:8090", Some("http://127.0.0.1:8090")),
            ("https://tools.example/secret/", Some("https://tools.example/secret")),
            ("127.0.0.1:8090", None),
            ("http://", None),
            ("http:///x", None),
            ("http://a b", None),
        ] {
            assert_eq!(base_url(url), expected, "{url}");
        }
    }

    #[test]
    fn every_program_has_settings_or_instructions() {
        for program in LlmProgram::ALL {
            let has_settings = !program.settings(DEFAULT_URL).is_empty();
            assert_ne!(has_settings, program.instructions(DEFAULT_URL).is_some(), "{}", program.id());
        }
    }
}
