//! What is done with the tools of a request: per route, model and client.

use std::str::FromStr;

use crate::route::Route;

/// What the proxy does with the tools of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The model gets a search; found tools reach it when it needs them.
    #[default]
    Defer,
    /// The tools that the newest user message is likely to need are found before the model is asked.
    Prefetch,
    /// Sends the request as it is; earlier searches of the conversation are restored.
    Pass,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Defer, Self::Prefetch, Self::Pass];

    /// The names of [`ALL`](Self::ALL), in its order.
    pub const NAMES: [&'static str; 3] = ["defer", "prefetch", "pass"];

    /// Returns the name in configurations and headers.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// A text does not name a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a mode; modes are `defer`, `prefetch` and `pass`")]
pub struct UnknownMode(String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// The mode of requests that match all given conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModeRule {
    /// The route of the request.
    pub route: Option<Route>,
    /// A pattern for the model, in which `*` stands for any text.
    pub model: Option<String>,
    /// A pattern for the client: the name of its token, or the first word of its `User-Agent`.
    pub client: Option<String>,
    /// The mode.
    pub mode: Mode,
}

/// The modes of all requests, and when tools are deferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modes {
    /// The first rule that matches decides.
    pub rules: Vec<ModeRule>,
    /// The mode of requests that match no rule.
    pub default: Mode,
    /// Requests with fewer tools pass through, unless they reach `max_tokens`.
    pub max_tools: usize,
    /// Requests whose definitions have fewer tokens (estimated) pass through, unless they reach `max_tools`.
    pub max_tokens: usize,
    /// Tools that are always declared, by name.
    pub pinned: Vec<String>,
}

impl Default for Modes {
    fn default() -> Self {
        Self { rules: Vec::new(), default: Mode::default(), max_tools: 30, max_tokens: 10_000, pinned: Vec::new() }
    }
}

/// Who sends a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Caller<'a> {
    /// The name of its token.
    pub(crate) name: Option<&'a str>,
    /// Its `User-Agent`.
    pub(crate) agent: &'a str,
}

impl Caller<'_> {
    fn matches(&self, pattern: &str) -> bool {
        let product = self.agent.split([' ', '/']).next().unwrap_or_default();
        self.name.is_some_and(|name| is_match(pattern, name)) || is_match(pattern, product)
    }
}

impl Modes {
    /// Returns the mode of a request.
    pub(crate) fn of(&self, route: Route, model: &str, caller: Caller<'_>) -> Mode {
        let is_right = |rule: &&ModeRule| {
            rule.route.is_none_or(|wanted| wanted == route)
                && rule.model.as_deref().is_none_or(|pattern| is_match(pattern, model))
                && rule.client.as_deref().is_none_or(|pattern| caller.matches(pattern))
        };
        self.rules.iter().find(is_right).map_or(self.default, |rule| rule.mode)
    }

    /// Returns whether every request of this caller on a route passes through, whatever its model.
    pub(crate) fn passes_all(&self, route: Route, caller: Caller<'_>) -> bool {
        let applies = |rule: &&ModeRule| {
            rule.route.is_none_or(|wanted| wanted == route)
                && rule.client.as_deref().is_none_or(|pattern| caller.matches(pattern))
        };
        for rule in self.rules.iter().filter(applies) {
            if rule.mode != Mode::Pass {
                return false;
            }
            if rule.model.is_none() {
                return true;
            }
        }
        self.default == Mode::Pass
    }
}

/// Returns whether a text matches a pattern, in which `*` stands for any text. Case does not matter.
fn is_match(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check = |pattern: &str, text: &str, expected: bool| {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        };
        check("gpt-5", "gpt-5", true);
        check("gpt-5", "gpt-5.4", false);
        check("gpt-5*", "GPT-5.4", true);
        check("*", "", true);
        check("a*b*c", "a-x-b-y-c", true);
        check("a*b*c", "a-c-b", false);
        check("ab*b", "ab", false);
        check("*-mini", "gpt-5-mini", true);
        check("é*", "É5", true);
    }

    #[test]
    fn the_first_rule_decides() {
        let rule = |route, model: Option<&str>, client: Option<&str>, mode| ModeRule {
            route,
            model: model.map(str::to_owned),
            client: client.map(str::to_owned),
            mode,
        };
        let modes = Modes {
            rules: vec![
                rule(None, None, Some("aider"), Mode::Pass),
                rule(Some(Route::OpenAi), Some("gpt-4*"), None, Mode::Prefetch),
                rule(Some(Route::Gemini), None, None, Mode::Pass),
            ],
            ..Modes::default()
        };
        let check = |route, model: &str, name: Option<&str>, agent: &str, expected: Mode| {
            assert_eq!(modes.of(route, model, Caller { name, agent }), expected, "{route} {model} {name:?} {agent}");
        };
        check(Route::OpenAi, "gpt-4o", None, "x", Mode::Prefetch);
        check(Route::OpenAi, "gpt-5", None, "x", Mode::Defer);
        check(Route::OpenAi, "gpt-4o", Some("aider"), "x", Mode::Pass);
        check(Route::Anthropic, "claude", None, "Aider/0.9 (x)", Mode::Pass);
        check(Route::Gemini, "gemini", None, "", Mode::Pass);
        let passes = |route, agent| modes.passes_all(route, Caller { name: None, agent });
        assert!(passes(Route::Gemini, "x") && passes(Route::OpenAi, "aider") && !passes(Route::OpenAi, "x"));
    }
}
