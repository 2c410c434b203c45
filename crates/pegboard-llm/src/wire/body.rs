//! Bodies of requests that are written without copying the conversation and the tools.

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

/// The fields of a body, in order.
#[derive(Debug, Default)]
pub(crate) struct Body<'a>(Vec<(Cow<'a, str>, Field<'a>)>);

#[derive(Debug)]
enum Field<'a> {
    Value(Cow<'a, Value>),
    /// A list, with an optional first item.
    List(Option<Value>, &'a [Value]),
    /// A list with some items replaced.
    Patched(&'a [Value], Vec<(usize, Value)>),
    /// A list of one object, which has a list under this key.
    Nested(&'static str, &'a [Value]),
}

impl<'a> Body<'a> {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn insert(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.push((key.into(), Field::Value(Cow::Owned(value.into()))));
    }

    pub(super) fn list(&mut self, key: &'static str, list: &'a [Value]) {
        self.0.push((key.into(), Field::List(None, list)));
    }

    /// Adds a [`list`](Self::list) with an optional first item.
    pub(super) fn list_behind(&mut self, key: &'static str, first: Option<Value>, list: &'a [Value]) {
        self.0.push((key.into(), Field::List(first, list)));
    }

    /// Adds a [`list`](Self::list) with `other` items at some positions.
    pub(super) fn list_with(&mut self, key: &'static str, list: &'a [Value], other: Vec<(usize, Value)>) {
        self.0.push((key.into(), Field::Patched(list, other)));
    }

    pub(super) fn nested(&mut self, key: &'static str, inner: &'static str, list: &'a [Value]) {
        self.0.push((key.into(), Field::Nested(inner, list)));
    }

    /// Adds further fields, which take precedence.
    pub(super) fn extend(&mut self, extra: &'a Map<String, Value>) {
        for (key, value) in extra {
            let field = Field::Value(Cow::Borrowed(value));
            match self.0.iter_mut().find(|(known, _)| known == key) {
                Some((_, old)) => *old = field,
                None => self.0.push((key.as_str().into(), field)),
            }
        }
    }
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, field) in &self.0 {
            map.serialize_entry(key, field)?;
        }
        map.end()
    }
}

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::List(first, list) => serializer.collect_seq(first.iter().chain(*list)),
            Self::Patched(list, other) => serializer.collect_seq(list.iter().enumerate().map(|(at, item)| {
                let other = other.iter().find(|(place, _)| *place == at);
                other.map_or(item, |(_, other)| other)
            })),
            Self::Nested(key, list) => serializer.collect_seq([std::collections::BTreeMap::from([(key, list)])]),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_keep_their_order_and_extra_ones_win() {
        let (list, extra) = ([json!(1), json!(2)], json!({"b": "other", "z": null}));
        let mut body = Body::new();
        body.insert("a", 1);
        body.insert("b", "text");
        body.list("c", &list);
        body.list_behind("d", Some(json!(0)), &list);
        body.nested("e", "inner", &list);
        body.list_with("f", &list, vec![(1, json!(3))]);
        body.extend(extra.as_object().expect("an object"));
        let text = serde_json::to_string(&body).expect("JSON");
        let expected = r#"{"a":1,"b":"other","c":[1,2],"d":[0,1,2],"e":[{"inner":[1,2]}],"f":[1,3],"z":null}"#;
        assert_eq!(text, expected);
    }
}
