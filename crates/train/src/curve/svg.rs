//! A curve as SVG.

use super::Curve;
use std::fmt::Write;

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

pub fn draw(curve: &Curve, w: f64, h: f64) -> String {
    let (left, right, top, bottom) = (64.0, 16.0, 32.0, 32.0);
    let (x_axis, y_axis) = curve.axes();
    let x = |v: f64| left + x_axis.place(v) * (w - left - right);
    let y = |v: f64| h - bottom - y_axis.place(v) * (h - top - bottom);
    let mut s = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        s,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let _ = writeln!(s, "<text x=\"{left}\" y=\"20\" font-size=\"14\">{}</text>", escape(&curve.title));
    let (x0, x1, y0, y1) = (left, w - right, h - bottom, top);
    for (v, text) in y_axis.ticks(5) {
        let at = y(v);
        let _ = writeln!(s, "<path d=\"M{x0} {at:.1}H{x1}\" stroke=\"#ddd\"/>");
        let _ = writeln!(s, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", x0 - 6.0, at + 4.0);
    }
    for (v, text) in x_axis.ticks(6) {
        let at = x(v);
        let _ = writeln!(s, "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>", y0 + 18.0);
    }
    let _ = writeln!(s, "<path d=\"M{x0} {y1}V{y0}H{x1}\" fill=\"none\" stroke=\"#444\"/>");
    let colour = |i: usize| {
        let [r, g, b] = Curve::colour(i);
        format!("#{r:02x}{g:02x}{b:02x}")
    };
    for (i, line) in curve.lines.iter().enumerate() {
        let (colour, points) = (colour(i), line.points.iter().map(|(a, b)| (x(*a), y(*b))));
        if let [(cx, cy)] = points.clone().collect::<Vec<_>>()[..] {
            let _ = writeln!(s, "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\" fill=\"{colour}\"/>");
            continue;
        }
        let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            s,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" stroke-linejoin=\"round\"/>",
            points.join(" ")
        );
    }
    let mut legend = x1;
    for (i, line) in curve.lines.iter().enumerate().rev() {
        let (label, colour) = (escape(&line.label), colour(i));
        let _ = writeln!(s, "<text x=\"{legend:.0}\" y=\"20\" text-anchor=\"end\" fill=\"{colour}\">{label}</text>");
        legend -= 16.0 + 7.0 * line.label.chars().count() as f64;
    }
    s + "</svg>\n"
}
