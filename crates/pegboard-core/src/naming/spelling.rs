//! The spellings of a name that are accepted wherever a name is accepted.

use super::fold;
use crate::Tool;

/// Separators between a server and its tool, in the ways that programs write them.
const SEPARATORS: [&str; 5] = ["___", "__", "/", ":", "."];

/// Places at which a name is split, for each separator.
const MAX_SPLITS: usize = 8;

/// The prefix that some programs put in front of the server.
const PREFIX: &str = "mcp__";

/// A name as a user or a model writes it: bare, with its server (`server___tool`, `server__tool`,
/// `server/tool`, `server:tool`, `server.tool`, `mcp__server__tool`), in any case style.
///
/// ```
/// use pegboard_core::naming::Spelling;
///
/// let spelling = Spelling::new("mcp__git-hub__createIssue");
/// assert!(spelling.qualified().any(|(server, tool)| server == "github" && tool == "createissue"));
/// ```
#[derive(Clone, Debug)]
pub struct Spelling {
    folded: String,
    /// Folded server and tool, for each place at which the name can be split.
    qualified: Vec<(String, String)>,
}

impl Spelling {
    /// The spelling of `name`.
    pub fn new(name: &str) -> Self {
        let mut qualified = Vec::new();
        // A name has no spaces; a query has.
        let is_name = !name.contains(char::is_whitespace);
        for name in [Some(name), name.strip_prefix(PREFIX)].into_iter().flatten().filter(|_| is_name) {
            for separator in SEPARATORS {
                for (at, _) in name.match_indices(separator).take(MAX_SPLITS) {
                    let parts = (fold(&name[..at]), fold(&name[at + separator.len()..]));
                    if !parts.0.is_empty() && !parts.1.is_empty() && !qualified.contains(&parts) {
                        qualified.push(parts);
                    }
                }
            }
        }
        Self { folded: fold(name), qualified }
    }

    /// The whole name in the form in which all case styles are equal.
    pub fn folded(&self) -> &str {
        &self.folded
    }

    /// Server and tool in that form, for each place at which the name can be split.
    pub fn qualified(&self) -> impl Iterator<Item = (&str, &str)> {
        self.qualified.iter().map(|(server, tool)| (server.as_str(), tool.as_str()))
    }

    /// Returns whether `tool` can be meant: by its name, with or without the server.
    pub fn fits(&self, tool: &Tool) -> bool {
        [tool.name(), tool.bare_name()].iter().any(|name| self.fits_name(name, tool.server_name()))
    }

    /// Returns whether an item of this name can be meant, with or without its server.
    pub fn fits_name(&self, name: &str, server: Option<&str>) -> bool {
        let name = fold(name);
        if name == self.folded {
            return true;
        }
        let Some(server) = server.map(fold) else { return false };
        self.qualified.iter().any(|(of, tool)| *of == server && *tool == name)
    }
}
