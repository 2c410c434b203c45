//! Access to the gateway: tokens and selections.

use std::collections::BTreeSet;

use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape},
    variables::expand,
};
use pegboard_core::{Secret, Selection};
use pegboard_gateway::{CallLimits, Token};

use super::limits;

pub(super) static SELECTION: Section<Selection> = Section::new(
    "selection",
    "Visible servers and tools. Hidden tools do not appear in lists or searches and cannot be called. \
     `servers` and `tools` are combined; without either, everything is visible.",
    &[
        Key::new(
            "servers",
            Kind::Names,
            "Servers whose tools are all visible.",
            |node, selection: &mut Selection, scope| {
                let servers = node.as_non_empty_texts(scope.problems).unwrap_or_default();
                *selection = std::mem::take(selection).allow_servers(servers);
            },
        ),
        Key::new(
            "tools",
            Kind::Names,
            "Visible tools: `server:tool`, `server:*` or a name.",
            |node, selection: &mut Selection, scope| {
                let tools = node.as_non_empty_texts(scope.problems).unwrap_or_default();
                *selection = std::mem::take(selection).allow_tools(tools);
            },
        ),
        Key::new(
            "deny",
            Kind::List(&Kind::Text),
            "Hidden servers and tools; takes precedence over `servers` and `tools`.",
            |node, selection: &mut Selection, scope| {
                let denied = node.as_texts(scope.problems).unwrap_or_default();
                *selection = std::mem::take(selection).deny(denied);
            },
        )
        .default("[]"),
    ],
);

pub(super) fn selection_shape() -> Shape {
    SELECTION.shape()
}

/// A token while it is read.
#[derive(Debug, Default)]
pub(super) struct TokenDraft {
    name: String,
    secret: String,
    selection: Selection,
    limits: Option<CallLimits>,
}

pub(super) static TOKEN: Section<TokenDraft> = Section {
    required: &["name", "token"],
    ..Section::new(
        "token",
        "A token that grants access to the gateway.",
        &[
            Key::new("name", Kind::Word, "Name of the caller in logs.", |node, token: &mut TokenDraft, scope| {
                token.name = node.as_non_blank(scope.problems).unwrap_or_default().to_owned();
            }),
            Key::new(
                "token",
                SECRET,
                "Token that the caller sends as `Authorization: Bearer …`. Prefer a variable, `${NAME}`, to the secret \
                 itself.",
                read_secret,
            ),
            Key::new(
                "selection",
                Kind::Object(selection_shape),
                "Tools that this caller can see, within the general `selection`.",
                |node, token: &mut TokenDraft, scope| SELECTION.read(node, &mut token.selection, scope),
            ),
            Key::new(
                "limits",
                limits::KIND,
                "Limits of this caller, over all of its sessions. Overrides `pegboard.limits`.",
                |node, token: &mut TokenDraft, scope| token.limits = Some(limits::read_limits(node, scope)),
            ),
        ],
    )
};

/// Minimum length of a token; shorter ones can be guessed.
const MIN_TOKEN: usize = 16;

/// The format of a token: valid in a header and hard to guess.
pub(super) const SECRET: Kind = Kind::Shaped {
    pattern: r"^[!-~]{16,}$|\$\{",
    fits: "a token of at least 16 printable ASCII characters without spaces",
};

fn read_secret(node: &Node<'_>, token: &mut TokenDraft, scope: &mut Scope<'_>) {
    if let Some(secret) = expand_secret(node, scope) {
        token.secret = secret;
    }
}

/// Returns the value of a token, after checking that it can be sent and is hard to guess.
pub(super) fn expand_secret(node: &Node<'_>, scope: &mut Scope<'_>) -> Option<String> {
    let text = node.as_text(scope.problems)?;
    let secret = expand(node, text, scope);
    let is_sendable = secret.text.len() >= MIN_TOKEN && secret.text.chars().all(|c| c.is_ascii_graphic());
    if secret.is_complete && !is_sendable {
        let problem = node.problem(format!("must be {}", SECRET.describe()));
        scope.problems.push(problem.hint("`openssl rand -hex 32` makes one; if it is a variable, check its value"));
    }
    Some(secret.text)
}

pub(super) fn read_tokens(node: &Node<'_>, tokens: &mut Vec<Token>, scope: &mut Scope<'_>) {
    let (mut names, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    for item in node.as_list(scope.problems).unwrap_or_default() {
        let mut token = TokenDraft::default();
        TOKEN.read(&item, &mut token, scope);
        // Missing secrets were reported already, and are not duplicates of each other.
        let is_again = |text: &String, seen: &mut BTreeSet<String>| !text.is_empty() && !seen.insert(text.clone());
        if is_again(&token.name, &mut names) || is_again(&token.secret, &mut secrets) {
            scope.problems.push(item.problem("has the same name or token as another entry"));
        }
        let TokenDraft { name, secret, selection, limits } = token;
        tokens.push(Token { name, secret: Secret::new(secret), selection, limits });
    }
}
