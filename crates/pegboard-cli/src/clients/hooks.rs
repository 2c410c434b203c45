//! The Claude Code hook that attaches likely tools to the user's message.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    config_files::SystemEnvironment,
    edit::{self, EditError},
};

/// The hook event before a message goes to the model.
const EVENT: &str = "UserPromptSubmit";

/// Timeout of the hook in seconds.
const TIMEOUT: u64 = 10;

/// Returns the file with Claude Code's hooks: of the user, or of a project.
pub(crate) fn file(surroundings: &SystemEnvironment<'_>, project: Option<&std::path::Path>) -> Option<PathBuf> {
    match project {
        Some(folder) => Some(folder.join(".claude/settings.json")),
        None => match surroundings.variable("CLAUDE_CONFIG_DIR") {
            Some(folder) => Some(PathBuf::from(folder).join("settings.json")),
            None => Some(surroundings.home()?.join(".claude/settings.json")),
        },
    }
}

/// Returns the command line of the hook.
pub(crate) fn command(program: &str, config: &str, checks_trust: bool) -> String {
    let flag = if checks_trust { " --check-trust" } else { "" };
    format!("{} hook{flag} --config {}", shell_quote(program), shell_quote(config))
}

/// Quotes a word for a shell's command line.
fn shell_quote(word: &str) -> String {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Returns `text` with the hook, in place of an older one.
pub(crate) fn with(text: &str, command: &str) -> Result<String, EditError> {
    let mut groups = others(text)?;
    groups.push(json!({"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT}]}));
    edit::json::set(text, &["hooks"], EVENT, &Value::Array(groups))
}

/// Returns `text` without the hook; `None` if it does not have it.
pub(crate) fn without(text: &str) -> Result<Option<String>, EditError> {
    let value = edit::json::to_json(text)?;
    let groups = value["hooks"][EVENT].as_array().map(Vec::as_slice).unwrap_or_default();
    if !groups.iter().any(is_ours) {
        return Ok(None);
    }
    let others = others(text)?;
    let text = match others.is_empty() {
        true => edit::json::remove(text, &["hooks"], EVENT)?,
        false => edit::json::set(text, &["hooks"], EVENT, &Value::Array(others))?,
    };
    Ok(Some(text))
}

/// Returns the hook groups of the event that are not Pegboard's.
fn others(text: &str) -> Result<Vec<Value>, EditError> {
    let value = edit::json::to_json(text)?;
    let groups = value["hooks"][EVENT].as_array().cloned().unwrap_or_default();
    Ok(groups.into_iter().filter(|group| !is_ours(group)).collect())
}

/// Returns whether a group holds Pegboard's hook and nothing else.
fn is_ours(group: &Value) -> bool {
    let is_our_command = |hook: &Value| {
        let command = hook["command"].as_str().unwrap_or_default();
        let (program, _) = command.split_once(" hook ").unwrap_or_default();
        let program = program.trim_matches('\'');
        program.strip_suffix(".exe").unwrap_or(program).ends_with("pegboard")
    };
    let hooks = group["hooks"].as_array().map(Vec::as_slice).unwrap_or_default();
    !hooks.is_empty() && hooks.iter().all(is_our_command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_comes_once_and_goes_alone() {
        let other = json!({"hooks": [{"type": "command", "command": "date"}]});
        let before = format!("{{\n  // mine\n  \"hooks\": {{\"{EVENT}\": [{other}]}}\n}}\n");
        let once = with(&before, &command("/usr/my bin/pegboard", "/home/a b/x.json", true)).expect("it is set");
        let twice = with(&once, &command("/opt/pegboard", "/x.json", false)).expect("it is set");
        let groups = edit::json::to_json(&twice).expect("JSON")["hooks"][EVENT].take();
        let ours =
            json!({"hooks": [{"type": "command", "command": "/opt/pegboard hook --config /x.json", "timeout": 10}]});
        assert_eq!(groups, json!([other, ours]));
        assert!(once.contains("hook --check-trust --config '/home/a b/x.json'") && twice.contains("// mine"));
        let without_it = without(&twice).expect("JSON").expect("it was there");
        assert_eq!(edit::json::to_json(&without_it).expect("JSON")["hooks"][EVENT], json!([other]));
        assert_eq!(without(&without_it).expect("JSON"), None);
        let alone = with("", "pegboard hook --config x").expect("it is set");
        let empty = without(&alone).expect("JSON").expect("it was there");
        assert_eq!(edit::json::to_json(&empty).expect("JSON"), json!({"hooks": {}}));
    }
}
