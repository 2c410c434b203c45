//! JSON objects that are parsed one level deep and keep the bytes of their values.
//!
//! A proxy must not lose fields it does not know, reorder keys or rewrite numbers. So a
//! message is parsed one level deep, and the values below keep their bytes.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};
use serde_json::value::RawValue;

/// A JSON value as its original bytes.
pub type Raw = Box<RawValue>;

/// A shared JSON value as its original bytes.
pub type SharedRaw = Arc<RawValue>;

/// Serializes a value.
///
/// Only for types whose serialization cannot fail; if one did, the result would be `null`.
pub fn raw<T: Serialize + ?Sized>(value: &T) -> Raw {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Returns the text of `value` without line breaks, for framings that end a message at one.
/// Line breaks in JSON strings are always escaped, so only whitespace between tokens is removed.
pub fn one_line(value: &RawValue) -> std::borrow::Cow<'_, str> {
    let text = value.get();
    if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], "").into() } else { text.into() }
}

/// Returns the range of `part` in the text that it was parsed from.
pub fn range_in(text: &str, part: &RawValue) -> std::ops::Range<usize> {
    let start = (part.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start + part.get().len()
}

/// The fields of a JSON object in their order, with unchanged values.
#[derive(Clone, Debug, Default)]
pub struct Fields(Vec<(String, Raw)>);

impl Fields {
    /// Creates an empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the fields of `value` if it is an object.
    pub fn of(value: &RawValue) -> Option<Self> {
        serde_json::from_str(value.get()).ok()
    }

    /// Returns the fields of `value`; none if there is no value or it is not an object.
    pub fn of_optional(value: Option<&RawValue>) -> Self {
        value.and_then(Self::of).unwrap_or_default()
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// Returns the value of `key` as a `T`, if it has one of that type.
    pub fn read<'a, T: Deserialize<'a>>(&'a self, key: &str) -> Option<T> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// Returns the string under `key`.
    pub fn text(&self, key: &str) -> Option<String> {
        self.read(key)
    }

    /// Returns the object under `key`.
    pub fn object(&self, key: &str) -> Option<Self> {
        Self::of(self.get(key)?)
    }

    /// Sets the value of `key`, at its place or at the end.
    pub fn set(&mut self, key: &str, value: Raw) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Serializes `value` and sets it under `key`.
    #[must_use]
    pub fn with<T: Serialize + ?Sized>(mut self, key: &str, value: &T) -> Self {
        self.set(key, raw(value));
        self
    }

    /// Inserts `key`, which must be new, before all other fields.
    #[must_use]
    pub fn with_first<T: Serialize + ?Sized>(mut self, key: &str, value: &T) -> Self {
        self.0.insert(0, (key.to_owned(), raw(value)));
        self
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Raw> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    /// Returns whether there is a field `key`.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all fields in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// Serializes the fields.
    pub fn to_raw(&self) -> Raw {
        raw(self)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry::<String, Raw>()? {
                    entries.push(entry);
                }
                Ok(Fields(without_duplicates(entries)))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// Number of keys up to which a linear search is faster than a hash table.
const FEW: usize = 16;

/// Removes duplicate keys from the entries of an object. A duplicate key keeps its first place and
/// its last value, as in most JSON parsers.
fn without_duplicates(entries: Vec<(String, Raw)>) -> Vec<(String, Raw)> {
    let is_new = |at: usize| entries[..at].iter().all(|(key, _)| *key != entries[at].0);
    if entries.len() <= FEW && (0..entries.len()).all(is_new) {
        return entries;
    }
    // For an object of a million keys, a linear search for each would take hours.
    let mut places: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
    let firsts: Vec<usize> =
        entries.iter().enumerate().map(|(at, (key, _))| *places.entry(key).or_insert(at)).collect();
    if places.len() == entries.len() {
        return entries;
    }
    let mut once: Vec<(String, Raw)> = Vec::with_capacity(places.len());
    let mut kept = vec![0; entries.len()];
    for ((at, entry), first) in entries.into_iter().enumerate().zip(firsts) {
        if first == at {
            kept[at] = once.len();
            once.push(entry);
        } else {
            once[kept[first]].1 = entry.1;
        }
    }
    once
}

/// Returns whether no object in `value` has duplicate keys, and the nesting is bounded. A message
/// that other parsers could read differently must not be passed on after it was checked.
pub fn is_unambiguous(value: &RawValue) -> bool {
    serde_json::from_str::<Unambiguous>(value.get()).is_ok()
}

struct Unambiguous;

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Unambiguous;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON without duplicate keys")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Unambiguous, A::Error> {
                let mut keys = Keys::default();
                while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
                    if !keys.insert(key) {
                        return Err(de::Error::custom("duplicate key"));
                    }
                    map.next_value::<Unambiguous>()?;
                }
                Ok(Unambiguous)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Unambiguous, A::Error> {
                while list.next_element::<Unambiguous>()?.is_some() {}
                Ok(Unambiguous)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Unambiguous, E> {
                Ok(Unambiguous)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Unambiguous, E> {
                Ok(Unambiguous)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Unambiguous, E> {
                Ok(Unambiguous)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Unambiguous, E> {
                Ok(Unambiguous)
            }

            fn visit_str<E>(self, _: &str) -> Result<Unambiguous, E> {
                Ok(Unambiguous)
            }

            fn visit_unit<E>(self) -> Result<Unambiguous, E> {
                Ok(Unambiguous)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A key of an object, borrowed if it has no escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// The keys of an object: a list while they are few, because hashing costs more than comparing.
#[derive(Default)]
struct Keys<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> Keys<'de> {
    /// Adds a key and returns whether it is new.
    fn insert(&mut self, key: Cow<'de, str>) -> bool {
        if !self.many.is_empty() {
            return self.many.insert(key);
        }
        if self.few.contains(&key) {
            return false;
        }
        self.few.push(key);
        if self.few.len() > FEW {
            self.many = self.few.drain(..).collect();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_given_twice() {
        let check = |text: &str, expected: bool| {
            let value: Raw = serde_json::from_str(text).expect("JSON");
            assert_eq!(is_unambiguous(&value), expected, "{text}");
        };
        check(r#"{"a":1,"b":[{"a":null},1e5,"x",true]}"#, true);
        check(r#"{"a":1,"a":2}"#, false);
        check(r#"{"a":[{"b":1,"\u0062":2}]}"#, false);
        let many: String = (0..40).map(|at| format!("\"{at}\":0,")).collect();
        check(&format!("{{{many}\"40\":0}}"), true);
        check(&format!("{{{many}\"7\":0}}"), false);
        check(&format!("{{{many}\"39\":0}}"), false);
        check(&format!("{}{}", "[".repeat(1000), "]".repeat(1000)), false);
        let fields: Fields = serde_json::from_str(r#"{"a":1,"b":2,"a":3}"#).expect("an object");
        assert_eq!(fields.to_raw().get(), r#"{"a":3,"b":2}"#);
        let fields: Fields = serde_json::from_str(r#"{"b":1,"a":2,"b":3,"c":4,"b":5,"a":6}"#).expect("an object");
        assert_eq!(fields.to_raw().get(), r#"{"b":5,"a":6,"c":4}"#);
    }

    /// With a linear search for each key, this takes minutes.
    #[test]
    fn an_object_may_have_very_many_keys() {
        let keys: String = (0..200_000).map(|at| format!("\"key-{at}\":{at},")).collect();
        let fields: Fields = serde_json::from_str(&format!("{{{keys}\"key-7\":null}}")).expect("an object");
        assert_eq!((fields.iter().count(), fields.get("key-7").map(RawValue::get)), (200_000, Some("null")));
    }

    #[test]
    fn what_is_not_touched_keeps_its_bytes() {
        let text = r#"{"z":1.0,"a":{"y":[1e5, 18446744073709551616],"x":"\u00e9"},"name":"old"}"#;
        let mut fields: Fields = serde_json::from_str(text).expect("an object");
        fields.set("name", raw("new"));
        fields.set("more", raw(&true));
        let expected = r#"{"z":1.0,"a":{"y":[1e5, 18446744073709551616],"x":"\u00e9"},"name":"new","more":true}"#;
        assert_eq!(fields.to_raw().get(), expected);
        assert_eq!(fields.text("name").as_deref(), Some("new"));
        assert!(fields.object("z").is_none());
    }

    #[test]
    fn lines_are_joined_outside_strings_only() {
        let value: Raw = serde_json::from_str("{\"a\":\n \"x\\ny\"\r\n}").expect("JSON");
        assert_eq!(one_line(&value), "{\"a\": \"x\\ny\"}");
    }
}
