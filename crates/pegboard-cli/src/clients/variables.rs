//! Variables in clients' files, translated to Pegboard's notation.

use std::{collections::BTreeMap, path::Path};

use super::Client;

/// The context of a text in a client's file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context<'a> {
    /// The client; `None` for one of Pegboard's own files.
    pub(crate) client: Option<Client>,
    /// The folder of the project that it belongs to.
    pub(crate) project: Option<&'a Path>,
    /// The inputs that VS Code asks the user for, by name, with their defaults.
    pub(crate) inputs: Option<&'a BTreeMap<String, Option<String>>>,
}

/// A notation for variables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// No variables: `${` is literal.
    Literal,
    /// `${NAME}` and `${NAME:-text}`.
    Shell,
    /// `$NAME` as well.
    BareShell,
    /// `${env:NAME}`, `${workspaceFolder}` and others with a word in front.
    Editor,
    /// Pegboard's own notation.
    Own,
}

fn style_of(client: Option<Client>) -> Style {
    match client {
        None => Style::Own,
        Some(Client::ClaudeDesktop | Client::Codex | Client::Zed) => Style::Literal,
        Some(Client::ClaudeCode) => Style::Shell,
        Some(Client::Gemini) => Style::BareShell,
        Some(Client::Cursor | Client::Vscode | Client::Windsurf) => Style::Editor,
    }
}

/// Returns `text` with the client's variables in Pegboard's notation; losses go to `notes`.
pub(crate) fn translate(text: &str, context: &Context<'_>, notes: &mut Vec<String>) -> String {
    let style = style_of(context.client);
    if style == Style::Own {
        return text.to_owned();
    }
    let mut translated = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, behind) = rest.split_at(at);
        translated.push_str(before);
        let behind = &behind[1..];
        rest = behind;
        match behind.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((variable, after)) if style != Style::Literal => {
                rest = after;
                translated.push_str(&translate_braced(variable, style, context, notes));
            }
            _ => match bare_name(behind).filter(|_| style == Style::BareShell) {
                Some(name) => {
                    rest = &behind[name.len()..];
                    translated.push_str(&format!("${{{name}}}"));
                }
                None => translated.push_str(if behind.starts_with('{') { "$$" } else { "$" }),
            },
        }
    }
    translated.push_str(rest);
    translated
}

/// Translates the part between `${` and `}`.
fn translate_braced(variable: &str, style: Style, context: &Context<'_>, notes: &mut Vec<String>) -> String {
    let kept = format!("${{{variable}}}");
    let (name, default) = variable.split_once(":-").unwrap_or((variable, ""));
    if is_name(name) && !default.contains("${") && !is_folder(name) {
        return kept;
    }
    if style == Style::Editor {
        match variable.split_once(':').unwrap_or((variable, "")) {
            ("env", name) if is_name(name) => return format!("${{{name}}}"),
            ("input", id) => return translate_input(id, context, notes),
            ("userHome" | "pathSeparator" | "/", "") => return kept,
            ("workspaceFolder" | "workspaceRoot" | "cwd" | "workspaceFolderBasename", _) => {
                return translate_folder(variable, context, notes);
            }
            _ => {}
        }
    }
    // The part after the colon may be anything, including a secret.
    let kind = variable.split(':').next().unwrap_or_default();
    let kind = if is_name(kind) { format!("`${{{kind}…}}`") } else { "a variable in `${…}`".to_owned() };
    push_once(notes, format!("{kind} is not supported"));
    format!("$${{{variable}}}")
}

/// Translates an editor's variable for the open folder.
fn translate_folder(variable: &str, context: &Context<'_>, notes: &mut Vec<String>) -> String {
    let is_name_only = variable == "workspaceFolderBasename";
    let Some(project) = context.project else {
        push_once(notes, "depends on the open folder; Pegboard uses the folder of the configuration".to_owned());
        return if is_name_only { "${workspaceFolderBasename}" } else { "${workspaceFolder}" }.to_owned();
    };
    let meant = if is_name_only { project.file_name().map(Path::new).unwrap_or(project) } else { project };
    escape(&meant.to_string_lossy())
}

/// Translates an input that VS Code would ask for to a variable.
fn translate_input(id: &str, context: &Context<'_>, notes: &mut Vec<String>) -> String {
    let name = variable_name(id);
    let default = context.inputs.and_then(|inputs| inputs.get(id)).and_then(Option::as_deref);
    match default.filter(|default| !default.contains(['}', '$'])) {
        Some(default) => format!("${{{name}:-{default}}}"),
        None => {
            push_once(
                notes,
                format!("VS Code asks for `{}`; Pegboard uses the variable `{name}`", super::show::printable_line(id)),
            );
            format!("${{{name}}}")
        }
    }
}

fn push_once(notes: &mut Vec<String>, note: String) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}

/// Escapes `text` so that nothing in it is expanded.
pub(crate) fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

/// Returns the environment variables without a default in `text`, which is in Pegboard's notation.
pub(crate) fn required_variables(text: &str) -> Vec<&str> {
    references(text).into_iter().filter(|variable| is_name(variable) && !is_folder(variable)).collect()
}

/// Returns whether a text contains variables.
pub(crate) fn has_variables(text: &str) -> bool {
    !references(text).is_empty()
}

/// Returns the parts between `${` and `}` that are not escaped.
fn references(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        rest = behind;
        if before.ends_with('$') {
            continue;
        }
        if let Some((variable, after)) = behind.split_once('}') {
            found.push(variable.strip_prefix("env:").unwrap_or(variable));
            rest = after;
        }
    }
    found
}

/// Returns the variable at the start of `text` as shells read it without braces.
fn bare_name(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).filter(|name| is_name(name))
}

/// Returns whether shells accept it as the name of a variable.
fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.len() <= 256 && name.chars().all(is_letter) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// Returns whether Pegboard's reader expands the variable without the environment.
fn is_folder(name: &str) -> bool {
    ["workspaceFolder", "workspaceFolderBasename", "workspaceRoot", "cwd", "userHome", "pathSeparator"].contains(&name)
}

/// Derives a variable name from a text: `github-token` becomes `GITHUB_TOKEN`.
pub(crate) fn variable_name(text: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = text.chars().take(100).map(letter).collect();
    match name.chars().next() {
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        Some(_) => name,
        None => "VALUE".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks the translation of `text`, followed by its notes.
    #[track_caller]
    fn check(client: Client, text: &str, expected: &str) {
        let inputs = BTreeMap::from([("port".to_owned(), Some("80".to_owned())), ("api-key".to_owned(), None)]);
        let project = Path::new("/src/app");
        let context = Context { client: Some(client), project: Some(project), inputs: Some(&inputs) };
        let mut notes = Vec::new();
        let mut translated = translate(text, &context, &mut notes);
        notes.iter().for_each(|note| translated.push_str(&format!(" ({note})")));
        assert_eq!(translated, expected, "{text}");
    }

    #[test]
    fn clients_without_variables() {
        for client in [Client::ClaudeDesktop, Client::Codex, Client::Zed] {
            check(client, "a ${HOME} $X $${Y} ${", "a $${HOME} $X $$${Y} $${");
        }
    }

    #[test]
    fn claude_code() {
        check(Client::ClaudeCode, "${A}/${B:-c d} $A", "${A}/${B:-c d} $A");
        check(Client::ClaudeCode, "${env:A}", "$${env:A} (`${env…}` is not supported)");
        check(Client::ClaudeCode, "${A:-${B}}", "$${A:-${B}} (`${A…}` is not supported)");
    }

    #[test]
    fn editors() {
        for client in [Client::Cursor, Client::Vscode, Client::Windsurf] {
            check(client, "${env:A}${A}${userHome}${/}", "${A}${A}${userHome}${/}");
            check(client, "${workspaceFolder}/x ${workspaceFolderBasename}", "/src/app/x app");
            check(client, "${file:/s3cret}", "$${file:/s3cret} (`${file…}` is not supported)");
        }
        check(
            Client::Vscode,
            "${input:api-key}:${input:port}:${input:api-key}",
            "${API_KEY}:${PORT:-80}:${API_KEY} (VS Code asks for `api-key`; Pegboard uses the variable `API_KEY`)",
        );
    }

    #[test]
    fn gemini() {
        check(Client::Gemini, "$TOKEN-${A}${B:-c} costs $5 $", "${TOKEN}-${A}${B:-c} costs $5 $");
    }

    #[test]
    fn the_open_folder_without_a_project_is_told() {
        let context = Context { client: Some(Client::Cursor), ..Context::default() };
        let mut notes = Vec::new();
        assert_eq!(translate("${workspaceFolder}", &context, &mut notes), "${workspaceFolder}");
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn what_the_environment_must_have() {
        assert_eq!(required_variables("${A} ${env:B} ${C:-x} $${D} ${userHome} ${E"), ["A", "B"]);
        assert!(has_variables("x${C:-}") && !has_variables("$${D} $E"));
        assert_eq!(variable_name("1 é-key"), "_1___KEY");
    }

    proptest! {
        /// Texts of a client without variables arrive unchanged.
        #[test]
        fn literal_texts_come_back(text in r"([${}:-]|[a-z]|HOME|\$\{){0,20}") {
            let context = Context { client: Some(Client::Zed), ..Context::default() };
            let written = translate(&text, &context, &mut Vec::new());
            prop_assert!(!has_variables(&written));
            prop_assert_eq!(written.replace("$${", "${"), text);
        }

        /// Pegboard's reader accepts every translation, unless a variable has no end.
        #[test]
        fn translations_can_be_read(text in r"([${}:-]|[a-z]|env:|input:|file:|A|\$\{){0,20}") {
            for client in Client::ALL {
                let context = Context { client: Some(client), ..Context::default() };
                let written = translate(&text, &context, &mut Vec::new());
                let mut rest = written.as_str();
                while let Some((before, behind)) = rest.split_once("${") {
                    rest = behind;
                    prop_assert!(before.ends_with('$') || behind.contains('}'), "{} {}", text, written);
                }
            }
        }
    }
}
