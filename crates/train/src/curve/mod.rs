//! Curves as pictures and as text.

mod axis;
mod font;
mod png;
mod svg;
mod terminal;

use crate::{Callback, Flow, History, Run};
use axis::Axis;
use gradus_core::{Error, Result};
use gradus_io::atomic_write;
use std::path::{Path, PathBuf};

/// Lines over a common axis: drawn as SVG, as PNG, or in a terminal. No fonts of the system are needed.
///
/// ```
/// use gradus_train::Curve;
/// let points: Vec<(f64, f64)> = (1..=100).map(|i| (i as f64, 1.0 / i as f64)).collect();
/// let curve = Curve::new("loss").line("train", points);
/// println!("{}", curve.to_terminal(60, 12));
/// # let dir = tempfile::tempdir().unwrap();
/// curve.save(dir.path().join("loss.svg"))?; // or .png
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Curve {
    title: String,
    lines: Vec<Line>,
    log_y: bool,
}

#[derive(Clone, Debug)]
struct Line {
    label: String,
    points: Vec<(f64, f64)>,
}

/// Colours of lines, in order; after the last, the first again. Told apart by the colour-blind too (Okabe and Ito).
const COLOURS: [[u8; 3]; 6] =
    [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [230, 159, 0], [86, 180, 233]];

impl Curve {
    /// Nothing but a title.
    pub fn new(title: impl Into<String>) -> Curve {
        Curve { title: title.into(), ..Default::default() }
    }

    /// With a line. Points that are not finite are left out.
    pub fn line(mut self, label: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Curve {
        let points = points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        self.lines.push(Line { label: label.into(), points });
        self
    }

    /// With a logarithmic vertical axis, where all numbers are positive.
    pub fn log_y(self, log_y: bool) -> Curve {
        Curve { log_y, ..self }
    }

    /// The loss of a run, and those metrics of its epochs whose names end in `loss`.
    pub fn of_history(history: &History) -> Curve {
        let as_floats = |points: &[(u64, f64)]| points.iter().map(|(s, x)| (*s as f64, *x)).collect::<Vec<_>>();
        let mut curve = Curve::new("loss").line("train", as_floats(history.loss.points()));
        for name in history.metric_names().into_iter().filter(|n| n.ends_with("loss")) {
            curve = curve.line(name, as_floats(&history.metric(name)));
        }
        curve
    }

    /// As an SVG document.
    pub fn to_svg(&self, width: u32, height: u32) -> String {
        svg::draw(self, width.max(160) as f64, height.max(120) as f64)
    }

    /// As a PNG file.
    pub fn to_png(&self, width: u32, height: u32) -> Vec<u8> {
        png::draw(self, width.clamp(160, 8192) as usize, height.clamp(120, 8192) as usize)
    }

    /// As text of so many columns and rows, drawn with Braille characters.
    pub fn to_terminal(&self, columns: usize, rows: usize) -> String {
        terminal::draw(self, columns.clamp(24, 400), rows.clamp(5, 200))
    }

    /// Writes it at 800 by 500; `.svg` or `.png` by the name.
    #[track_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        let bytes = match extension.as_deref() {
            Some("svg") => self.to_svg(800, 500).into_bytes(),
            Some("png") => self.to_png(800, 500),
            _ => {
                let why = format!("{}: a curve is saved as .svg or .png", path.display());
                return Err(Error::value("curve", why));
            }
        };
        Ok(atomic_write(path, |w| Ok(w.write_all(&bytes)?))?)
    }

    fn axes(&self) -> (Axis, Axis) {
        let all = || self.lines.iter().flat_map(|l| &l.points);
        (Axis::of(all().map(|p| p.0), false), Axis::of(all().map(|p| p.1), self.log_y))
    }

    fn colour(line: usize) -> [u8; 3] {
        COLOURS.get(line % COLOURS.len()).copied().unwrap_or_default()
    }
}

/// Draws the loss of a run to a file after each epoch.
pub struct LossCurve {
    path: PathBuf,
}

impl LossCurve {
    /// At a path, `.svg` or `.png`.
    pub fn new(path: impl Into<PathBuf>) -> LossCurve {
        LossCurve { path: path.into() }
    }
}

impl Callback for LossCurve {
    fn on_epoch(&mut self, run: &Run<'_>) -> Result<Flow> {
        Curve::of_history(run.history).save(&self.path)?;
        Ok(Flow::Continue)
    }

    fn on_end(&mut self, run: &Run<'_>) -> Result<()> {
        Curve::of_history(run.history).save(&self.path)
    }
}
