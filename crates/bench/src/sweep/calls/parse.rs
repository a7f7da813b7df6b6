//! From the list's text to names, and from a name to a call.

use gradus_conformance::opinfo::Arg;
use std::collections::BTreeMap;

/// An operator with its arguments; its tensors by path, as `type@shape@layout@values`.
pub struct Call {
    pub op: String,
    pub args: Vec<Arg>,
    pub kwargs: BTreeMap<String, Arg>,
    pub tensors: BTreeMap<String, String>,
}

/// The names of a list's cases, in its order.
pub fn names(list: &str) -> Vec<String> {
    let mut prefix = super::PREFIX[0];
    let mut names = vec![];
    for row in list.lines().map(str::trim).filter(|r| !r.is_empty() && !r.starts_with('#')) {
        if row == "gradient" {
            prefix = super::PREFIX[1];
            continue;
        }
        let (call, sizes) = row.split_once(" for ").unwrap_or((row, "0"));
        for size in sizes.split_whitespace() {
            for one in alternatives(call) {
                let (op, args) = one.split_once(' ').unwrap_or((&one, ""));
                names.push(format!("{prefix}{op}({})", args.replace('N', size).replace(' ', ",")));
            }
        }
    }
    names
}

/// A text once for each way to read its brackets.
fn alternatives(text: &str) -> Vec<String> {
    let Some((before, rest)) = text.split_once('[') else { return vec![text.into()] };
    let (inside, after) = rest.split_once(']').unwrap_or((rest, ""));
    let after = alternatives(after);
    inside.split(' ').flat_map(|one| after.iter().map(move |rest| format!("{before}{one}{rest}"))).collect()
}

/// The call of a name.
pub fn call(name: &str) -> Result<Call, String> {
    let rest = super::PREFIX.iter().find_map(|p| name.strip_prefix(p)).unwrap_or(name);
    let (op, args) = rest.strip_suffix(')').and_then(|r| r.split_once('(')).ok_or("not OPERATOR(ARGUMENTS)")?;
    let mut call = Call { op: op.into(), args: vec![], kwargs: BTreeMap::new(), tensors: BTreeMap::new() };
    for text in args.split(',').filter(|a| !a.is_empty()) {
        match text.split_once('=') {
            Some((key, text)) => {
                let arg = argument(text, key, &mut call.tensors);
                call.kwargs.insert(key.into(), arg);
            }
            None => {
                let arg = argument(text, &call.args.len().to_string(), &mut call.tensors);
                call.args.push(arg);
            }
        }
    }
    Ok(call)
}

fn argument(text: &str, path: &str, tensors: &mut BTreeMap<String, String>) -> Arg {
    let list = |by: char, tensors: &mut _| {
        let items = text.split(by).filter(|t| !t.is_empty()).enumerate();
        Arg::List(items.map(|(i, t)| argument(t, &format!("{path}.{i}"), tensors)).collect())
    };
    if text.contains('+') {
        return list('+', tensors);
    }
    if text.contains('@') {
        tensors.insert(path.into(), text.into());
        return Arg::Tensor(path.into());
    }
    if text.contains('/') {
        return list('/', tensors);
    }
    match text {
        "true" => Arg::Bool(true),
        "false" => Arg::Bool(false),
        "none" => Arg::None,
        _ => match (text.parse(), text.parse()) {
            (Ok(i), _) => Arg::Int(i),
            (_, Ok(f)) => Arg::Float(f),
            // A comma parts arguments.
            _ => Arg::Str(text.replace('&', ",")),
        },
    }
}
