//! Parses the text of a query into a Tantivy query.

use tantivy::{
    query::{EmptyQuery, Occur, Query, QueryParser},
    query_grammar::{Delimiter, UserInputAst, UserInputLeaf, UserInputLiteral, parse_query},
};

/// Maximum nesting of a query: the parser recurses once for each parenthesis and each `NOT`.
const MAX_NESTING: usize = 64;

/// The field that words without a field are searched in.
const DEFAULT_FIELD: &str = "searchable_text";

/// Maximum number of words of a text that is not a valid query.
const MAX_WORDS: usize = 256;

/// Maximum number of terms that all `word*` of a query expand to together.
const MAX_PREFIX_TERMS: usize = 1024;

/// A query, and the pieces of it that can be matched by themselves.
pub(crate) struct Parsed {
    pub(crate) query: Box<dyn Query>,
    pub(crate) pieces: Vec<Piece>,
    /// Whether the text is not a valid query and is searched by its words.
    pub(crate) is_by_words: bool,
}

/// A word or phrase of a query that can raise a tool's score.
pub(crate) struct Piece {
    pub(crate) field: Option<String>,
    pub(crate) text: String,
    pub(crate) query: Box<dyn Query>,
}

/// The properties of the index that parsing needs.
pub(crate) trait Prefixes {
    /// Returns whether the index has this field.
    fn is_field(&self, name: &str) -> bool;

    /// Returns the terms that begin with `prefix`, or `None` if there are more than `most`.
    fn expand(&self, field: Option<&str>, prefix: &str, most: usize) -> Option<Vec<String>>;

    /// Returns whether the index can run `query`.
    fn can_run(&self, query: &dyn Query) -> bool;
}

/// Parses `text`. A text that is not a valid query, such as a question with an apostrophe, is
/// searched by its words; one without words finds nothing.
pub(crate) fn parse(text: &str, parser: &QueryParser, prefixes: &impl Prefixes) -> Parsed {
    if nesting(text) <= MAX_NESTING
        && let Ok(ast) = parse_query(text)
        && let Ok(parsed) = build(ast, parser, prefixes)
    {
        return parsed;
    }
    let words = build(by_words(text), parser, prefixes);
    let nothing = |()| Parsed { query: Box::new(EmptyQuery), pieces: Vec::new(), is_by_words: true };
    words.map_or_else(nothing, |parsed| Parsed { is_by_words: true, ..parsed })
}

/// Returns a query for any of the words of `text`. A name such as `create_issue` is one word: a
/// phrase, as in a valid query.
fn by_words(text: &str) -> UserInputAst {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let words = text.split(|c| !is_part(c)).map(|word| word.trim_matches(['_', '-']));
    let mut different: Vec<&str> = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        if !different.contains(&word) && different.len() < MAX_WORDS {
            different.push(word);
        }
    }
    let word = |word: &str| (None, literal(None, word.to_owned(), Delimiter::DoubleQuotes, false));
    UserInputAst::Clause(different.into_iter().map(word).collect())
}

/// Returns the depth of parentheses plus the longest sequence of `NOT`s.
fn nesting(text: &str) -> usize {
    let mut depth: usize = 0;
    let mut deepest = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let rows = words.chunk_by(|a, b| *a == "NOT" && *b == "NOT");
    deepest + rows.map(<[&str]>::len).max().unwrap_or(0)
}

fn build(ast: UserInputAst, parser: &QueryParser, prefixes: &impl Prefixes) -> Result<Parsed, ()> {
    let mut expander = Expander { prefixes, left: MAX_PREFIX_TERMS, leaves: Vec::new() };
    let ast = expander.expand(ast, true)?;
    let runnable = |ast: UserInputAst| {
        let query = parser.build_query_from_user_input_ast(ast).map_err(|_| ())?;
        if prefixes.can_run(&*query) { Ok(query) } else { Err(()) }
    };
    if expander.leaves.is_empty() {
        // Only words to exclude, and none to find.
        return Ok(Parsed { query: Box::new(EmptyQuery), pieces: Vec::new(), is_by_words: false });
    }
    let query = runnable(ast)?;
    let mut pieces = Vec::with_capacity(expander.leaves.len());
    for leaf in expander.leaves {
        pieces.push(Piece { field: leaf.field, text: leaf.text, query: runnable(leaf.ast)? });
    }
    Ok(Parsed { query, pieces, is_by_words: false })
}

/// A leaf as written by the user, and its expansion.
struct Leaf {
    field: Option<String>,
    text: String,
    ast: UserInputAst,
}

/// Expands every bare `word*`, whose star the parser would drop, to the terms with this prefix, and
/// collects the leaves that are not negated.
struct Expander<'a, P> {
    prefixes: &'a P,
    /// Number of terms that the prefixes of the query may still expand to.
    left: usize,
    leaves: Vec<Leaf>,
}

impl<P: Prefixes> Expander<'_, P> {
    fn expand(&mut self, ast: UserInputAst, counts: bool) -> Result<UserInputAst, ()> {
        Ok(match ast {
            UserInputAst::Clause(children) => {
                let expanded = children.into_iter().map(|(occur, child)| {
                    let counts = counts && occur != Some(Occur::MustNot);
                    Ok((occur, self.expand(child, counts)?))
                });
                UserInputAst::Clause(expanded.collect::<Result<_, ()>>()?)
            }
            UserInputAst::Boost(inner, boost) => {
                let first = self.leaves.len();
                let inner = self.expand(*inner, counts)?;
                for leaf in &mut self.leaves[first..] {
                    let ast = std::mem::replace(&mut leaf.ast, UserInputAst::Clause(Vec::new()));
                    leaf.ast = UserInputAst::Boost(Box::new(ast), boost);
                }
                UserInputAst::Boost(Box::new(inner), boost)
            }
            UserInputAst::Leaf(leaf) => {
                let (field, text) = describe(&leaf);
                let ast = self.expand_leaf(*leaf)?;
                if counts {
                    self.leaves.push(Leaf { field, text, ast: ast.clone() });
                }
                ast
            }
        })
    }

    fn expand_leaf(&mut self, leaf: UserInputLeaf) -> Result<UserInputAst, ()> {
        match leaf {
            UserInputLeaf::Literal(written) => Ok(self.expand_literal(written)),
            // A regular expression is not part of the query language.
            UserInputLeaf::Regex { .. } => Err(()),
            // Every tool has every field.
            UserInputLeaf::Exists { field } if self.prefixes.is_field(&field) => Ok(leaf_ast(UserInputLeaf::All)),
            leaf => Ok(leaf_ast(leaf)),
        }
    }

    fn expand_literal(&mut self, written: UserInputLiteral) -> UserInputAst {
        let stem = written.phrase.trim_end_matches('*');
        if written.delimiter != Delimiter::None || stem.len() == written.phrase.len() || stem.is_empty() {
            return leaf_ast(UserInputLeaf::Literal(written));
        }
        let field = written.field_name;
        let words: Vec<&str> = stem.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let &[word] = words.as_slice() else {
            return literal(field, words.join(" "), Delimiter::DoubleQuotes, true);
        };
        let prefix = word.to_lowercase();
        let Some(terms) = self.prefixes.expand(field.as_deref(), &prefix, self.left) else {
            // So many words that a single one matters little: all have the same weight.
            let field = field.unwrap_or_else(|| DEFAULT_FIELD.to_owned());
            return leaf_ast(UserInputLeaf::Regex { field: Some(field), pattern: format!("{prefix}.*") });
        };
        self.left -= terms.len();
        if terms.is_empty() {
            return literal(field, word.to_owned(), Delimiter::None, false);
        }
        let term = |term| (None, literal(field.clone(), term, Delimiter::DoubleQuotes, false));
        UserInputAst::Clause(terms.into_iter().map(term).collect())
    }
}

/// Returns the field and the text of a leaf.
fn describe(leaf: &UserInputLeaf) -> (Option<String>, String) {
    match leaf {
        UserInputLeaf::Literal(literal) => (literal.field_name.clone(), literal.phrase.clone()),
        UserInputLeaf::All => (None, "*".to_owned()),
        UserInputLeaf::Exists { field } => (Some(field.clone()), "*".to_owned()),
        UserInputLeaf::Range { field, .. } | UserInputLeaf::Set { field, .. } => (field.clone(), format!("{leaf:?}")),
        UserInputLeaf::Regex { field, pattern } => (field.clone(), pattern.clone()),
    }
}

fn leaf_ast(leaf: UserInputLeaf) -> UserInputAst {
    UserInputAst::Leaf(Box::new(leaf))
}

fn literal(field_name: Option<String>, phrase: String, delimiter: Delimiter, prefix: bool) -> UserInputAst {
    let literal = UserInputLiteral { field_name, phrase, delimiter, slop: 0, prefix };
    leaf_ast(UserInputLeaf::Literal(literal))
}
