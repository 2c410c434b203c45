//! Tables of configuration keys. Each key is declared once: its kind of value, its help text, and
//! its reader. Reading, the JSON Schema and the reference all use these tables, so that they
//! cannot differ.

use std::fmt;

use pegboard_core::naming;

use crate::document::{Node, Problems};

/// Returns the value of a variable by its name.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The context of every reader: the source of variables, and the list of problems.
pub struct Scope<'a> {
    /// The source of variables.
    pub env: Lookup<'a>,
    /// The list of problems.
    pub problems: &'a mut Problems,
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("problems", &self.problems).finish_non_exhaustive()
    }
}

/// The kind of a value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Any string.
    Text,
    /// A string that is not blank.
    Word,
    /// True or false.
    Flag,
    /// A whole number.
    Count {
        /// The minimum.
        least: usize,
    },
    /// A port, 1 to 65535.
    Port,
    /// A number from 0 to 1.
    Share,
    /// Any number.
    Number,
    /// A number of seconds, or a string with a unit.
    Duration {
        /// Whether zero is allowed.
        may_be_zero: bool,
    },
    /// A number of seconds, or of milliseconds if it is at least 1000, or a string with a unit.
    Timeout,
    /// A string, a number, a flag, or `null` for no value.
    Scalar,
    /// Any value.
    Any,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// A string that matches a pattern.
    Shaped {
        /// The pattern as a regular expression of JSON Schema.
        pattern: &'static str,
        /// The pattern in words.
        fits: &'static str,
    },
    /// A list.
    List(&'static Kind),
    /// A non-empty list of strings, for settings where users could mean "nothing" by an empty list
    /// and programs would take it for "no limits".
    Names,
    /// An object with user-defined keys.
    Map(&'static Kind),
    /// A value of any of these kinds.
    Either(&'static [Kind]),
    /// An object with known keys.
    Object(fn() -> Shape),
    /// A list that another crate defines in the schema under this name.
    Reference(&'static str),
}

impl Kind {
    /// Describes the kind in words that continue "must be".
    pub fn describe(self) -> String {
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
            Self::List(Self::Object(_)) | Self::Reference(_) => "a list of objects".into(),
            Self::List(_) => "a list".into(),
            Self::Names => "a non-empty list of strings".into(),
            Self::Map(_) | Self::Object(_) => "an object".into(),
            Self::Either(kinds) => kinds.iter().map(|kind| kind.describe()).collect::<Vec<_>>().join(" or "),
        }
    }
}

/// Joins names: `a`, `b` or `c`.
fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "nothing".into(),
    }
}

/// The documentation of a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyDoc {
    /// The name of the key.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// The help text.
    pub help: &'static str,
    /// The default value as JSON.
    pub default: Option<&'static str>,
}

impl KeyDoc {
    /// A key without a default.
    pub const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, kind, help, default: None }
    }
}

/// A key, and how its value is read into a `T`.
#[derive(Clone, Copy, Debug)]
pub struct Key<T> {
    /// The documentation of the key.
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

    /// Sets the default value as JSON, for the documentation.
    #[must_use]
    pub const fn default(mut self, default: &'static str) -> Self {
        self.doc.default = Some(default);
        self
    }
}

/// The documentation of an object with known keys.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The name of the object in the schema.
    pub name: &'static str,
    /// A description of the object.
    pub about: &'static str,
    /// The keys of the object.
    pub keys: Vec<KeyDoc>,
    /// Keys of other programs, which are ignored.
    pub ignored: &'static [&'static str],
    /// Required keys.
    pub required: &'static [&'static str],
    /// Keys of which one is required.
    pub required_one_of: &'static [&'static str],
    /// Whether `null` is treated as a missing value.
    pub is_null_missing: bool,
    /// Whether unknown keys are ignored.
    pub is_open: bool,
}

/// An object with known keys, and how it is read into a `T`.
#[derive(Debug)]
pub struct Section<T: 'static> {
    /// The name of the object in the schema.
    pub name: &'static str,
    /// A description of the object.
    pub about: &'static str,
    /// The keys of the object.
    pub keys: &'static [Key<T>],
    /// Keys of other programs, which are ignored.
    pub ignored: &'static [&'static str],
    /// Required keys.
    pub required: &'static [&'static str],
    /// Keys of which one is required.
    pub required_one_of: &'static [&'static str],
    /// Whether `null` is treated as a missing value.
    pub is_null_missing: bool,
    /// Returns a hint about an unknown key, in place of the nearest known name.
    pub advise: fn(&str) -> Option<String>,
}

impl<T> Section<T> {
    /// Creates a section whose keys are all optional.
    pub const fn new(name: &'static str, about: &'static str, keys: &'static [Key<T>]) -> Self {
        Self {
            name,
            about,
            keys,
            ignored: &[],
            required: &[],
            required_one_of: &[],
            is_null_missing: false,
            advise: |_| None,
        }
    }

    /// Returns the documentation of the object.
    pub fn shape(&self) -> Shape {
        Shape {
            name: self.name,
            about: self.about,
            keys: self.keys.iter().map(|key| key.doc).collect(),
            ignored: self.ignored,
            required: self.required,
            required_one_of: self.required_one_of,
            is_null_missing: self.is_null_missing,
            is_open: false,
        }
    }

    /// Reads `true`, `false` or an object, for a section that is off by default. `kind` is what the
    /// value must be; `None` switches it off.
    pub fn read_if_on(&self, node: &Node<'_>, kind: Kind, scope: &mut Scope<'_>) -> Option<T>
    where
        T: Default,
    {
        let mut settings = T::default();
        if node.is_object() {
            self.read(node, &mut settings, scope);
            return Some(settings);
        }
        let is_on = node.to_json().as_bool();
        if is_on.is_none() {
            node.must_be(kind, scope.problems);
        }
        is_on.unwrap_or_default().then_some(settings)
    }

    /// Reads the object at `node` into `into`, in the order of the file.
    pub fn read(&self, node: &Node<'_>, into: &mut T, scope: &mut Scope<'_>) {
        let Some(entries) = node.as_object(scope.problems) else { return };
        let is_nothing = |entry: &Node<'_>| self.is_null_missing && entry.is_null();
        for entry in &entries {
            match self.keys.iter().find(|key| key.doc.name == entry.key()) {
                Some(_) if is_nothing(entry) => {}
                Some(key) => (key.read)(entry, into, scope),
                None => self.report_unknown_key(entry, scope.problems),
            }
        }
        let has = |key: &&&str| entries.iter().any(|entry| entry.key() == **key && !is_nothing(entry));
        for key in self.required.iter().filter(|key| !has(key)) {
            scope.problems.push(node.problem(format!("needs `{key}`")));
        }
        if !self.required_one_of.is_empty() && !self.required_one_of.iter().any(|key| has(&key)) {
            scope.problems.push(node.problem(format!("needs {}", one_of(self.required_one_of))));
        }
    }

    fn report_unknown_key(&self, entry: &Node<'_>, problems: &mut Problems) {
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

/// Returns whether a key is a comment. Such keys are allowed everywhere, because JSON itself has no
/// comments.
pub fn is_comment(key: &str) -> bool {
    COMMENT_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// The prefixes of comment keys.
pub const COMMENT_PREFIXES: [&str; 3] = ["_", "//", "x-"];

/// Returns a hint with the known name that is nearest to `key`.
pub fn did_you_mean<'a>(key: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // By edit distance, abbreviations are nearer to other words than to their own.
    let (key, known) = (if key == "cmd" { "command" } else { key }, known.into_iter());
    naming::nearest(key, known, 1).pop().map(|near| format!("did you mean `{near}`?"))
}

/// Sets `slot` if there is a value.
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
        required: &["x"],
        required_one_of: &["name", "title"],
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
        let check = |kind: Kind, expected| assert_eq!(kind.describe(), expected);
        check(Kind::OneOf(&["a"]), "`a`");
        check(Kind::OneOf(&["a", "b", "c"]), "`a`, `b` or `c`");
        check(Kind::Either(&[Kind::Text, Kind::List(&Kind::Text)]), "a string or a list of strings");
        check(Kind::Object(|| POINT.shape()), "an object");
    }
}
