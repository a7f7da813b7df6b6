//! Helper functions of an emitted program: those it uses, and those that these use.

/// The helpers that `body` needs, in the order of the table.
pub(super) fn needed(tables: &[&[(&str, &str)]], body: &str) -> String {
    let all: Vec<(&str, &str)> = tables.iter().flat_map(|t| t.iter().copied()).collect();
    let mut wanted = vec![false; all.len()];
    let mut texts = vec![body];
    while let Some(text) = texts.pop() {
        for (i, &(name, helper)) in all.iter().enumerate() {
            if !wanted[i] && calls(text, name) {
                wanted[i] = true;
                texts.push(helper);
            }
        }
    }
    all.iter().zip(wanted).filter(|(_, w)| *w).map(|((_, text), _)| format!("{}\n\n", text.trim())).collect()
}

/// Whether `text` calls `name`.
fn calls(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(i, _)| {
        let before = text[..i].chars().next_back();
        text[i + name.len()..].starts_with('(') && !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// `{0}`, `{1}` and `{2}` of a row's text replaced.
pub(super) fn fill(text: &str, x: &[String]) -> String {
    let mut out = text.to_string();
    for (i, v) in x.iter().enumerate() {
        out = out.replace(&format!("{{{i}}}"), v);
    }
    out
}
