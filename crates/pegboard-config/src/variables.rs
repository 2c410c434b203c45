//! Substitution of `${VAR}`, `${VAR:-default}`, `${file:PATH}` and the variables of editors.

use std::path::{MAIN_SEPARATOR_STR, Path, PathBuf};

use crate::{
    document::{Missing, Node, Problem},
    keys::{Lookup, Scope},
    secret_file::{self, SecretFileError},
};

/// The variable of [`Lookup`] for the folder of the file, which is the value of
/// `${workspaceFolder}` and the base of relative paths.
pub const WORKSPACE_FOLDER: &str = "workspaceFolder";

/// Maximum number of bytes of a value after substitution.
const MAX_EXPANDED: usize = 1 << 20;

/// A text with its variables substituted.
#[derive(Debug, Default)]
pub struct Expanded {
    /// The text; variables without a value are empty.
    pub text: String,
    /// Whether all variables had a value, so that the text can be checked further.
    pub is_complete: bool,
    /// The substituted values that may be secrets.
    pub secrets: Vec<String>,
}

/// Common variables with paths, which are not secrets.
const PATH_VARIABLES: [&str; 14] = [
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "PWD",
    "SHELL",
    "LANG",
    "TMPDIR",
    "TEMP",
    "USERPROFILE",
    "USERNAME",
    "APPDATA",
    "LOCALAPPDATA",
    "HOSTNAME",
];

/// Substitutes the variables in `text`, the value of `node`. `$${` stands for `${` itself.
pub fn expand(node: &Node<'_>, text: &str, scope: &mut Scope<'_>) -> Expanded {
    let mut expanded = Expanded { is_complete: true, ..Expanded::default() };
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            expanded.text.push_str(before);
            expanded.text.push_str("${");
            rest = behind;
            continue;
        }
        expanded.text.push_str(before);
        let value = match behind.split_once('}') {
            Some((variable, after)) => {
                rest = after;
                let value = variable_value(variable, scope);
                let filled = value.as_ref().ok().filter(|value| !value.is_empty() && !is_path_variable(variable));
                expanded.secrets.extend(filled.cloned());
                value
            }
            None => {
                rest = "";
                Err(VariableError::NoEnd)
            }
        };
        match value {
            Ok(value) => expanded.text.push_str(&value),
            Err(refusal) => {
                expanded.is_complete = false;
                scope.problems.push(refusal.at(node));
            }
        }
        if expanded.text.len() > MAX_EXPANDED {
            scope.problems.push(node.problem("is longer than 1 MiB after its variables are substituted"));
            return Expanded::default();
        }
    }
    expanded.text.push_str(rest);
    expanded
}

/// Returns the environment variables that `text` refers to, set or not, including those with a
/// default.
pub fn referenced_variables(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        if before.ends_with('$') {
            rest = behind;
            continue;
        }
        let Some((variable, after)) = behind.split_once('}') else { break };
        rest = after;
        let name = variable.strip_prefix("env:").unwrap_or(variable);
        let name = name.split_once(":-").map_or(name, |(name, _)| name);
        let is_special = [WORKSPACE_FOLDER, "workspaceFolderBasename", "userHome", "pathSeparator"].contains(&variable);
        if is_name(name) && !is_special {
            names.push(name);
        }
    }
    names
}

/// Resolves `path` relative to the folder of the file, if that is known.
pub fn resolve_in_workspace(path: &str, env: Lookup<'_>) -> PathBuf {
    match env(WORKSPACE_FOLDER) {
        Some(folder) => Path::new(&folder).join(path),
        None => PathBuf::from(path),
    }
}

/// The reason why a variable has no value.
enum VariableError {
    Unset(String),
    File(PathBuf, SecretFileError),
    Input,
    NotAName,
    Nested,
    NoEnd,
}

impl VariableError {
    /// Creates the problem at `node`. It shows names of variables only; other text in braces may be
    /// part of a secret.
    fn at(&self, node: &Node<'_>) -> Problem {
        match self {
            Self::Unset(name) => node
                .problem(format!("needs the environment variable `{name}`, which is not set"))
                .hint(format!("set it, or write `${{{name}:-default}}`"))
                .with_missing(Missing::Variable(name.clone())),
            Self::File(path, error) => node
                .problem(format!("needs the file `{}`, which {error}", path.display()))
                .hint("a relative path is resolved against the folder of the configuration file")
                .with_missing(Missing::File),
            Self::Input => node
                .problem("uses an input, which only VS Code supports")
                .hint("set an environment variable instead, and write `${env:NAME}`")
                .with_missing(Missing::Input),
            Self::NotAName => node.problem("has an invalid variable in `${…}`").hint("write `$${` for a literal `${`"),
            Self::Nested => {
                node.problem("has a variable inside another").hint("a default or a file path must be plain text")
            }
            Self::NoEnd => node.problem("has `${` without `}`").hint("write `$${` for a literal `${`"),
        }
    }
}

/// Returns whether the text between `${` and `}` is a variable with a path, which is not a secret.
fn is_path_variable(variable: &str) -> bool {
    let own = [WORKSPACE_FOLDER, "workspaceFolderBasename", "userHome", "pathSeparator", "/"];
    let name = variable.strip_prefix("env:").unwrap_or(variable);
    own.contains(&variable) || PATH_VARIABLES.contains(&name.split_once(":-").map_or(name, |(name, _)| name))
}

/// Returns the value of the text between `${` and `}`.
fn variable_value(variable: &str, scope: &mut Scope<'_>) -> Result<String, VariableError> {
    let env = scope.env;
    let unset = |name: &str| VariableError::Unset(name.to_owned());
    match variable {
        WORKSPACE_FOLDER => return workspace_folder(env).ok_or_else(|| unset(WORKSPACE_FOLDER)),
        "workspaceFolderBasename" => {
            let folder = workspace_folder(env).ok_or_else(|| unset(WORKSPACE_FOLDER))?;
            let name = Path::new(&folder).file_name().unwrap_or_default();
            return Ok(name.to_string_lossy().into_owned());
        }
        "userHome" => return env("HOME").or_else(|| env("USERPROFILE")).ok_or_else(|| unset("HOME")),
        "pathSeparator" | "/" => return Ok(MAIN_SEPARATOR_STR.to_owned()),
        _ if variable.starts_with("input:") => return Err(VariableError::Input),
        _ => {}
    }
    if let Some(path) = variable.strip_prefix("file:") {
        return match path {
            path if path.contains("${") => Err(VariableError::Nested),
            path if path.trim().is_empty() || path.contains('\0') => Err(VariableError::NotAName),
            path => {
                let path = secret_file::resolve_path(path, env);
                scope.problems.add_file(path.clone());
                secret_file::read(&path).map_err(|error| VariableError::File(path, error))
            }
        };
    }
    let variable = variable.strip_prefix("env:").unwrap_or(variable);
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    if !is_name(name) {
        return Err(VariableError::NotAName);
    }
    if variable.contains("${") {
        return Err(VariableError::Nested);
    }
    match (env(name), default) {
        // As in shells: the default also replaces an empty value.
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(unset(name)),
    }
}

fn workspace_folder(env: Lookup<'_>) -> Option<String> {
    let here = || std::env::current_dir().ok().map(|folder| folder.to_string_lossy().into_owned());
    env(WORKSPACE_FOLDER).or_else(here)
}

/// Returns whether a name is a valid variable name of shells.
fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.len() <= 256 && name.chars().all(is_letter) && name.starts_with(|c: char| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::document::{Document, Problems};

    fn env(name: &str) -> Option<String> {
        match name {
            "TOKEN" => Some("t0p".to_owned()),
            "EMPTY" => Some(String::new()),
            "HOME" => Some("/home/ada".to_owned()),
            WORKSPACE_FOLDER => Some("/srv/app".to_owned()),
            _ => None,
        }
    }

    fn expanded(text: &str) -> (Expanded, Problems) {
        let mut problems = Problems::new();
        let document = Document::parse("0", &mut problems).expect("a document");
        let expanded = expand(&document.root(), text, &mut Scope { env: &env, problems: &mut problems });
        (expanded, problems)
    }

    #[test]
    fn variables_are_filled_in() {
        let check = |text: &str, expected: &str| {
            let (expanded, problems) = expanded(text);
            assert_eq!((expanded.text.as_str(), problems.len()), (expected, 0), "{text}");
        };
        check("plain $TOKEN {x} $", "plain $TOKEN {x} $");
        check("a${TOKEN}b${TOKEN}", "at0pbt0p");
        check("${env:TOKEN}", "t0p");
        check("${NONE:-x:-y}/${EMPTY:-z}/${EMPTY}/${NONE:-}", "x:-y/z//");
        check("$${TOKEN} costs $$5", "${TOKEN} costs $$5");
        check("${workspaceFolder}${/}${workspaceFolderBasename}", &format!("/srv/app{MAIN_SEPARATOR_STR}app"));
        check("${userHome}/x", "/home/ada/x");
    }

    #[test]
    fn variables_that_are_referred_to() {
        let check = |text: &str, expected: &[&str]| assert_eq!(referenced_variables(text), expected, "{text}");
        check("${A}-${env:B}${C:-d}${env:E:-}", &["A", "B", "C", "E"]);
        check("$${A} ${file:x} ${input:y} ${workspaceFolder}${/}${userHome}", &[]);
        check("${s3cr-et} ${} ${A", &[]);
    }

    #[test]
    fn what_cannot_be_filled_in_is_told_without_values() {
        let check = |text: &str, expected: &str| {
            let (expanded, problems) = expanded(text);
            assert!(!expanded.is_complete);
            assert_eq!(problems.lines(), [format!("line 1: the file {expected}")], "{text}");
        };
        check(
            "${NONE}",
            "needs the environment variable `NONE`, which is not set (set it, or write `${NONE:-default}`)",
        );
        check(
            "${input:token}",
            "uses an input, which only VS Code supports (set an environment variable instead, and write `${env:NAME}`)",
        );
        let literal = "(write `$${` for a literal `${`)";
        check("${s3cr-et}", &format!("has an invalid variable in `${{…}}` {literal}"));
        check(
            "${file:no/such}",
            "needs the file `/srv/app/no/such`, which cannot be read: entity not found (a relative path is \
             resolved against the folder of the configuration file)",
        );
        check("${file: }", &format!("has an invalid variable in `${{…}}` {literal}"));
        check("${}", &format!("has an invalid variable in `${{…}}` {literal}"));
        check("${command:pick}", &format!("has an invalid variable in `${{…}}` {literal}"));
        check("s3cr${et", &format!("has `${{` without `}}` {literal}"));
        let (_, problems) = expanded("${A:-${TOKEN}}");
        assert!(problems.lines()[0].contains("has a variable inside another"));
    }

    #[test]
    fn files_are_filled_in_and_followed() {
        let path = std::env::temp_dir().join(format!("pegboard-variables-{}", std::process::id()));
        std::fs::write(&path, "s3cret\n").expect("a file");
        let (expanded, problems) = expanded(&format!("Bearer ${{file:{}}} of ${{TOKEN}} at ${{HOME}}", path.display()));
        assert_eq!((expanded.text.as_str(), problems.len()), ("Bearer s3cret of t0p at /home/ada", 0));
        assert_eq!(expanded.secrets, ["s3cret", "t0p"]);
        assert_eq!(problems.files(), std::slice::from_ref(&path));
        std::fs::remove_file(path).expect("it was there");
    }

    #[test]
    fn values_cannot_grow_without_end() {
        let (expanded, problems) = expanded(&"${HOME}".repeat(200_000));
        assert!(expanded.text.is_empty() && problems.len() == 1);
    }

    proptest! {
        #[test]
        fn any_text_is_filled_in_or_a_problem(text in r"([${}:-]|[a-zé]|TOKEN|NONE|\$\{|input:|env:|file:){0,20}") {
            let (expanded, problems) = expanded(&text);
            prop_assert_eq!(expanded.is_complete, problems.is_empty());
        }
    }
}
