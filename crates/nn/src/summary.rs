//! The table that `summary()` prints.

use crate::part::{Found, Visitor};
use std::collections::HashSet;

/// A module on its way to a line.
struct Line {
    name: String,
    depth: usize,
    kind: String,
    shapes: Vec<String>,
    count: usize,
    buffers: usize,
    /// Whether it is a parameter or buffer of the part around it rather than a part.
    leaf: bool,
}

/// One line for each layer, indented by depth, and the totals.
pub(crate) fn table(kind: &str, describe: &str, visit: &dyn Fn(&mut Visitor<'_>)) -> String {
    let mut lines = vec![Line::new(String::new(), 0, titled(kind, describe))];
    // Places in `lines` of the parts that are open.
    let mut open = vec![0usize];
    let (mut params, mut frozen, mut buffers, mut bytes) = (0, 0, 0, 0);
    let mut seen = HashSet::new();
    let mut sink = |path: &str, found: Found<'_>| match found {
        Found::Begin(part) => {
            let line = Line::new(last(path), open.len(), titled(part.kind(), &part.describe()));
            open.push(lines.len());
            lines.push(line);
        }
        Found::End => {
            open.pop();
        }
        Found::Param(p) => {
            let again = p.var_id().is_some_and(|id| !seen.insert(id));
            if !again {
                params += p.numel();
                bytes += p.numel() * p.dtype().size();
                frozen += if p.is_trainable() { 0 } else { p.numel() };
            }
            let note = if again {
                " (shared)"
            } else if p.is_trainable() {
                ""
            } else {
                " (frozen)"
            };
            leaf(&mut lines, &open, format!("{}{note}", p.shape()), if again { 0 } else { p.numel() });
        }
        Found::Buffer(b) => {
            buffers += b.numel();
            bytes += b.numel() * b.dtype().size();
            if let [.., owner, own] = &open[..] {
                lines[*own].leaf = true;
                lines[*owner].buffers += b.numel();
            }
        }
        Found::Mode(_) => {}
    };
    visit(&mut Visitor::new(&mut sink));
    let mut text = layout(&lines);
    text += &format!("{} parameters", grouped(params));
    if frozen > 0 {
        text += &format!(" ({} trained, {} frozen)", grouped(params - frozen), grouped(frozen));
    }
    if buffers > 0 {
        text += &format!(", {} numbers in buffers", grouped(buffers));
    }
    text + &format!(", {}\n", size(bytes))
}

impl Line {
    fn new(name: String, depth: usize, kind: String) -> Line {
        Line { name, depth, kind, shapes: vec![], count: 0, buffers: 0, leaf: false }
    }
}

/// A parameter's shape goes to the line of the layer it belongs to.
fn leaf(lines: &mut [Line], open: &[usize], shape: String, count: usize) {
    let [.., owner, own] = open else {
        // The module is a parameter itself.
        if let Some(line) = lines.first_mut() {
            line.shapes.push(shape);
            line.count += count;
        }
        return;
    };
    let name = lines[*own].name.clone();
    lines[*own].leaf = true;
    lines[*owner].shapes.push(format!("{name} {shape}"));
    lines[*owner].count += count;
}

fn layout(lines: &[Line]) -> String {
    let cells: Vec<[String; 4]> = lines
        .iter()
        .filter(|l| l.depth == 0 || (!l.leaf && (!l.kind.is_empty() || !l.shapes.is_empty() || l.buffers > 0)))
        .map(|l| {
            let name = format!("{}{}", "  ".repeat(l.depth.saturating_sub(1)), l.name);
            let count = if l.shapes.is_empty() { String::new() } else { grouped(l.count) };
            let mut shapes = l.shapes.join(", ");
            if l.buffers > 0 {
                shapes += &format!("{}{} in buffers", if shapes.is_empty() { "" } else { " + " }, grouped(l.buffers));
            }
            [name, l.kind.clone(), shapes, count]
        })
        .collect();
    let titles = ["name", "layer", "parameters", "numbers"].map(str::to_string);
    let width = |c: usize| cells.iter().chain([&titles]).map(|r| r[c].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3)];
    let row = |r: &[String; 4]| {
        let line = format!(
            "{:<a$}  {:<b$}  {:<c$}  {:>d$}",
            r[0],
            r[1],
            r[2],
            r[3],
            a = widths[0],
            b = widths[1],
            c = widths[2],
            d = widths[3]
        );
        line.trim_end().to_string() + "\n"
    };
    let rule = "-".repeat(widths.iter().sum::<usize>() + 6) + "\n";
    row(&titles) + &rule + &cells.iter().map(row).collect::<String>() + &rule
}

fn titled(kind: &str, describe: &str) -> String {
    if describe.is_empty() { kind.to_string() } else { format!("{kind}({describe})") }
}

fn last(path: &str) -> String {
    path.rsplit('.').next().unwrap_or_default().to_string()
}

/// `1234567` as `1,234,567`.
fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

fn size(bytes: usize) -> String {
    let mut n = bytes as f64;
    for unit in ["bytes", "KiB", "MiB"] {
        if n < 1024.0 {
            return if unit == "bytes" { format!("{bytes} bytes") } else { format!("{n:.1} {unit}") };
        }
        n /= 1024.0;
    }
    format!("{n:.1} GiB")
}
