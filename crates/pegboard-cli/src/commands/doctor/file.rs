//! Checks of the configuration file, and of the files and variables that it refers to.

use std::path::{Path, PathBuf};

use pegboard_config::document::{Missing, Problem, Problems};
use pegboard_state::platform;

use super::{
    CheckedConfig,
    finding::{Check, Finding, count, join_names},
};
use crate::clients::{
    secrets,
    server::{Server, ServerTransport},
    variables,
};

/// Returns the mistakes in the file itself.
pub(super) fn problems(problems: &Problems) -> Vec<Finding> {
    let mut sorted: Vec<&Problem> = problems.iter().collect();
    sorted.sort_by_key(|problem| problem.line);
    let mut findings: Vec<Finding> = sorted.iter().map(|problem| of_problem(problem)).collect();
    let left_out = problems.len() - sorted.len();
    if left_out > 0 {
        let message = format!("the file has {} more", count(left_out, "mistake"));
        findings.push(Finding::error(
            Check::Configuration,
            message,
            "fix the listed ones, then run `pegboard doctor` again",
        ));
    }
    findings
}

fn of_problem(problem: &Problem) -> Finding {
    let check = match problem.missing {
        Some(Missing::Variable(_) | Missing::Input) => Check::UnsetVariable,
        Some(_) => Check::MissingFile,
        None => Check::Configuration,
    };
    let hint = match (&problem.missing, &problem.hint) {
        (Some(Missing::Variable(name)), _) => format!(
            "set it before you start Pegboard (`export {name}=…`), or write `${{{name}:-default}}` if it is optional"
        ),
        (_, Some(hint)) => hint.clone(),
        (Some(_), None) => "create the file, or correct its path".to_owned(),
        (None, None) => "`pegboard schema` prints the JSON Schema, which describes every key".to_owned(),
    };
    let finding = Finding::error(check, problem.to_string(), hint);
    match &problem.server {
        Some(server) => finding.of(server),
        None => finding,
    }
}

/// Returns the settings that are not applied as they are written.
pub(super) fn unused_settings(notices: &[Problem]) -> Vec<Finding> {
    let finding = |notice: &Problem| {
        let hint = notice.hint.clone().unwrap_or_default();
        let finding = Finding::warning(Check::UnusedSetting, notice.to_string(), hint);
        match &notice.server {
            Some(server) => finding.of(server),
            None => finding,
        }
    };
    notices.iter().map(finding).collect()
}

/// Checks the values in the file and what they refer to.
pub(super) fn check_references(checked_config: &CheckedConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    if checked_config.config.servers.iter().all(|server| !server.is_enabled) && checked_config.problems.is_empty() {
        let hint = "add servers under `mcpServers`, or import those of your clients with `pegboard import --write`";
        findings.push(Finding::warning(Check::NoServers, "the configuration has no enabled server", hint));
    }
    let written = || checked_config.written.iter().filter(|(_, server)| !server.is_disabled);
    for (name, server) in written() {
        findings.extend(find_empty_variables(server).map(|finding| finding.of(name)));
        let unfinished: Vec<Finding> =
            [find_unexpanded_values(server), find_placeholders(server)].into_iter().flatten().collect();
        // A file that does not exist yet is not a leaked secret.
        let secret = find_plain_secrets(server).filter(|_| unfinished.is_empty());
        findings.extend(unfinished.into_iter().chain(secret).map(|finding| finding.of(name)));
    }
    for server in checked_config.config.servers.iter().filter(|server| server.is_enabled) {
        let file = server.env_file.as_deref().filter(|file| is_open_to_others(file));
        findings.extend(file.map(|file| readable(file).of(&server.name)));
    }
    let folder = checked_config.path.parent().unwrap_or(Path::new(""));
    for (name, server) in written() {
        let files = server.texts().into_iter().flat_map(named_files).map(|file| resolve_path(file, folder));
        findings.extend(files.filter(|file| is_open_to_others(file)).map(|file| readable(&file).of(name)));
    }
    let has_secrets = written().any(|(_, server)| !secrets::find(server).is_empty());
    if has_secrets && is_open_to_others(&checked_config.path) {
        findings.push(readable(&checked_config.path));
    }
    findings
}

/// Finds variables that are empty where a value is needed.
fn find_empty_variables(server: &Server) -> impl Iterator<Item = Finding> + use<> {
    let is_empty = |name: &&str| std::env::var(name).is_ok_and(|value| value.trim().is_empty());
    let mut names: Vec<&str> =
        server.texts().into_iter().flat_map(variables::required_variables).filter(is_empty).collect();
    names.sort_unstable();
    names.dedup();
    let finding = |name: &&str| {
        let message = format!("the environment variable `{name}` is empty");
        Finding::warning(Check::EmptyVariable, message, format!("set a value: `export {name}=…`"))
    };
    names.iter().map(finding).collect::<Vec<_>>().into_iter()
}

/// Returns the files whose content a text includes, as `${file:PATH}`.
fn named_files(text: &str) -> impl Iterator<Item = &str> {
    text.split("${file:").skip(1).filter_map(|rest| rest.split_once('}')).map(|(path, _)| path.trim())
}

/// Resolves a file that is named in a configuration: from its folder, or from the home folder after
/// `~/`.
fn resolve_path(file: &str, folder: &Path) -> PathBuf {
    match (file.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => folder.join(file),
    }
}

/// Returns the texts of a server with their places.
fn places(server: &Server) -> Vec<(String, &str)> {
    let pairs = |group: &str, pairs: &'_ [(String, String)]| -> Vec<String> {
        pairs.iter().map(|(name, _)| format!("{group}.{name}")).collect()
    };
    match &server.reach {
        ServerTransport::Program { command, args, env, cwd, .. } => {
            let words = args.iter().enumerate().map(|(at, text)| (format!("args[{at}]"), text.as_str()));
            let values = pairs("env", env).into_iter().zip(env.iter().map(|(_, text)| text.as_str()));
            let folder = cwd.iter().map(|text| ("cwd".to_owned(), text.as_str()));
            [("command".to_owned(), command.as_str())].into_iter().chain(words).chain(values).chain(folder).collect()
        }
        ServerTransport::Remote { url, headers, .. } => {
            let values = pairs("headers", headers).into_iter().zip(headers.iter().map(|(_, text)| text.as_str()));
            [("url".to_owned(), url.as_str())].into_iter().chain(values).collect()
        }
    }
}

/// Finds values that only a shell would expand.
fn find_unexpanded_values(server: &Server) -> Option<Finding> {
    let is_home = |text: &str| text == "~" || text.starts_with("~/");
    let is_bare = |text: &str| {
        let name = text.strip_prefix('$').unwrap_or_default();
        name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let is_percent = |text: &str| text.len() > 3 && text.starts_with('%') && text.ends_with('%');
    let is_shell = is_shell_line(server);
    let found = places(server).into_iter().filter(|(_, text)| {
        let last = text.rsplit([' ', '=', ':']).next().unwrap_or(text);
        !is_shell && (is_home(text) || is_bare(last) || is_percent(text))
    });
    let found: Vec<String> = found.map(|(place, _)| place).collect();
    let verb = if found.len() == 1 { "uses" } else { "use" };
    let message =
        format!("{} {verb} shell syntax, but no shell expands it", join_names(found.iter().map(String::as_str)));
    let hint = "write `${HOME}/…` for a path in your home folder, and `${NAME}` for a variable";
    (!found.is_empty()).then(|| Finding::warning(Check::UnexpandedVariable, message, hint))
}

/// Returns whether a shell reads the arguments, and so expands values.
fn is_shell_line(server: &Server) -> bool {
    let ServerTransport::Program { command, .. } = &server.reach else { return false };
    let program = command.rsplit(['/', '\\']).next().unwrap_or(command);
    ["sh", "bash", "zsh", "fish", "cmd", "cmd.exe", "powershell", "pwsh"].contains(&program)
}

/// Finds placeholder values that were not replaced.
fn find_placeholders(server: &Server) -> Option<Finding> {
    let found: Vec<String> = places(server)
        .into_iter()
        .filter(|(place, text)| place != "command" && text.split([' ', '=']).chain([*text]).any(is_placeholder))
        .map(|(place, _)| place)
        .collect();
    let verb = if found.len() == 1 { "looks" } else { "look" };
    let message = format!("{} {verb} like a placeholder", join_names(found.iter().map(String::as_str)));
    let hint = "replace it with the real value, or preferably with a variable: `${NAME}`";
    (!found.is_empty()).then(|| Finding::warning(Check::PlaceholderValue, message, hint))
}

fn is_placeholder(text: &str) -> bool {
    let lower = text.trim_matches(['"', '\'']).to_ascii_lowercase().replace([' ', '-'], "_");
    let is_bracketed = lower.len() > 2 && lower.starts_with('<') && lower.ends_with('>');
    let is_x = lower.len() >= 3 && lower.bytes().all(|byte| byte == b'x' || byte == b'*');
    let is_yours = lower.starts_with("your_") || lower.contains("_your_") || lower.ends_with("_here");
    is_bracketed || is_x || is_yours || ["changeme", "change_me", "replace_me", "replaceme", "..."].contains(&&*lower)
}

fn find_plain_secrets(server: &Server) -> Option<Finding> {
    let places: Vec<String> = secrets::find(server).into_iter().map(|found| found.place).collect();
    let message = format!("plain-text secret: {}", join_names(places.iter().map(String::as_str)));
    let hint = "write `${NAME}` and set the variable, or move the secret to an `envFile`";
    (!places.is_empty()).then(|| Finding::note(Check::PlainSecret, message, hint))
}

fn readable(file: &Path) -> Finding {
    let message = format!("`{}` contains secrets and is readable by other users of this machine", file.display());
    let hint = format!("`chmod 600 {}`", crate::clients::show::quote_path(file));
    Finding::warning(Check::ReadableSecret, message, hint)
}

fn is_open_to_others(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|data| platform::is_readable_by_others(&data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_manuals() {
        for text in
            ["<token>", "YOUR_API_KEY", "your-key", "xxx", "***", "sk_your_key", "token-here", "changeme", "..."]
        {
            assert!(is_placeholder(text), "{text}");
        }
        for text in ["", "x", "ghp_0123", "here", "${TOKEN}", "<", "yours"] {
            assert!(!is_placeholder(text), "{text}");
        }
    }
}
