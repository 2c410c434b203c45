//! The rules and their severities.

use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// For information.
    Note,
    /// A model may choose the wrong tool, or uses more tokens than necessary.
    Warning,
    /// A model cannot find or call the tool.
    Error,
}

impl Severity {
    /// All severities, the mildest first.
    pub const ALL: [Self; 3] = [Self::Note, Self::Warning, Self::Error];

    /// Returns the name in configurations and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A rule of the linter. The names are stable: baselines and configurations refer to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The tool has no description.
    NoDescription,
    /// A search for the description does not find the tool.
    NotFoundByDescription,
    /// A search for the words of the name does not find the tool.
    NotFoundByNameWords,
    /// The tool and another are so similar that a search for one finds the other.
    Confusable,
    /// Neither name nor description contains an action.
    NoAction,
    /// Neither name nor description contains an object of the action.
    NoDomain,
    /// No text describes the output.
    NoOutput,
    /// The description has too many tokens.
    LongDescription,
    /// The schema has too many tokens.
    CostlySchema,
    /// A required parameter has no description.
    UndescribedParameter,
    /// The name is longer than providers accept.
    NameTooLong,
    /// The name has characters that providers reject.
    UnsafeName,
    /// Several tools have the same name.
    DuplicateName,
}

impl Rule {
    /// All rules, in the order of the documentation.
    pub const ALL: [Self; 13] = [
        Self::NoDescription,
        Self::NotFoundByDescription,
        Self::NotFoundByNameWords,
        Self::Confusable,
        Self::NoAction,
        Self::NoDomain,
        Self::NoOutput,
        Self::LongDescription,
        Self::CostlySchema,
        Self::UndescribedParameter,
        Self::NameTooLong,
        Self::UnsafeName,
        Self::DuplicateName,
    ];

    /// Returns the name in configurations and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoDescription => "no-description",
            Self::NotFoundByDescription => "not-found-by-description",
            Self::NotFoundByNameWords => "not-found-by-name-words",
            Self::Confusable => "confusable",
            Self::NoAction => "no-action",
            Self::NoDomain => "no-domain",
            Self::NoOutput => "no-output",
            Self::LongDescription => "long-description",
            Self::CostlySchema => "costly-schema",
            Self::UndescribedParameter => "undescribed-parameter",
            Self::NameTooLong => "name-too-long",
            Self::UnsafeName => "unsafe-name",
            Self::DuplicateName => "duplicate-name",
        }
    }

    /// Returns the rule with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.as_str() == name)
    }

    /// Returns the severity of its findings; single findings may be milder.
    pub fn severity(self) -> Severity {
        match self {
            Self::NoDescription | Self::NotFoundByDescription => Severity::Error,
            Self::NoOutput | Self::DuplicateName => Severity::Note,
            _ => Severity::Warning,
        }
    }

    /// Returns a short description.
    pub const fn about(self) -> &'static str {
        match self {
            Self::NoDescription => "The tool has no description",
            Self::NotFoundByDescription => "A search for the beginning of its description does not find the tool",
            Self::NotFoundByNameWords => "A search for the words of its name does not find the tool",
            Self::Confusable => "Tools are so similar that a search for one finds the other",
            Self::NoAction => "Neither name nor description says what the tool does",
            Self::NoDomain => "Neither name nor description says what the tool acts on",
            Self::NoOutput => "Nothing says what the tool returns",
            Self::LongDescription => "The description costs too many tokens",
            Self::CostlySchema => "The schema costs too many tokens",
            Self::UndescribedParameter => "Required parameters are not described",
            Self::NameTooLong => "The name is longer than providers accept",
            Self::UnsafeName => "The name has characters that providers reject",
            Self::DuplicateName => "Several tools have the same name",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_found_by_its_name() {
        for rule in Rule::ALL {
            assert_eq!(Rule::find(rule.as_str()), Some(rule));
            assert!(!rule.about().ends_with('.'), "{rule}");
        }
        assert!(Rule::ALL.is_sorted());
        assert_eq!(Rule::find("nonsense"), None);
    }
}
