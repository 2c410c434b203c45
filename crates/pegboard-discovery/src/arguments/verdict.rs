//! Validation of a value against a schema, within a budget.

use serde_json::{Map, Value};

use super::{
    compare::{is_equal, is_type, number_keyword, of_another_kind},
    schema::Schema,
};

/// Maximum number of steps of one validation; each keyword and each member of an `enum` is a step.
const STEPS: usize = 50_000;

/// Maximum depth. References that lead back to themselves end here.
const DEPTH: usize = 96;

/// The result of a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// The schema says something that is not understood here, or more than there is time for.
    Maybe,
}

use Verdict::{Maybe, No, Yes};

impl Verdict {
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (No, _) | (_, No) => No,
            (Yes, Yes) => Yes,
            _ => Maybe,
        }
    }

    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Yes, _) | (_, Yes) => Yes,
            (No, No) => No,
            _ => Maybe,
        }
    }

    pub(super) fn not(self) -> Self {
        match self {
            Yes => No,
            No => Yes,
            Maybe => Maybe,
        }
    }
}

impl From<bool> for Verdict {
    fn from(fits: bool) -> Self {
        if fits { Yes } else { No }
    }
}

impl From<Option<bool>> for Verdict {
    fn from(fits: Option<bool>) -> Self {
        fits.map_or(Maybe, Self::from)
    }
}

impl Schema {
    /// Validates a value.
    pub fn verdict(&self, value: &Value) -> Verdict {
        SchemaCheck::new(self).check(&self.root, value)
    }
}

/// One validation with its budget.
pub(super) struct SchemaCheck<'a> {
    pub(super) schema: &'a Schema,
    steps: usize,
    depth: usize,
}

impl<'a> SchemaCheck<'a> {
    pub(super) fn new(schema: &'a Schema) -> Self {
        Self::with_steps(schema, STEPS)
    }

    /// Creates a validation with a budget of `steps` for all its checks.
    pub(super) fn with_steps(schema: &'a Schema, steps: usize) -> Self {
        Self { schema, steps, depth: 0 }
    }

    /// Takes `steps` off the budget; `false` if they are not left.
    pub(super) fn take(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_sub(steps);
        self.steps > 0
    }

    /// Validates `value` against `rules`, a schema or a part of one.
    pub(super) fn check(&mut self, rules: &Value, value: &Value) -> Verdict {
        match rules {
            Value::Bool(fits) => (*fits).into(),
            Value::Object(rules) if self.depth < DEPTH => {
                self.depth += 1;
                let verdict = self.check_object(rules, value);
                self.depth -= 1;
                verdict
            }
            _ => Maybe,
        }
    }

    fn check_object(&mut self, rules: &Map<String, Value>, value: &Value) -> Verdict {
        if self.schema.is_old
            && let Some(reference) = rules.get("$ref")
        {
            return self.keyword("$ref", reference, rules, value);
        }
        // A keyword of OpenAPI, which some servers understand.
        if value.is_null() && rules.get("nullable") == Some(&Value::Bool(true)) {
            return Maybe;
        }
        let mut verdict = Yes;
        for (key, rule) in rules {
            if !self.take(1) {
                return Maybe;
            }
            verdict = verdict.and(self.keyword(key, rule, rules, value));
            if verdict == No {
                return No;
            }
        }
        verdict
    }

    /// Validates `value` against one keyword; `rules` is the schema that contains it.
    pub(super) fn keyword(&mut self, key: &str, rule: &Value, rules: &Map<String, Value>, value: &Value) -> Verdict {
        match key {
            "$ref" => match rule.as_str().and_then(|reference| self.schema.target(reference)) {
                Some(target) => self.check(target, value),
                None => Maybe,
            },
            "type" => match rule {
                Value::String(kind) => is_type(value, kind).into(),
                Value::Array(kinds) => self.any(kinds, |_, kind| match kind.as_str() {
                    Some(kind) => is_type(value, kind).into(),
                    None => Maybe,
                }),
                _ => Maybe,
            },
            "enum" => match rule {
                Value::Array(members) if self.take(members.len()) => {
                    members.iter().any(|member| is_equal(member, value)).into()
                }
                _ => Maybe,
            },
            "const" => is_equal(rule, value).into(),
            "allOf" | "anyOf" | "oneOf" | "not" | "if" => self.combination(key, rule, rules, value),
            "dependentRequired" | "dependentSchemas" | "dependencies" => self.dependencies(rule, value),
            // What these say is said by another keyword, or is meant for people.
            "then" | "else" | "minContains" | "maxContains" | "title" | "description" | "default" | "examples"
            | "example" | "deprecated" | "readOnly" | "writeOnly" | "$comment" | "$schema" | "$id" | "id" | "$defs"
            | "definitions" | "$anchor" | "nullable" => Yes,
            _ => match value {
                Value::Number(number) => number_keyword(key, rule, rules, number),
                Value::String(text) => self.text_keyword(key, rule, text),
                Value::Array(items) => self.array_keyword(key, rule, rules, items),
                Value::Object(object) => self.object_keyword(key, rule, rules, object),
                Value::Null | Value::Bool(_) => of_another_kind(key),
            },
        }
    }

    /// Validates `value` against several schemas, combined by a keyword.
    fn combination(&mut self, key: &str, rule: &Value, rules: &Map<String, Value>, value: &Value) -> Verdict {
        match (key, rule) {
            ("allOf", Value::Array(all)) => all.iter().fold(Yes, |verdict, one| match verdict {
                No => No,
                verdict => verdict.and(self.check(one, value)),
            }),
            ("anyOf", Value::Array(any)) => self.any(any, |look, one| look.check(one, value)),
            ("oneOf", Value::Array(forms)) => self.one_of(forms, value),
            ("not", rule) => self.check(rule, value).not(),
            ("if", rule) => {
                let consequence = |look: &mut Self, key| rules.get(key).map_or(Yes, |rule| look.check(rule, value));
                match self.check(rule, value) {
                    Yes => consequence(self, "then"),
                    No => consequence(self, "else"),
                    Maybe => {
                        let (then, otherwise) = (consequence(self, "then"), consequence(self, "else"));
                        if then == No && otherwise == No { No } else { Maybe }
                    }
                }
            }
            _ => Maybe,
        }
    }

    /// Checks whether one of several schemas matches.
    fn any(&mut self, forms: &[Value], mut check: impl FnMut(&mut Self, &Value) -> Verdict) -> Verdict {
        let mut verdict = No;
        for form in forms {
            if !self.take(1) {
                return Maybe;
            }
            verdict = verdict.or(check(self, form));
            if verdict == Yes {
                return Yes;
            }
        }
        verdict
    }

    fn one_of(&mut self, forms: &[Value], value: &Value) -> Verdict {
        let (mut fitting, mut unclear) = (0, false);
        for form in forms {
            match self.check(form, value) {
                Yes => fitting += 1,
                Maybe => unclear = true,
                No => {}
            }
            if fitting > 1 {
                return No;
            }
        }
        if unclear { Maybe } else { (fitting == 1).into() }
    }

    /// Checks the properties or schemas that a property requires.
    fn dependencies(&mut self, rules: &Value, value: &Value) -> Verdict {
        let Some(object) = value.as_object() else { return Yes };
        let Some(rules) = rules.as_object() else { return Maybe };
        let concerned = rules.iter().filter(|(name, _)| object.contains_key(*name));
        concerned.fold(Yes, |verdict, (_, rule)| match rule {
            Value::Array(names) => {
                let has = |name: &Value| name.as_str().is_none_or(|name| object.contains_key(name));
                verdict.and(names.iter().all(has).into())
            }
            rule => verdict.and(self.check(rule, value)),
        })
    }
}
