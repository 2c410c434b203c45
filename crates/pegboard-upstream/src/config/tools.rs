//! Settings of single tools of a server.

use std::collections::BTreeMap;

use pegboard_config::{
    document::{Node, Problems},
    keys::{Key, Kind, Scope, Section},
};
use pegboard_core::{Annotations, text};

/// The changes that the user makes to one tool of a server. Nothing set changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOverride {
    /// Another name. The server still gets its own.
    pub name: Option<String>,
    /// Another display name.
    pub title: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Hints that replace those of the server, one by one.
    pub annotations: Annotations,
    /// Whether clients can neither see nor call the tool.
    pub is_hidden: bool,
    /// Whether it is listed without a search; `None` leaves it to the dialect.
    pub always_show: Option<bool>,
}

/// Whether a server may keep its tools always listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlwaysLoad {
    /// Whether `_meta["anthropic/alwaysLoad"]` of its tools counts.
    pub is_trusted: bool,
    /// Maximum number of tokens (estimated) of the tools that are listed because of it.
    pub max_tokens: usize,
}

impl Default for AlwaysLoad {
    fn default() -> Self {
        Self { is_trusted: false, max_tokens: 2_000 }
    }
}

/// Maximum number of characters of a summary.
const MAX_SUMMARY: usize = 120;

/// A summary of a server.
pub(super) const SUMMARY: Kind = Kind::Shaped { pattern: "^\\S.{0,119}$", fits: "a line of 1 to 120 characters" };

/// A name that the protocol allows.
const NAME: Kind = Kind::Shaped {
    pattern: "^[A-Za-z0-9_./-]{1,128}$",
    fits: "a name of 1 to 128 letters, digits, `_`, `-`, `.` or `/`",
};

/// The settings of one tool.
#[derive(Default)]
pub(super) struct ToolSettings {
    pub(super) changes: ToolOverride,
    pub(super) prompt_instructions: Option<String>,
}

/// The value of a tool's name.
pub(super) const KIND: Kind = Kind::Object(|| TOOL.shape());

static TOOL: Section<ToolSettings> = Section::new(
    "toolSettings",
    "Pegboard's settings for one tool of a server.",
    &[
        Key::new(
            "name",
            NAME,
            "Another name for the tool. Clients and models use only this name; the server still gets its own.",
            |node, tool: &mut ToolSettings, scope| tool.changes.name = read_name(node, scope.problems),
        ),
        Key::new("title", Kind::Word, "Another display name.", |node, tool: &mut ToolSettings, scope| {
            tool.changes.title = node.as_non_blank(scope.problems).map(str::to_owned);
        }),
        Key::new("description", Kind::Text, "Another description.", |node, tool: &mut ToolSettings, scope| {
            tool.changes.description = node.as_text(scope.problems).map(str::to_owned);
        }),
        Key::new(
            "annotations",
            Kind::Object(|| ANNOTATIONS.shape()),
            "Hints that replace those of the server, one by one.",
            |node, tool: &mut ToolSettings, scope| ANNOTATIONS.read(node, &mut tool.changes.annotations, scope),
        ),
        Key::new(
            "hidden",
            Kind::Flag,
            "Hides the tool: clients can neither see nor call it.",
            |node, tool: &mut ToolSettings, scope| {
                tool.changes.is_hidden = node.as_bool(scope.problems).unwrap_or_default();
            },
        )
        .default("false"),
        Key::new(
            "alwaysShow",
            Kind::Flag,
            "Lists the tool without a search if true. If false, it is found only by search, also if the server asks \
             for it to be listed.",
            |node, tool: &mut ToolSettings, scope| tool.changes.always_show = node.as_bool(scope.problems),
        ),
        Key::new(
            "promptInstructions",
            Kind::Text,
            "Instructions for the model on when to use the tool. Overrides the server's `promptInstructions`.",
            |node, tool: &mut ToolSettings, scope| {
                tool.prompt_instructions = node.as_text(scope.problems).map(str::to_owned);
            },
        ),
    ],
);

static ANNOTATIONS: Section<Annotations> = Section::new(
    "toolAnnotations",
    "Hints about the effects of a tool.",
    &[
        Key::new("readOnlyHint", Kind::Flag, "The tool changes nothing.", |node, hints: &mut Annotations, scope| {
            hints.read_only = node.as_bool(scope.problems);
        }),
        Key::new(
            "destructiveHint",
            Kind::Flag,
            "The tool may delete or overwrite something.",
            |node, hints: &mut Annotations, scope| hints.destructive = node.as_bool(scope.problems),
        ),
        Key::new(
            "idempotentHint",
            Kind::Flag,
            "A second call with the same arguments changes nothing more.",
            |node, hints: &mut Annotations, scope| hints.idempotent = node.as_bool(scope.problems),
        ),
        Key::new(
            "openWorldHint",
            Kind::Flag,
            "The tool reaches things outside its own system.",
            |node, hints: &mut Annotations, scope| hints.open_world = node.as_bool(scope.problems),
        ),
    ],
);

/// Reads the settings of the tools of a server.
pub(super) fn read(node: &Node<'_>, scope: &mut Scope<'_>) -> Vec<(String, ToolSettings)> {
    let mut tools: Vec<(String, ToolSettings)> = Vec::new();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for entry in node.as_object(scope.problems).unwrap_or_default() {
        let mut settings = ToolSettings::default();
        TOOL.read(&entry, &mut settings, scope);
        if let Some(name) = settings.changes.name.clone() {
            if let Some(other) = names.get(&name) {
                let problem = entry.problem(format!("has the name `{name}`, which `{other}` has too"));
                scope.problems.push(problem.hint("choose another `name` for one of them"));
                settings.changes.name = None;
            } else {
                names.insert(name, entry.key().to_owned());
            }
        }
        tools.push((entry.key().to_owned(), settings));
    }
    tools
}

fn read_name(node: &Node<'_>, problems: &mut Problems) -> Option<String> {
    let name = node.as_non_blank(problems)?;
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    if name.len() <= 128 && name.bytes().all(is_valid) {
        return Some(name.to_owned());
    }
    problems.push(node.problem(format!("must be {}", NAME.describe())));
    None
}

/// Reads the summary of a server.
pub(super) fn read_summary(node: &Node<'_>, problems: &mut Problems) -> Option<String> {
    let summary = node.as_text(problems)?;
    let is_line = !summary.contains(['\n', '\r', '\u{2028}', '\u{2029}']);
    let is_begun = summary.chars().next().is_some_and(|c| !c.is_whitespace());
    if summary.chars().count() <= MAX_SUMMARY && is_line && is_begun {
        return Some(text::line(summary).into_owned());
    }
    problems.push(node.problem(format!("must be {}", SUMMARY.describe())));
    None
}
