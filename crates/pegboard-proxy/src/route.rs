//! Paths of the proxy and the URLs of the providers behind them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A provider API that the proxy serves under a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// `/anthropic/…`.
    Anthropic,
    /// `/openai/v1/…`.
    OpenAi,
    /// `/gemini/…`.
    Gemini,
}

impl Route {
    /// All routes.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAi, Self::Gemini];

    /// The names of [`ALL`](Self::ALL), in its order.
    pub const NAMES: [&'static str; 3] = ["anthropic", "openai", "gemini"];

    /// Returns the name in configurations and messages.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the route with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|route| route.as_str() == name)
    }

    /// Returns the path below which the proxy serves the route.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Anthropic => "/anthropic",
            Self::OpenAi => "/openai/v1",
            Self::Gemini => "/gemini",
        }
    }

    /// Returns the provider's own URL, in the form of its base-URL variable.
    pub fn default_upstream(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com",
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The base URLs that requests are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstreams([String; 3]);

impl Default for Upstreams {
    fn default() -> Self {
        Self(Route::ALL.map(|route| route.default_upstream().to_owned()))
    }
}

impl Upstreams {
    /// Sends the requests of a route to another URL.
    pub fn set(&mut self, route: Route, url: &str) {
        url.trim_end_matches('/').clone_into(&mut self.0[route as usize]);
    }

    /// Returns the URL of a route.
    pub fn get(&self, route: Route) -> &str {
        &self.0[route as usize]
    }
}

/// The wire format of a request that carries tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WireName {
    Messages,
    Chat,
    Responses,
    Gemini,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// An answer of a model.
    Turn(WireName),
    /// The number of tokens of a request.
    Count(WireName),
    /// Anything else, which passes through.
    Other,
}

/// A path of the proxy, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParsedPath<'a> {
    pub(crate) route: Route,
    /// The token in the path, if there is one.
    pub(crate) token: Option<&'a str>,
    /// What follows the prefix of the route, with its slash.
    pub(crate) rest: &'a str,
}

/// The first segment of a path that carries a token in the second one.
pub(crate) const TOKEN_PREFIX: &str = "/token/";

impl<'a> ParsedPath<'a> {
    /// Parses a path; `None` if it is below no route.
    pub(crate) fn parse(path: &'a str) -> Option<Self> {
        let (token, path) = match path.strip_prefix(TOKEN_PREFIX) {
            Some(path) => {
                let at = path.find('/')?;
                (Some(&path[..at]), &path[at..])
            }
            None => (None, path),
        };
        Route::ALL.into_iter().find_map(|route| {
            let rest = path.strip_prefix(route.prefix())?;
            // In a URL, a backslash separates segments as well.
            if rest.split(['/', '\\']).any(is_dots) {
                return None;
            }
            (rest.is_empty() || rest.starts_with('/')).then_some(Self { route, token, rest })
        })
    }

    /// Returns what the path asks for.
    pub(crate) fn endpoint(&self) -> Endpoint {
        match (self.route, self.rest) {
            (Route::Anthropic, "/v1/messages") => Endpoint::Turn(WireName::Messages),
            (Route::Anthropic, "/v1/messages/count_tokens") => Endpoint::Count(WireName::Messages),
            (Route::OpenAi, "/chat/completions") => Endpoint::Turn(WireName::Chat),
            (Route::OpenAi, "/responses") => Endpoint::Turn(WireName::Responses),
            (Route::OpenAi, "/responses/input_tokens") => Endpoint::Count(WireName::Responses),
            (Route::Gemini, rest) => match gemini_method(rest) {
                Some((_, "generateContent" | "streamGenerateContent")) => Endpoint::Turn(WireName::Gemini),
                Some((_, "countTokens")) => Endpoint::Count(WireName::Gemini),
                _ => Endpoint::Other,
            },
            _ => Endpoint::Other,
        }
    }

    /// Returns the model that the path names.
    pub(crate) fn model(&self) -> Option<&'a str> {
        if self.route == Route::Gemini { gemini_method(self.rest).map(|(model, _)| model) } else { None }
    }
}

/// Returns whether a segment of a path is `.` or `..`, which would lead out of the provider's base URL.
fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    plain == "." || plain == ".."
}

/// Splits `/v1beta/models/MODEL:METHOD`.
fn gemini_method(rest: &str) -> Option<(&str, &str)> {
    let rest = rest.strip_prefix("/v1beta/").or_else(|| rest.strip_prefix("/v1/"))?;
    rest.strip_prefix("models/")?.split_once(':').filter(|(model, _)| !model.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_what_they_ask_for() {
        let check = |path: &str, expected: Option<(Route, Option<&str>, &str, Endpoint)>| {
            let found = ParsedPath::parse(path);
            assert_eq!(found.map(|found| (found.route, found.token, found.rest, found.endpoint())), expected, "{path}");
        };
        use Endpoint::{Count, Other, Turn};
        let openai = |rest, endpoint| Some((Route::OpenAi, None, rest, endpoint));
        check("/openai/v1/chat/completions", openai("/chat/completions", Turn(WireName::Chat)));
        check("/openai/v1/responses", openai("/responses", Turn(WireName::Responses)));
        check("/openai/v1/responses/resp_1", openai("/responses/resp_1", Other));
        check("/openai/v1", openai("", Other));
        check("/openai/v1beta/models", None);
        check("/openai/chat/completions", None);
        check("/mcp", None);
        check("/openai/v1/../admin", None);
        check("/openai/v1/%2E./admin", None);
        check("/anthropic/./x", None);
        check("/openai/v1/x\\..\\..\\..\\admin", None);
        check("/openai/v1/x/..\\../admin", None);
        check("/openai/v1/\\%2e%2E\\admin", None);
        check("/openai/v1/x\\.%2e", None);
        check("/openai/v1/files/a\\b", openai("/files/a\\b", Other));
        check("/openai/v1/files/a..b", openai("/files/a..b", Other));
        let turn = Turn(WireName::Messages);
        check("/token/s3/anthropic/v1/messages", Some((Route::Anthropic, Some("s3"), "/v1/messages", turn)));
        check("/token/anthropic/v1/messages", None);
        check("/token/s3", None);
        let count = "/v1/messages/count_tokens";
        check("/anthropic/v1/messages/count_tokens", Some((Route::Anthropic, None, count, Count(WireName::Messages))));
        let batches = "/v1/messages/batches";
        check("/anthropic/v1/messages/batches", Some((Route::Anthropic, None, batches, Other)));
        let stream = "/v1beta/models/gemini-3-pro:streamGenerateContent";
        let found = ParsedPath { route: Route::Gemini, token: None, rest: stream };
        assert_eq!((found.endpoint(), found.model()), (Turn(WireName::Gemini), Some("gemini-3-pro")));
        let batch = ParsedPath { rest: "/v1/models/m:batchGenerateContent", ..found };
        assert_eq!(batch.endpoint(), Other);
    }

    /// What the HTTP client makes of a path decides, and not what the path looks like.
    #[test]
    fn no_path_leads_out_of_the_upstream() {
        let parts = ["..", ".", "%2e%2e", "%2E.", ".%2e", "%2e", "a", "%252e%252e", "..%2f", "%5c..", ""];
        for separator in ["/", "\\", "//", "/\\"] {
            for first in parts {
                for second in parts {
                    let path = format!("/openai/v1/{first}{separator}{second}{separator}..a");
                    let Some(found) = ParsedPath::parse(&path) else { continue };
                    let url = format!("http://127.0.0.1:1/base/v1{}", found.rest);
                    let url = reqwest::Url::parse(&url).expect("a URL");
                    assert!(url.path().starts_with("/base/v1/"), "{path} becomes {url}");
                }
            }
        }
    }

    #[test]
    fn upstreams_end_without_a_slash() {
        let mut upstreams = Upstreams::default();
        upstreams.set(Route::OpenAi, "http://127.0.0.1:1/v1/");
        assert_eq!(upstreams.get(Route::OpenAi), "http://127.0.0.1:1/v1");
        assert_eq!(upstreams.get(Route::Anthropic), "https://api.anthropic.com");
    }
}
