//! What is looked for.

use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// It is good to know.
    Note,
    /// A model may choose wrong, or pays more than it should.
    Warning,
    /// A model cannot find it.
    Error,
}

impl Severity {
    /// All of them, the mildest first.
    pub const ALL: [Self; 3] = [Self::Note, Self::Warning, Self::Error];

    /// The name that people and programs use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One kind of weakness. The names stay: baselines and configurations refer to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The tool has no description.
    NoDescription,
    /// Its own description does not find it.
    NotFoundByDescription,
    /// The words of its name do not find it.
    NotFoundByNameWords,
    /// It and another are so alike that a search for one finds the other.
    Confusable,
    /// Neither name nor description says what it does.
    NoAction,
    /// Neither name nor description says what it acts on.
    NoDomain,
    /// Nothing says what comes back.
    NoOutput,
    /// The description costs too many tokens.
    LongDescription,
    /// The schema costs too many tokens.
    CostlySchema,
    /// A parameter that must be given is not described.
    UndescribedParameter,
    /// The name is longer than providers accept.
    NameTooLong,
    /// The name has characters that providers reject.
    UnsafeName,
    /// Several tools have the name.
    DuplicateName,
}

impl Rule {
    /// All of them, in the order of the documentation.
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

    /// The name that people and programs use.
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

    /// The rule of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.as_str() == name)
    }

    /// How bad its findings are; single ones may be milder.
    pub fn severity(self) -> Severity {
        match self {
            Self::NoDescription | Self::NotFoundByDescription => Severity::Error,
            Self::NoOutput | Self::DuplicateName => Severity::Note,
            _ => Severity::Warning,
        }
    }

    /// What it finds, in a few words.
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
