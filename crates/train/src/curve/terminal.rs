//! A curve as text: each Braille character is two by four dots.

use super::Curve;

/// The bit of a dot in a Braille character, by row and column.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

pub fn draw(curve: &Curve, columns: usize, rows: usize) -> String {
    let (x_axis, y_axis) = curve.axes();
    let ticks = y_axis.ticks((rows / 4).max(2));
    let margin = ticks.iter().map(|t| t.1.chars().count()).max().unwrap_or(0) + 2;
    let (w, h) = (columns.saturating_sub(margin).max(8), rows.saturating_sub(2).max(2));
    let mut cells = vec![vec![0u8; w]; h];
    let mut dot = |x: usize, y: usize| {
        let bit = DOTS.get(y % 4).and_then(|r| r.get(x % 2)).copied().unwrap_or(0);
        if let Some(cell) = cells.get_mut(y / 4).and_then(|r| r.get_mut(x / 2)) {
            *cell |= bit;
        }
    };
    let place =
        |(x, y): (f64, f64)| (x_axis.place(x) * (2 * w - 1) as f64, (1.0 - y_axis.place(y)) * (4 * h - 1) as f64);
    for line in &curve.lines {
        let at: Vec<(f64, f64)> = line.points.iter().map(|p| place(*p)).collect();
        for (a, b) in at.iter().zip(at.get(1..).unwrap_or_default().iter().chain(at.last())) {
            let n = (b.0 - a.0).abs().max((b.1 - a.1).abs()).ceil().max(1.0) as usize;
            for i in 0..=n {
                let t = i as f64 / n as f64;
                dot((a.0 + (b.0 - a.0) * t).round() as usize, (a.1 + (b.1 - a.1) * t).round() as usize);
            }
        }
    }
    let mut labels = vec![String::new(); h];
    for (v, text) in ticks {
        let row = ((1.0 - y_axis.place(v)) * (h - 1) as f64).round() as usize;
        if let Some(label) = labels.get_mut(row) {
            *label = text;
        }
    }
    let pad = margin - 2;
    let mut out = format!("{:pad$}  {}\n", "", curve.title);
    for (label, cells) in labels.iter().zip(&cells) {
        let mark = if label.is_empty() { '│' } else { '┤' };
        let text: String = cells.iter().map(|c| char::from_u32(0x2800 + *c as u32).unwrap_or(' ')).collect();
        out.push_str(&format!("{label:>pad$} {mark}{}\n", text.trim_end_matches('\u{2800}')));
    }
    let mut bottom = vec!['─'; w];
    let mut free = 0;
    for (v, text) in x_axis.ticks(w / 12) {
        let n = text.chars().count();
        let middle = (x_axis.place(v) * (w - 1) as f64).round() as usize;
        let at = middle.saturating_sub(n / 2).min(w.saturating_sub(n));
        // Not into the number before it.
        if at >= free {
            bottom.iter_mut().skip(at).zip(text.chars()).for_each(|(cell, c)| *cell = c);
            free = at + n + 1;
        }
    }
    out + &format!("{:pad$} └{}\n", "", bottom.into_iter().collect::<String>())
}
