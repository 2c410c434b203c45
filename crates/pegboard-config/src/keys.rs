//! The keys that a reader knows, each declared once: what fits, what it means, and what
//! becomes of it. Reading, the JSON Schema and the reference are all made of these, so that
//! none of them can know a key that the others do not.

use std::fmt;

use pegboard_core::naming;

use crate::document::{Node, Problems};

/// The value of a variable by its name.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What every reader needs beside the node: where variables come from, and where mistakes go.
pub struct Scope<'a> {
    /// Variables.
    pub env: Lookup<'a>,
    /// Mistakes.
    pub problems: &'a mut Problems,
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("problems", &self.problems).finish_non_exhaustive()
    }
}

/// What a value can be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// A text that is not blank.
    Word,
    /// True or false.
    Flag,
    /// A whole number.
    Count {
        /// The smallest that makes sense.
        least: usize,
    },
    /// A port, 1 to 65535.
    Port,
    /// A number from 0 to 1.
    Share,
    /// Any number.
    Number,
    /// Seconds, or a text with a unit.
    Duration {
        /// Whether no time at all makes sense.
        may_be_zero: bool,
    },
    /// Seconds, milliseconds from 1000 on, or a text with a unit.
    Timeout,
    /// A text, a number, a flag, or `null` for nothing.
    Scalar,
    /// Anything.
    Any,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A text of a certain shape.
    Shaped {
        /// The shape as a regular expression of JSON Schema.
        pattern: &'static str,
        /// The shape in words.
        fits: &'static str,
    },
    /// A list.
    List(&'static Kind),
    /// A list of texts with something in it: where an empty list could be taken for
    /// "nothing" by people and for "no limits" by programs.
    Names,
    /// An object with keys of the user's own.
    Map(&'static Kind),
    /// Any of these.
    Either(&'static [Kind]),
    /// An object with known keys.
    Object(fn() -> Shape),
    /// A list that is declared under this name in another place.
    Elsewhere(&'static str),
}

impl Kind {
    /// What fits, in words that go on from "must be".
    pub fn fits(self) -> String {
        match self {
            Self::Text => "a string".into(),
            Self::Word => "a non-empty string".into(),
            Self::Flag => "true or false".into(),
            Self::Count { least: 0 } => "a non-negative integer".into(),
            Self::Count { least } => format!("an integer of at least {least}"),
            Self::Port => "a port, 1 to 65535".into(),
            Self::Share => "a number from 0 to 1".into(),
            Self::Number => "a number".into(),
            Self::Duration { may_be_zero: true } => "a number of seconds, or a string such as `30s` or `5m`".into(),
            Self::Duration { .. } => "a number of seconds above 0, or a string such as `30s` or `5m`".into(),
            Self::Timeout => {
                "a number of seconds (milliseconds if 1000 or more), or a string such as `30s` or `5m`".into()
            }
            Self::Scalar => "a string, a number, true or false".into(),
            Self::Any => "anything".into(),
            Self::OneOf(names) => one_of(names),
            Self::Shaped { fits, .. } => fits.into(),
            Self::List(Self::Text | Self::Word | Self::Shaped { .. }) => "a list of strings".into(),
            Self::List(Self::OneOf(names)) => format!("a list of {}", one_of(names)),
            Self::List(Self::Object(_)) | Self::Elsewhere(_) => "a list of objects".into(),
            Self::List(_) => "a list".into(),
            Self::Names => "a non-empty list of strings".into(),
            Self::Map(_) | Self::Object(_) => "an object".into(),
            Self::Either(kinds) => kinds.iter().map(|kind| kind.fits()).collect::<Vec<_>>().join(" or "),
        }
    }
}

/// `a`, `b` or `c`.
fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "nothing".into(),
    }
}

/// What a key is to people.
#[derive(Clone, Copy, Debug)]
pub struct KeyDoc {
    /// Its name.
    pub name: &'static str,
    /// What fits.
    pub kind: Kind,
    /// What it does.
    pub help: &'static str,
    /// What holds without it, as JSON.
    pub default: Option<&'static str>,
}

impl KeyDoc {
    /// A key without a default.
    pub const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, kind, help, default: None }
    }
}

/// What a key is to a reader: how its value gets into a `T`.
#[derive(Clone, Copy, Debug)]
pub struct Key<T> {
    /// What people are told.
    pub doc: KeyDoc,
    read: fn(&Node<'_>, &mut T, &mut Scope<'_>),
}

impl<T> Key<T> {
    /// A key without a default.
    pub const fn new(
        name: &'static str,
        kind: Kind,
        help: &'static str,
        read: fn(&Node<'_>, &mut T, &mut Scope<'_>),
    ) -> Self {
        Self { doc: KeyDoc::new(name, kind, help), read }
    }

    /// Says what holds without it, as JSON.
    #[must_use]
    pub const fn default(mut self, default: &'static str) -> Self {
        self.doc.default = Some(default);
        self
    }
}

/// An object with known keys, as people see it.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its name in the schema.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its keys.
    pub keys: Vec<KeyDoc>,
    /// Keys that other programs have there; they mean nothing here.
    pub ignored: &'static [&'static str],
    /// Keys that must be there.
    pub needs: &'static [&'static str],
    /// Keys of which one must be there.
    pub needs_one_of: &'static [&'static str],
    /// Whether `null` is as good as nothing.
    pub is_null_nothing: bool,
    /// Whether other keys are none of our business.
    pub is_open: bool,
}

/// An object with known keys, as its reader sees it.
#[derive(Debug)]
pub struct Section<T: 'static> {
    /// Its name in the schema.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its keys.
    pub keys: &'static [Key<T>],
    /// Keys that other programs have there; they mean nothing here.
    pub ignored: &'static [&'static str],
    /// Keys that must be there.
    pub needs: &'static [&'static str],
    /// Keys of which one must be there.
    pub needs_one_of: &'static [&'static str],
    /// Whether `null` is as good as nothing.
    pub is_null_nothing: bool,
    /// A hint about an unknown key, in place of the nearest known name.
    pub advise: fn(&str) -> Option<String>,
}

impl<T> Section<T> {
    /// A section whose keys may all be left out.
    pub const fn new(name: &'static str, about: &'static str, keys: &'static [Key<T>]) -> Self {
        Self {
            name,
            about,
            keys,
            ignored: &[],
            needs: &[],
            needs_one_of: &[],
            is_null_nothing: false,
            advise: |_| None,
        }
    }

    /// How people see it.
    pub fn shape(&self) -> Shape {
        Shape {
            name: self.name,
            about: self.about,
            keys: self.keys.iter().map(|key| key.doc).collect(),
            ignored: self.ignored,
            needs: self.needs,
            needs_one_of: self.needs_one_of,
            is_null_nothing: self.is_null_nothing,
            is_open: false,
        }
    }

    /// Reads the object at `node` into `into`, in the order of the file.
    pub fn read(&self, node: &Node<'_>, into: &mut T, scope: &mut Scope<'_>) {
        let Some(entries) = node.as_object(scope.problems) else { return };
        let is_nothing = |entry: &Node<'_>| self.is_null_nothing && entry.is_null();
        for entry in &entries {
            match self.keys.iter().find(|key| key.doc.name == entry.key()) {
                Some(_) if is_nothing(entry) => {}
                Some(key) => (key.read)(entry, into, scope),
                None => self.refuse(entry, scope.problems),
            }
        }
        let has = |key: &&&str| entries.iter().any(|entry| entry.key() == **key && !is_nothing(entry));
        for key in self.needs.iter().filter(|key| !has(key)) {
            scope.problems.push(node.problem(format!("needs `{key}`")));
        }
        if !self.needs_one_of.is_empty() && !self.needs_one_of.iter().any(|key| has(&key)) {
            scope.problems.push(node.problem(format!("needs {}", one_of(self.needs_one_of))));
        }
    }

    fn refuse(&self, entry: &Node<'_>, problems: &mut Problems) {
        if self.ignored.contains(&entry.key()) || is_comment(entry.key()) {
            return;
        }
        let problem = entry.problem("is not known");
        let known = || self.keys.iter().map(|key| key.doc.name);
        let near = || did_you_mean(entry.key(), known());
        let hint = if problems.is_full() { None } else { (self.advise)(entry.key()).or_else(near) };
        problems.push(match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        });
    }
}

/// Keys that people put notes under, JSON having had no comments for so long; they are
/// allowed everywhere.
pub fn is_comment(key: &str) -> bool {
    COMMENT_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// What the keys of notes begin with.
pub const COMMENT_PREFIXES: [&str; 3] = ["_", "//", "x-"];

/// The advice to write the known name that is nearest to `key`.
pub fn did_you_mean<'a>(key: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // Abbreviations are nearer to other words than to their own.
    let (key, known) = (if key == "cmd" { "command" } else { key }, known.into_iter());
    naming::nearest(key, known, 1).pop().map(|near| format!("did you mean `{near}`?"))
}

/// Changes `slot` if there is something to change it to.
pub fn set<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    #[derive(Default)]
    struct Point {
        x: usize,
        name: String,
    }

    static POINT: Section<Point> = Section {
        ignored: &["colour"],
        needs: &["x"],
        needs_one_of: &["name", "title"],
        ..Section::new(
            "point",
            "A point.",
            &[
                Key::new("x", Kind::Count { least: 0 }, "How far.", |node, point: &mut Point, scope| {
                    point.x = node.as_count(scope.problems).unwrap_or_default();
                })
                .default("0"),
                Key::new("name", Kind::Text, "What it is called.", |node, point: &mut Point, scope| {
                    point.name = node.as_text(scope.problems).unwrap_or_default().to_owned();
                }),
            ],
        )
    };

    #[track_caller]
    fn check(text: &str, expected: &[&str]) -> Point {
        let mut problems = Problems::new();
        let document = Document::parse(text, &mut problems).expect("a document");
        let mut point = Point::default();
        POINT.read(&document.root(), &mut point, &mut Scope { env: &|_| None, problems: &mut problems });
        assert_eq!(problems.lines(), expected, "{text}");
        point
    }

    #[test]
    fn known_keys_are_read_and_others_reported() {
        let point = check(r#"{"x": 3, "name": "a", "colour": 1, "_note": 2, "//": 3}"#, &[]);
        assert_eq!((point.x, point.name.as_str()), (3, "a"));
        check(
            "{\"nmae\": \"a\",\n \"zoom\": 1}",
            &[
                "line 1: `nmae` is not known (did you mean `name`?)",
                "line 1: the file needs `x`",
                "line 1: the file needs `name` or `title`",
                "line 2: `zoom` is not known",
            ],
        );
        check("3", &["line 1: the file must be an object"]);
    }

    #[test]
    fn kinds_in_words() {
        let check = |kind: Kind, expected| assert_eq!(kind.fits(), expected);
        check(Kind::OneOf(&["a"]), "`a`");
        check(Kind::OneOf(&["a", "b", "c"]), "`a`, `b` or `c`");
        check(Kind::Either(&[Kind::Text, Kind::List(&Kind::Text)]), "a string or a list of strings");
        check(Kind::Object(|| POINT.shape()), "an object");
    }
}
