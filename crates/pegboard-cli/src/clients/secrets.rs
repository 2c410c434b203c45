//! Secrets in plain text: detecting, masking, and moving them to the environment.
//!
//! There is no certain way to recognise a secret. So there are two questions: what *looks like* a
//! secret, to report and to move it; and what *can be shown*, which is far less than the rest.

use std::{collections::BTreeMap, ops::Range};

use super::{
    server::{Server, ServerTransport},
    variables::{has_variables, variable_name},
};

/// Replacement for a masked value.
pub(crate) const HIDDEN: &str = "•••";

/// Words before a secret in a header.
const SCHEMES: &[&str] = &["Bearer ", "bearer ", "Basic ", "basic ", "Token ", "token ", "ApiKey ", "Api-Key "];

/// Prefixes of tokens of well-known services.
const PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "hf_",
    "npm_",
    "pypi-",
    "SG.",
    "shpat_",
    "dop_v1_",
    "lin_api_",
    "ntn_",
    "secret_",
    "figd_",
    "tvly-",
    "fc-",
    "r8_",
    "ATATT",
    "sbp_",
    "pat-",
    "key-",
];

/// Words that mark the name of a value as that of a secret.
const WORDS: &[&str] = &[
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pw",
    "pwd",
    "pat",
    "credential",
    "credentials",
    "cookie",
    "bearer",
    "authorization",
    "dsn",
    "jwt",
    "private",
];

/// The same words as the end of a longer word.
const ENDINGS: &[&str] = &["token", "secret", "password", "passwd", "apikey"];

/// A detected secret in plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundSecret {
    /// Where in the server's entry: `env.TOKEN`, `headers.Authorization`, `args`, `url`.
    pub(crate) place: String,
}

/// A secret that was moved to an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MovedSecret {
    /// The variable to set.
    pub(crate) variable: String,
    /// The former place of its value.
    pub(crate) place: String,
}

/// Returns the values in `server` that look like secrets.
pub(crate) fn find(server: &Server) -> Vec<FoundSecret> {
    let mut server = server.clone();
    let found = slots(&mut server).into_iter().filter(|slot| !slot.secrets().is_empty());
    found.map(|slot| FoundSecret { place: slot.place }).collect()
}

/// Returns the plain-text secrets of `server`, for filters that must not let them out.
pub(crate) fn texts(server: &Server) -> Vec<String> {
    let mut server = server.clone();
    let of = |slot: Slot<'_>| {
        let text = slot.text.as_str();
        match slot.is_script() {
            // The other words of a script occur in many texts.
            true => script_secrets(text).map(str::to_owned).collect(),
            false => slot.secrets().into_iter().map(|range| text[range].to_owned()).collect::<Vec<_>>(),
        }
    };
    slots(&mut server).into_iter().flat_map(of).collect()
}

/// Returns the secrets in the arguments of a program.
pub(crate) fn find_in_args(args: &[String]) -> Vec<String> {
    let (command, args) = (String::new(), args.to_vec());
    texts(&Server::new(ServerTransport::Program { command, args, env: Vec::new(), env_file: None, cwd: None }))
}

/// Replaces values that look like secrets with variables, in the server called `name`. `taken`
/// holds the variables of other servers with their values, so that one name never means two of
/// them.
pub(crate) fn move_to_env(server: &mut Server, name: &str, taken: &mut BTreeMap<String, String>) -> Vec<MovedSecret> {
    let mut moved = Vec::new();
    for slot in slots(server) {
        // From the end, so that places further in front stay what they are.
        for range in slot.secrets().into_iter().rev() {
            let secret = slot.text[range.clone()].to_owned();
            let variable = free_variable(&slot, name, |variable| taken.get(variable).is_none_or(|it| *it == secret));
            slot.text.replace_range(range, &format!("${{{variable}}}"));
            taken.insert(variable.clone(), secret);
            moved.push(MovedSecret { variable, place: slot.place.clone() });
        }
    }
    moved
}

/// Returns a variable name for a secret: its own if it is a variable already, or with the server's
/// name in front.
fn free_variable(slot: &Slot<'_>, server: &str, is_free: impl Fn(&str) -> bool) -> String {
    let long = format!("{server}_{}", slot.key);
    let own = slot.is_variable.then(|| slot.key.clone());
    let numbered = (2..).map(|number| format!("{long}_{number}"));
    let mut names = own.into_iter().chain([long.clone()]).chain(numbered).map(|name| variable_name(&name));
    names.find(|name| is_free(name)).unwrap_or(long)
}

/// Returns `server` with all values masked that may be secrets.
pub(crate) fn mask(server: &Server) -> Server {
    let mut shown = server.clone();
    for slot in slots(&mut shown) {
        let hidden = match slot.kind {
            // Values are shown if their form proves that they are not secrets.
            SlotKind::Value if can_be_shown(slot.text) => Vec::new(),
            SlotKind::Value => Vec::from_iter(Some(scheme(slot.text)..slot.text.len())),
            SlotKind::Word | SlotKind::Address => slot.secrets(),
        };
        hidden.into_iter().rev().for_each(|range| slot.text.replace_range(range, HIDDEN));
        if slot.kind != SlotKind::Value {
            *slot.text = without_defaults(&without_query(slot.text));
        }
    }
    shown
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotKind {
    /// The value of a variable or header.
    Value,
    /// A word of a command line.
    Word,
    /// An address.
    Address,
}

/// A text of a server that may hold a secret.
struct Slot<'a> {
    place: String,
    /// The name of the text.
    key: String,
    kind: SlotKind,
    /// Whether the name is that of an environment variable already.
    is_variable: bool,
    text: &'a mut String,
}

impl Slot<'_> {
    /// Returns whether the text is a line for a shell.
    fn is_script(&self) -> bool {
        let text = self.text.as_str();
        self.kind == SlotKind::Word && text.contains(char::is_whitespace) && !text.contains(": ")
    }

    /// Returns the ranges of the text that look like secrets, in order.
    fn secrets(&self) -> Vec<Range<usize>> {
        let text = self.text.as_str();
        if has_variables(text) {
            return Vec::new();
        }
        let in_address = secrets_in_address(text);
        if !in_address.is_empty() || self.kind == SlotKind::Address {
            return in_address;
        }
        let named = named_value(text).filter(|_| self.kind == SlotKind::Word);
        if self.is_script() {
            return script_secrets(text).next().map(|_| 0..text.len()).into_iter().collect();
        }
        let start = named.map_or_else(|| scheme(text), |(_, start)| start);
        let body = text.get(start..).unwrap_or_default();
        // A flag after a flag is not a value.
        let is_value = named.is_some() || is_secret_name(&self.key) && !body.starts_with('-');
        let is_secret = is_value && !body.trim().is_empty() && !is_plain(body) || looks_like_token(body);
        is_secret.then_some(start..text.len()).into_iter().collect()
    }
}

fn slots(server: &mut Server) -> Vec<Slot<'_>> {
    match &mut server.reach {
        ServerTransport::Program { args, env, .. } => {
            let mut slots: Vec<Slot<'_>> = env.iter_mut().map(|(name, text)| value("env", name, true, text)).collect();
            let mut flag = String::new();
            for text in args {
                // Only a word with a name in it, or behind a flag, is called something.
                let named = named_value(text).map_or(flag.as_str(), |(name, _)| name).trim_start_matches('-');
                let key = if named.is_empty() { "VALUE".to_owned() } else { named.to_owned() };
                let next = if text.starts_with('-') && !text.contains('=') { text.clone() } else { String::new() };
                slots.push(Slot { place: "args".to_owned(), key, kind: SlotKind::Word, is_variable: false, text });
                flag = next;
            }
            slots
        }
        ServerTransport::Remote { url, headers, .. } => {
            let mut slots: Vec<Slot<'_>> =
                headers.iter_mut().map(|(name, text)| value("headers", name, false, text)).collect();
            let (place, key) = ("url".to_owned(), "URL".to_owned());
            slots.push(Slot { place, key, kind: SlotKind::Address, is_variable: false, text: url });
            slots
        }
    }
}

fn value<'a>(group: &str, name: &str, is_variable: bool, text: &'a mut String) -> Slot<'a> {
    // `GITHUB_AUTHORIZATION` says less than what it is.
    let key = if !is_variable && name.eq_ignore_ascii_case("authorization") { "TOKEN" } else { name };
    Slot { place: format!("{group}.{name}"), key: key.to_owned(), kind: SlotKind::Value, is_variable, text }
}

/// Returns the name of the secret in `--token=…`, `TOKEN=…` or `Authorization: Bearer …`, and where
/// it begins.
fn named_value(text: &str) -> Option<(&str, usize)> {
    let at = text.find(['=', ':'])?;
    let (name, rest) = (&text[..at], &text[at + 1..]);
    if name.contains(char::is_whitespace) || !is_secret_name(name) {
        return None;
    }
    let value = rest.trim_start();
    Some((name, text.len() - value.len() + scheme(value)))
}

/// Returns the values that a shell line assigns to names of secrets, and its tokens.
fn script_secrets(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter_map(|word| {
        let named = word.trim_matches(['"', '\'', ';']);
        let value = named_value(named).map(|(_, start)| named[start..].trim_matches(['"', '\'', ';']));
        value
            .filter(|value| !value.is_empty() && !value.starts_with('$'))
            .or_else(|| looks_like_token(word).then_some(named))
    })
}

/// Returns the length of the word before a secret, such as `Bearer `.
fn scheme(text: &str) -> usize {
    SCHEMES.iter().find(|scheme| text.starts_with(**scheme)).map_or(0, |scheme| scheme.len())
}

fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_word = |word: &str| WORDS.contains(&word);
    words(name).iter().any(|word| is_word(word)) || ENDINGS.iter().any(|ending| lower.ends_with(ending))
}

/// Splits `api-key`, `API_KEY` and `apiKey` into words.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && was_lower {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// Returns whether a value cannot be a secret under any name: a flag, or the path of a file.
fn is_plain(text: &str) -> bool {
    let is_windows_path = text.get(1..3) == Some(":\\");
    ["true", "false"].contains(&text) || text.starts_with(['/', '~', '.']) && text.contains('/') || is_windows_path
}

/// Returns whether a value of unknown meaning can be shown.
fn can_be_shown(text: &str) -> bool {
    let is_small_number = text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let body = &text[scheme(text)..];
    // A default is a value like any other.
    let is_variable = body.starts_with("${") && body.find('}') == Some(body.len() - 1) && !body.contains(":-");
    is_small_number || is_variable || is_plain(text) && !looks_like_token(text)
}

/// Minimum length of a run of token characters.
const RUN: usize = 16;

/// Returns whether a text has the form of a token: a well-known prefix, or a long run of letters
/// and digits that is not a word.
fn looks_like_token(text: &str) -> bool {
    if PREFIXES.iter().any(|prefix| text.starts_with(prefix) && text.len() >= prefix.len() + 8) {
        return true;
    }
    let is_hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    if text.len() == 36 && text.matches('-').count() == 4 && text.chars().all(is_hex) {
        return true;
    }
    let is_random = |run: &str| {
        let count = |is: fn(&char) -> bool| run.chars().filter(is).count();
        run.len() >= RUN && count(char::is_ascii_digit) >= 2 && count(char::is_ascii_alphabetic) >= 2
    };
    !text.contains("://") && text.split(|c: char| !c.is_ascii_alphanumeric()).any(is_random)
}

/// Returns the password in `scheme://user:password@host`.
fn password(text: &str) -> Option<Range<usize>> {
    let start = text.find("://")? + 3;
    let end = start + text.get(start..)?.find(['/', '?', '#']).unwrap_or(text.len() - start);
    let user_end = start + text.get(start..end)?.rfind('@')?;
    let colon = start + text.get(start..user_end)?.find(':')?;
    (colon + 1 < user_end).then_some(colon + 1..user_end)
}

/// Returns the secrets in an address, in order.
fn secrets_in_address(text: &str) -> Vec<Range<usize>> {
    let Some(host) = text.find("://").map(|at| at + 3) else { return Vec::new() };
    let mut found: Vec<Range<usize>> = password(text).into_iter().collect();
    let path = text[host..].find(['/', '?', '#']).map_or(text.len(), |at| host + at);
    let query = text[path..].find(['?', '#']).map_or(text.len(), |at| path + at);
    // A path with a token in it is enough to use the server.
    found.extend(pieces(text, path..query, '/').filter(|piece| looks_like_token(&text[piece.clone()])));
    for piece in pieces(text, (query + 1).min(text.len())..text.len(), '&') {
        if let Some((name, value)) = text[piece.clone()].split_once('=')
            && !value.is_empty()
            && (is_secret_name(name) || looks_like_token(value))
        {
            found.push(piece.start + name.len() + 1..piece.end);
        }
    }
    found
}

/// Returns the ranges that `separator` separates in a part of a text.
fn pieces(text: &str, part: Range<usize>, separator: char) -> impl Iterator<Item = Range<usize>> {
    let start = part.start;
    text[part].split(separator).scan(start, |at, piece| {
        let range = *at..*at + piece.len();
        *at = range.end + 1;
        Some(range)
    })
}

/// Returns a text whose variables have no defaults that may be secrets.
fn without_defaults(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(":-") {
        let name = before.rsplit("${").next().unwrap_or_default();
        let end = behind.find('}').unwrap_or(behind.len());
        let (default, after) = behind.split_at(end);
        let is_secret = is_secret_name(name) || looks_like_token(default);
        shown.push_str(&format!("{before}:-{}", if is_secret { HIDDEN } else { default }));
        rest = after;
    }
    shown + rest
}

/// Returns an address whose parameters have no values.
fn without_query(url: &str) -> String {
    let Some((address, query)) = url.split_once('?').filter(|(address, _)| address.contains("://")) else {
        return url.to_owned();
    };
    let parameter = |text: &str| match text.split_once('=') {
        Some((name, value)) if !has_variables(value) => format!("{name}={HIDDEN}"),
        _ => text.to_owned(),
    };
    format!("{address}?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests;
