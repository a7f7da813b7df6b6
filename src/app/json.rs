//! JSON, written.

use std::fmt::{self, Display, Write};

/// A JSON value.
#[derive(Clone, Debug)]
pub enum Json {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An object of these fields, in this order.
    pub fn object<K: Into<String>>(fields: impl IntoIterator<Item = (K, Json)>) -> Json {
        Json::Object(fields.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }

    pub fn list<T: Into<Json>>(items: impl IntoIterator<Item = T>) -> Json {
        Json::List(items.into_iter().map(T::into).collect())
    }
}

macro_rules! json_from {
    ($($t:ty => |$x:ident| $e:expr;)*) => {$(
        impl From<$t> for Json { fn from($x: $t) -> Json { $e } }
    )*};
}
json_from! {
    bool => |x| Json::Bool(x);
    i64 => |x| Json::Int(x);
    usize => |x| Json::Int(x as i64);
    u64 => |x| Json::Int(x as i64);
    f64 => |x| Json::Float(x);
    &str => |x| Json::Str(x.into());
    String => |x| Json::Str(x);
    Vec<Json> => |x| Json::List(x);
}

impl Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => write!(f, "{b}"),
            Json::Int(i) => write!(f, "{i}"),
            Json::Float(x) if x.is_finite() => write!(f, "{x:?}"),
            // JSON has no other numbers.
            Json::Float(_) => f.write_str("null"),
            Json::Str(s) => string(f, s),
            Json::List(items) => {
                f.write_char('[')?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                f.write_char(']')
            }
            Json::Object(fields) => {
                f.write_char('{')?;
                for (i, (key, value)) in fields.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    string(f, key)?;
                    write!(f, ": {value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

fn string(f: &mut fmt::Formatter<'_>, s: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in s.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            c if c.is_control() => write!(f, "\\u{:04x}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_as_json() {
        let j = Json::object([
            ("a\"\n\u{1}", Json::list([1i64, 2])),
            ("b", f64::NAN.into()),
            ("c", 1.0.into()),
            ("d", Json::Null),
        ]);
        assert_eq!(j.to_string(), r#"{"a\"\n\u0001": [1, 2], "b": null, "c": 1.0, "d": null}"#);
    }
}
