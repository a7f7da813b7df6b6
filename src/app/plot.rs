//! Curves, drawn in the terminal with dots of Braille and into SVG files.

use super::fail::Failure;
use std::{fmt::Write, path::Path};

/// Curves over a common pair of axes.
pub struct Plot {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub log: bool,
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

const COLOURS: [&str; 4] = ["#1f6fb4", "#d1491f", "#2c8c4b", "#8a5bb5"];

/// The part of an axis that is shown.
#[derive(Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn of(values: impl Iterator<Item = f64>) -> Range {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        match (low.is_finite(), high > low) {
            (false, _) => Range { low: 0.0, high: 1.0 },
            (true, true) => Range { low, high },
            (true, false) => Range { low: low - 0.5, high: low + 0.5 },
        }
    }

    /// From 0 to 1.
    fn place(self, v: f64) -> f64 {
        (v - self.low) / (self.high - self.low)
    }
}

fn short(v: f64) -> String {
    match v.abs() {
        0.0 => "0".into(),
        a if !(1e-3..1e5).contains(&a) => format!("{v:.0e}"),
        a if a >= 100.0 => format!("{v:.0}"),
        a if a >= 1.0 => format!("{v:.2}"),
        _ => format!("{v:.3}"),
    }
}

impl Plot {
    /// Points as they are drawn: logarithms if asked for, and numbers alone.
    fn points(&self) -> Vec<Vec<(f64, f64)>> {
        let scale = |v: f64| if self.log { v.log10() } else { v };
        let one = |points: &Vec<(f64, f64)>| {
            let scaled = points.iter().map(|&(x, y)| (scale(x), scale(y)));
            scaled.filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
        };
        self.series.iter().map(|(_, points)| one(points)).collect()
    }

    fn ranges(points: &[Vec<(f64, f64)>]) -> (Range, Range) {
        let all = || points.iter().flatten();
        (Range::of(all().map(|p| p.0)), Range::of(all().map(|p| p.1)))
    }

    fn label(&self, v: f64) -> String {
        short(if self.log { 10f64.powf(v) } else { v })
    }

    /// The plot as lines of text, so many characters wide and high.
    pub fn text(&self, width: usize, height: usize) -> String {
        let points = self.points();
        let (xs, ys) = Plot::ranges(&points);
        let (w, h) = (2 * width, 4 * height);
        let mut cells = vec![0u8; width * height];
        let mut dot = |x: f64, y: f64| {
            let (i, j) = ((x * (w - 1) as f64).round() as usize, ((1.0 - y) * (h - 1) as f64).round() as usize);
            // Braille numbers its dots down the left column, then down the right one, with the lowest row last.
            let bit = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]][j % 4][i % 2];
            if let Some(c) = cells.get_mut(j / 4 * width + i / 2) {
                *c |= bit;
            }
        };
        for line in &points {
            let place = |p: &(f64, f64)| (xs.place(p.0), ys.place(p.1));
            line.iter().for_each(|p| dot(place(p).0, place(p).1));
            for (a, b) in line.iter().zip(line.iter().skip(1)).map(|(a, b)| (place(a), place(b))) {
                let steps = (((b.0 - a.0).abs() * w as f64).max((b.1 - a.1).abs() * h as f64)) as usize + 1;
                for k in 0..=steps {
                    let t = k as f64 / steps as f64;
                    dot(a.0 + t * (b.0 - a.0), a.1 + t * (b.1 - a.1));
                }
            }
        }
        let mut text = format!("{:>9}  {}\n", "", self.title);
        for (row, line) in cells.chunks(width).enumerate() {
            let label = match row {
                0 => self.label(ys.high),
                r if r + 1 == height => self.label(ys.low),
                _ => String::new(),
            };
            let dots: String = line.iter().map(|&c| char::from_u32(0x2800 + u32::from(c)).unwrap_or(' ')).collect();
            let _ = writeln!(text, "{label:>9} |{}", dots.trim_end_matches('\u{2800}')); // strings take all
        }
        let (left, right) = (self.label(xs.low), format!("{}  {}", self.label(xs.high), self.x_label));
        let gap = width.saturating_sub(left.chars().count() + self.label(xs.high).chars().count());
        let _ = write!(text, "{:>9}  {left}{}{right}", "", " ".repeat(gap));
        text
    }

    /// The plot as an SVG file.
    pub fn svg(&self) -> String {
        let points = self.points();
        let (xs, ys) = Plot::ranges(&points);
        let (left, top, width, height) = (70.0, 40.0, 540.0, 300.0);
        let x = |v: f64| left + width * xs.place(v);
        let y = |v: f64| top + height * (1.0 - ys.place(v));
        let mut s = String::from(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 400\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"640\" height=\"400\" fill=\"white\"/>\n",
        );
        let mut put = |line: String| {
            s.push_str(&line);
            s.push('\n');
        };
        put(format!("<text x=\"70\" y=\"24\" font-size=\"15\">{}</text>", escaped(&self.title)));
        for k in 0..=4 {
            let t = f64::from(k) / 4.0;
            let (vx, vy) = (xs.low + t * (xs.high - xs.low), ys.low + t * (ys.high - ys.low));
            let (px, py) = (x(vx), y(vy));
            put(format!(
                "<path d=\"M{px:.1} {top}V{:.1}M{left} {py:.1}H{:.1}\" stroke=\"#ddd\"/>",
                top + height,
                left + width
            ));
            put(format!("<text x=\"{px:.1}\" y=\"358\" text-anchor=\"middle\">{}</text>", self.label(vx)));
            put(format!("<text x=\"64\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", py + 4.0, self.label(vy)));
        }
        put(format!("<text x=\"340\" y=\"382\" text-anchor=\"middle\">{}</text>", escaped(&self.x_label)));
        put(format!(
            "<text x=\"18\" y=\"190\" text-anchor=\"middle\" transform=\"rotate(-90 18 190)\">{}</text>",
            escaped(&self.y_label)
        ));
        for (i, ((name, _), line)) in self.series.iter().zip(&points).enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let path: Vec<String> = line.iter().map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1))).collect();
            put(format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>",
                path.join(" ")
            ));
            if line.len() <= 20 {
                line.iter().for_each(|p| {
                    put(format!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>", x(p.0), y(p.1)))
                });
            }
            let row = 24 + 16 * i;
            put(format!("<text x=\"600\" y=\"{row}\" text-anchor=\"end\" fill=\"{colour}\">{}</text>", escaped(name)));
        }
        s.push_str("</svg>\n");
        s
    }

    /// Writes the SVG file, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        let text = self.svg();
        Ok(gradus::io::atomic_write(path, |w| Ok(w.write_all(text.as_bytes())?))?)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(series: Vec<(f64, f64)>, log: bool) -> Plot {
        Plot {
            title: "a < b".into(),
            x_label: "x".into(),
            y_label: "y".into(),
            log,
            series: vec![("s".into(), series)],
        }
    }

    #[test]
    fn a_line_goes_from_corner_to_corner() {
        let text = plot(vec![(0.0, 0.0), (1.0, 1.0)], false).text(8, 2);
        let rows: Vec<&str> = text.lines().collect();
        let dots = |row: &str| row.split('|').nth(1).unwrap_or_default().to_string();
        assert_eq!((dots(rows[1]), dots(rows[2])), ("⠀⠀⠀⠀⣀⠤⠒⠉".to_string(), "⣀⠤⠒⠉".to_string()), "{text}");
        assert!(rows[2].starts_with("        0 |") && rows[3].contains("0   1.00  x"), "{text}");
    }

    #[test]
    fn nothing_and_odd_numbers_can_be_drawn() {
        for series in [vec![], vec![(1.0, 2.0)], vec![(0.0, f64::NAN), (1.0, 1.0)], vec![(0.0, -1.0), (10.0, 10.0)]] {
            for log in [false, true] {
                let p = plot(series.clone(), log);
                assert!(p.text(10, 3).lines().count() == 5);
                assert!(p.svg().contains("a &lt; b") && !p.svg().contains("NaN"));
            }
        }
    }
}
