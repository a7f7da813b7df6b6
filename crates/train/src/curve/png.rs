//! A curve as PNG: a canvas, a small font, and the file format around deflated rows.

use super::{Curve, font};

struct Canvas {
    w: usize,
    h: usize,
    pixels: Vec<[u8; 3]>,
}

impl Canvas {
    /// Mixes a colour in: all of it at 1, none at 0.
    fn blend(&mut self, x: i64, y: i64, colour: [u8; 3], part: f64) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x >= self.w {
            return;
        }
        if let Some(pixel) = self.pixels.get_mut(y * self.w + x) {
            for (p, c) in pixel.iter_mut().zip(colour) {
                *p = (*p as f64 + (c as f64 - *p as f64) * part.clamp(0.0, 1.0)).round() as u8;
            }
        }
    }

    /// A line of one and a half pixels, its edges smoothed.
    fn line(&mut self, (x0, y0): (f64, f64), (x1, y1): (f64, f64), colour: [u8; 3]) {
        let (dx, dy) = (x1 - x0, y1 - y0);
        let squared = dx * dx + dy * dy;
        for y in (y0.min(y1) - 2.0).floor() as i64..=(y0.max(y1) + 2.0).ceil() as i64 {
            for x in (x0.min(x1) - 2.0).floor() as i64..=(x0.max(x1) + 2.0).ceil() as i64 {
                let (px, py) = (x as f64 - x0, y as f64 - y0);
                let t = if squared > 0.0 { ((px * dx + py * dy) / squared).clamp(0.0, 1.0) } else { 0.0 };
                let away = (px - t * dx).hypot(py - t * dy);
                self.blend(x, y, colour, 1.25 - away);
            }
        }
    }

    fn text(&mut self, x: f64, y: f64, text: &str, colour: [u8; 3]) {
        let (x, y) = (x.round() as i64, y.round() as i64);
        for (i, c) in text.chars().enumerate() {
            for (column, bits) in font::glyph(c).into_iter().enumerate() {
                for row in (0..8).filter(|r| bits >> r & 1 == 1) {
                    self.blend(x + (i * font::ADVANCE + column) as i64, y + row, colour, 1.0);
                }
            }
        }
    }
}

/// Columns of a text.
fn width(text: &str) -> f64 {
    (text.chars().count() * font::ADVANCE) as f64
}

pub fn draw(curve: &Curve, w: usize, h: usize) -> Vec<u8> {
    let mut c = Canvas { w, h, pixels: vec![[255; 3]; w * h] };
    let (left, right, top, bottom) = (58.0, 14.0, 26.0, 24.0);
    let (x0, x1, y0, y1) = (left, w as f64 - right, h as f64 - bottom, top);
    let (x_axis, y_axis) = curve.axes();
    let x = |v: f64| x0 + x_axis.place(v) * (x1 - x0);
    let y = |v: f64| y0 + y_axis.place(v) * (y1 - y0);
    let (ink, grid) = ([60; 3], [225; 3]);
    for (v, text) in y_axis.ticks(5) {
        let at = y(v).round();
        (x0 as i64..=x1 as i64).for_each(|i| c.blend(i, at as i64, grid, 1.0));
        c.text(x0 - 6.0 - width(&text), at - 3.0, &text, ink);
    }
    for (v, text) in x_axis.ticks(6) {
        c.text(x(v) - width(&text) / 2.0, y0 + 8.0, &text, ink);
    }
    (x0 as i64..=x1 as i64).for_each(|i| c.blend(i, y0 as i64, ink, 1.0));
    (y1 as i64..=y0 as i64).for_each(|i| c.blend(x0 as i64, i, ink, 1.0));
    c.text(x0, 9.0, &curve.title, ink);
    for (i, line) in curve.lines.iter().enumerate() {
        let at: Vec<(f64, f64)> = line.points.iter().map(|p| (x(p.0), y(p.1))).collect();
        for (a, b) in at.iter().zip(at.get(1..).unwrap_or_default().iter().chain(at.last())) {
            c.line(*a, *b, Curve::colour(i));
        }
    }
    let mut legend = x1;
    for (i, line) in curve.lines.iter().enumerate().rev() {
        legend -= width(&line.label);
        c.text(legend, 9.0, &line.label, Curve::colour(i));
        legend -= 16.0;
    }
    encode(&c)
}

fn encode(c: &Canvas) -> Vec<u8> {
    let mut rows = Vec::with_capacity(c.h * (1 + 3 * c.w));
    for row in c.pixels.chunks(c.w.max(1)) {
        rows.push(0); // no filter
        rows.extend(row.iter().flatten());
    }
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = vec![];
    header.extend((c.w as u32).to_be_bytes());
    header.extend((c.h as u32).to_be_bytes());
    header.extend([8, 2, 0, 0, 0]); // eight bits, RGB, and the only methods there are
    chunk(&mut out, b"IHDR", &header);
    chunk(&mut out, b"IDAT", &miniz_oxide::deflate::compress_to_vec_zlib(&rows, 6));
    chunk(&mut out, b"IEND", &[]);
    out
}

fn chunk(out: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    out.extend((data.len() as u32).to_be_bytes());
    let mut sum = crc32fast::Hasher::new();
    sum.update(name);
    sum.update(data);
    out.extend(name);
    out.extend(data);
    out.extend(sum.finalize().to_be_bytes());
}
