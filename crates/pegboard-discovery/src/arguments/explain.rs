//! Explanations of invalid arguments that a model can act on.

use std::fmt;

use pegboard_core::naming::nearest;
use serde_json::{Map, Value};

use super::{
    compare::is_type,
    schema::Schema,
    verdict::{SchemaCheck, Verdict},
};

/// Maximum number of reported mistakes.
const MOST: usize = 8;

/// Maximum number of steps of one search for mistakes.
const STEPS: usize = 200_000;

/// Maximum depth of the search.
const DEPTH: usize = 64;

/// Maximum number of characters of an echoed value or property name.
const SHOWN: usize = 60;

/// Maximum number of listed members of an `enum`.
const LISTED: usize = 20;

/// Maximum number of names that are searched for a similar one.
const NAMES: usize = 200;

/// One mistake in the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where, as a JSON pointer; empty for the arguments as a whole.
    pub pointer: String,
    /// What, going on from there: `is missing`.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => write!(f, "`arguments` {}", self.problem),
            pointer => write!(f, "{pointer} {}", self.problem),
        }
    }
}

impl Mistake {
    pub(super) fn not_an_object() -> Self {
        Self { pointer: String::new(), problem: "must be an object".to_owned() }
    }
}

impl Schema {
    /// Returns the mistakes in `arguments`; none if they are valid or cannot be decided.
    pub fn mistakes(&self, arguments: &Value) -> Vec<Mistake> {
        if self.verdict(arguments) != Verdict::No {
            return Vec::new();
        }
        let mut search =
            MistakeFinder { schema: self, check: SchemaCheck::with_steps(self, STEPS), found: Vec::new(), depth: 0 };
        search.find_mistakes(&self.root, arguments, "");
        if search.found.is_empty() {
            search.add("", "do not match the schema");
        }
        search.found
    }
}

struct MistakeFinder<'a> {
    schema: &'a Schema,
    /// All that is found out again is found out with this.
    check: SchemaCheck<'a>,
    found: Vec<Mistake>,
    depth: usize,
}

impl MistakeFinder<'_> {
    fn add(&mut self, pointer: &str, problem: impl Into<String>) {
        let mistake = Mistake { pointer: pointer.to_owned(), problem: problem.into() };
        if self.found.len() < MOST && !self.found.contains(&mistake) {
            self.found.push(mistake);
        }
    }

    fn fails(&mut self, rules: &Value, value: &Value) -> bool {
        self.check.check(rules, value) == Verdict::No
    }

    /// Finds the mistakes in an invalid value.
    fn find_mistakes(&mut self, rules: &Value, value: &Value, at: &str) {
        let Value::Object(rules) = rules else { return self.add(at, "is not allowed") };
        if self.depth == DEPTH || self.found.len() == MOST {
            return;
        }
        self.depth += 1;
        let alone = rules.get_key_value("$ref").filter(|_| self.schema.is_old);
        let all = || rules.iter().filter(|_| alone.is_none()).chain(alone);
        // What is missing comes first: it most often explains the rest.
        for is_first in [true, false] {
            for (key, rule) in all().filter(|(key, _)| (*key == "required") == is_first) {
                if self.check.keyword(key, rule, rules, value) == Verdict::No {
                    self.keyword(key, rule, rules, value, at);
                }
            }
        }
        self.depth -= 1;
    }

    fn keyword(&mut self, key: &str, rule: &Value, rules: &Map<String, Value>, value: &Value, at: &str) {
        let shown = || show(value);
        match key {
            "$ref" => {
                if let Some(target) = rule.as_str().and_then(|reference| self.schema.target(reference)) {
                    self.find_mistakes(target, value, at);
                }
            }
            "type" => self.add(at, format!("must be {}, not {}", describe_types(rule), shown())),
            "enum" => self.add(at, not_one_of(rule, value)),
            "const" => self.add(at, format!("must be {}, not {}", show(rule), shown())),
            "required" => self.find_missing(rule, rules, value, at),
            "properties" | "patternProperties" | "additionalProperties" => {
                self.check_children(key, rule, rules, value, at);
            }
            "items" | "prefixItems" | "additionalItems" => self.check_items(key, rule, rules, value, at),
            "allOf" => {
                for one in rule.as_array().into_iter().flatten() {
                    if self.fails(one, value) {
                        self.find_mistakes(one, value, at);
                    }
                }
            }
            "anyOf" | "oneOf" => self.check_forms(key, rule, value, at),
            "if" => {
                let branch = if self.fails(rule, value) { "else" } else { "then" };
                if let Some(rule) = rules.get(branch) {
                    self.find_mistakes(rule, value, at);
                }
            }
            _ => self.add(at, describe_broken_rule(key, rule, value)),
        }
    }

    fn find_missing(&mut self, names: &Value, rules: &Map<String, Value>, value: &Value, at: &str) {
        let Some(object) = value.as_object() else { return };
        let known = rules.get("properties").and_then(Value::as_object);
        let missing: Vec<&str> = names.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let missing: Vec<&str> = missing.into_iter().filter(|name| !object.contains_key(*name)).collect();
        for name in &missing {
            self.add(&child_pointer(at, name), "is missing");
        }
        // A name that was given and means nothing may be the one that is missing; where it is
        // forbidden that is said anyway.
        let is_open = rules.get("additionalProperties") != Some(&Value::Bool(false));
        let has_all_names = self.lists_all_names(rules);
        let unknown = object.keys().filter(|name| known.is_some_and(|known| !known.contains_key(*name)));
        for name in unknown.filter(|_| is_open).take(MOST) {
            match nearest(name, missing.iter().copied().take(NAMES), 1).pop() {
                Some(near) => self.add(&child_pointer(at, name), format!("is not known (did you mean `{near}`?)")),
                None if has_all_names && !missing.is_empty() => self.add(&child_pointer(at, name), "is not known"),
                None => {}
            }
        }
    }

    /// Returns whether `rules` are those of the arguments as a whole, and their `properties` are all
    /// that has a meaning.
    fn lists_all_names(&self, rules: &Map<String, Value>) -> bool {
        const OTHERS: [&str; 8] =
            ["additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "if", "$ref", "dependentSchemas"];
        let is_root = self.schema.root.as_object().is_some_and(|root| std::ptr::eq(root, rules));
        is_root && !OTHERS.iter().any(|key| rules.contains_key(*key))
    }

    /// Finds properties with invalid values, and properties that are not allowed.
    fn check_children(&mut self, key: &str, rule: &Value, rules: &Map<String, Value>, value: &Value, at: &str) {
        for (name, child) in value.as_object().into_iter().flatten() {
            let rule = match key {
                "properties" => rule.get(name),
                "additionalProperties" => (self.check.is_further(name, rules) == Verdict::Yes).then_some(rule),
                _ => {
                    let mut patterns = rule.as_object().into_iter().flatten();
                    let is_meant = |(pattern, rule): &(&String, &Value)| {
                        self.check.matches(pattern, name) == Verdict::Yes && self.fails(rule, child)
                    };
                    patterns.find(is_meant).map(|(_, rule)| rule)
                }
            };
            match rule {
                Some(Value::Bool(false)) => {
                    let known = rules.get("properties").and_then(Value::as_object);
                    let known = known.into_iter().flat_map(|known| known.keys().map(String::as_str));
                    let hint = match nearest(name, known.take(NAMES), 1).pop() {
                        Some(near) => format!(" (did you mean `{near}`?)"),
                        None => String::new(),
                    };
                    self.add(&child_pointer(at, name), format!("is not known{hint}"));
                }
                Some(rule) if self.fails(rule, child) => self.find_mistakes(rule, child, &child_pointer(at, name)),
                _ => {}
            }
        }
    }

    fn check_items(&mut self, key: &str, rule: &Value, rules: &Map<String, Value>, value: &Value, at: &str) {
        let before = |key: &str| rules.get(key).and_then(Value::as_array).map_or(0, Vec::len);
        let skipped = match (key, rule) {
            (_, Value::Array(_)) => 0,
            ("items", _) => before("prefixItems"),
            _ => before("items"),
        };
        for (number, item) in value.as_array().into_iter().flatten().enumerate().skip(skipped) {
            let rule = if let Value::Array(rules) = rule { rules.get(number) } else { Some(rule) };
            if let Some(rule) = rule.filter(|rule| self.fails(rule, item)) {
                self.find_mistakes(rule, item, &format!("{at}/{number}"));
            }
            if self.found.len() == MOST {
                return;
            }
        }
    }

    /// Explains a value that matches none of several alternatives, or too many. If one alternative
    /// was clearly meant, its mistakes are reported.
    fn check_forms(&mut self, key: &str, rule: &Value, value: &Value, at: &str) {
        let forms: Vec<&Value> = rule.as_array().into_iter().flatten().collect();
        if !forms.iter().all(|form| self.fails(form, value)) {
            return self.add(at, format!("matches more than one of the {} alternatives in `{key}`", forms.len()));
        }
        let meant: Vec<&&Value> = forms.iter().filter(|form| self.may_be_meant(form, value)).collect();
        match meant.as_slice() {
            [one] => self.find_mistakes(one, value, at),
            [] if forms.iter().all(|form| form.get("type").is_some()) => {
                let mut all: Vec<String> =
                    forms.iter().filter_map(|form| form.get("type")).map(describe_types).collect();
                all.dedup();
                self.add(at, format!("must be {}, not {}", all.join(" or "), show(value)));
            }
            _ => self.add(at, format!("matches none of the {} alternatives in `{key}`", forms.len())),
        }
    }

    /// Returns whether an alternative has the type of the value and the same discriminating
    /// properties.
    fn may_be_meant(&self, form: &Value, value: &Value) -> bool {
        let form = match form.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.schema.target(reference).unwrap_or(form),
            None => form,
        };
        let is_kind = match form.get("type") {
            Some(Value::String(kind)) => is_type(value, kind) != Some(false),
            Some(Value::Array(kinds)) => {
                kinds.iter().filter_map(Value::as_str).any(|kind| is_type(value, kind) != Some(false))
            }
            _ => true,
        };
        let properties = form.get("properties").and_then(Value::as_object);
        let has_marks =
            properties.into_iter().flatten().all(|(name, rule)| match (rule.get("const"), value.get(name)) {
                (Some(mark), Some(given)) => mark == given,
                _ => true,
            });
        is_kind && has_marks
    }
}

/// Describes what a bound, a pattern or another keyword requires.
fn describe_broken_rule(key: &str, rule: &Value, value: &Value) -> String {
    let (rule, shown) = (show(rule), show(value));
    match key {
        "minimum" => format!("must be at least {rule}, not {shown}"),
        "maximum" => format!("must be at most {rule}, not {shown}"),
        "exclusiveMinimum" => format!("must be more than {rule}, not {shown}"),
        "exclusiveMaximum" => format!("must be less than {rule}, not {shown}"),
        "multipleOf" => format!("must be a multiple of {rule}, not {shown}"),
        "minLength" => format!("must have at least {rule} characters"),
        "maxLength" => format!("must have at most {rule} characters"),
        "pattern" => format!("must match the pattern {rule}, not {shown}"),
        "minItems" => format!("must have at least {rule} items"),
        "maxItems" => format!("must have at most {rule} items"),
        "uniqueItems" => "must not have duplicate items".to_owned(),
        "minProperties" => format!("must have at least {rule} properties"),
        "maxProperties" => format!("must have at most {rule} properties"),
        "not" => "is excluded by `not` in the schema".to_owned(),
        key => format!("does not match `{key}`"),
    }
}

fn not_one_of(members: &Value, value: &Value) -> String {
    let members: Vec<&Value> = members.as_array().into_iter().flatten().collect();
    let mut listed: Vec<String> = members.iter().take(LISTED).map(|member| show(member)).collect();
    if members.len() > LISTED {
        listed.push(format!("… ({} in all)", members.len()));
    }
    let names = members.iter().filter_map(|member| member.as_str()).take(NAMES);
    let near = value.as_str().filter(|text| text.len() <= SHOWN).and_then(|text| nearest(text, names, 1).pop());
    let hint = near.map_or(String::new(), |near| format!(" (did you mean {}?)", show(&Value::from(near))));
    format!("must be one of {}, not {}{hint}", listed.join(", "), show(value))
}

/// Returns the allowed types in words: `a string or null`.
fn describe_types(rule: &Value) -> String {
    let with_article = |kind: &str| match kind {
        "integer" | "object" | "array" => format!("an {kind}"),
        "null" => kind.to_owned(),
        kind => format!("a {kind}"),
    };
    match rule {
        Value::String(kind) => with_article(kind),
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).map(with_article).collect::<Vec<_>>().join(" or ")
        }
        _ => "of another type".to_owned(),
    }
}

/// Returns a value as JSON, shortened.
fn show(value: &Value) -> String {
    match value {
        // Not written out whole only to be cut.
        Value::Array(items) if items.len() > SHOWN => format!("an array of {} items", items.len()),
        Value::Object(object) if object.len() > SHOWN => format!("an object of {} properties", object.len()),
        Value::String(text) if text.chars().nth(SHOWN).is_some() => {
            format!("{}…", Value::from(text.chars().take(SHOWN).collect::<String>()))
        }
        value => {
            let text = value.to_string();
            if text.chars().nth(SHOWN).is_none() {
                return text;
            }
            format!("{}…", text.chars().take(SHOWN).collect::<String>())
        }
    }
}

/// Returns the pointer to a property.
fn child_pointer(at: &str, name: &str) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}
