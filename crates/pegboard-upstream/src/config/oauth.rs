//! The `oauth` setting.

use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape},
    variables::expand,
};
use pegboard_core::Secret;

use super::OAuthConfig;

/// The kind of value under `oauth`. Some clients write `false` for a server without logins.
pub(super) const KIND: Kind = Kind::Either(&[Kind::Flag, Kind::Object(shape)]);

fn shape() -> Shape {
    SECTION.shape()
}

pub(super) fn read_oauth(node: &Node<'_>, config: &mut OAuthConfig, scope: &mut Scope<'_>) {
    if node.to_json().is_boolean() {
        return;
    }
    if !node.is_object() {
        return node.must_be(KIND, scope.problems);
    }
    SECTION.read(node, config, scope);
    if config.client_secret.is_some() && config.client_id.is_none() {
        let problem = node.problem("has a `clientSecret`, but no `clientId`");
        scope.problems.push(problem.hint("add the `clientId` of the registered client"));
    }
}

static SECTION: Section<OAuthConfig> = Section {
    // Settings of Claude Code, Gemini CLI and others. Their values are found by discovery.
    ignored: &[
        "audiences",
        "authServerMetadataUrl",
        "authorizationUrl",
        "enabled",
        "issuer",
        "redirectUri",
        "registrationUrl",
        "tokenParamName",
        "tokenUrl",
    ],
    is_null_missing: true,
    ..Section::new("oauth", "OAuth client that Pegboard uses to log in to a remote server.", KEYS)
};

const KEYS: &[Key<OAuthConfig>] = &[
    Key::new(
        "clientId",
        Kind::Word,
        "Id of a client that you registered with the authorization server. Without it, Pegboard registers itself.",
        |node, config: &mut OAuthConfig, scope| {
            config.client_id = node.as_non_blank(scope.problems).map(|text| expand(node, text, scope).text);
        },
    ),
    Key::new(
        "clientSecret",
        Kind::Word,
        "Secret of the client, if it has one; preferably as `${VARIABLE}`.",
        |node, config: &mut OAuthConfig, scope| {
            config.client_secret =
                node.as_non_blank(scope.problems).map(|text| Secret::new(expand(node, text, scope).text));
        },
    ),
    Key::new(
        "scopes",
        Kind::Either(&[Kind::Text, Kind::List(&Kind::Text)]),
        "Scopes to request, instead of those that the server names; one string may contain several.",
        |node, config: &mut OAuthConfig, scope| {
            let texts = node.as_text_or_texts(scope.problems).unwrap_or_default();
            let words = texts.iter().flat_map(|(_, text)| text.split_whitespace());
            config.scopes = words.map(str::to_owned).collect();
        },
    )
    .default("[]"),
    Key::new(
        "callbackPort",
        Kind::Port,
        "Local port of the redirect URI `http://127.0.0.1:PORT/callback`, for clients that are registered with a \
         fixed port. Without it, any free port is used.",
        |node, config: &mut OAuthConfig, scope| {
            let Some(port) = node.as_count(scope.problems) else { return };
            config.callback_port = u16::try_from(port).ok().filter(|port| *port > 0);
            if config.callback_port.is_none() {
                scope.problems.push(node.problem("must be a port, 1 to 65535"));
            }
        },
    ),
];
