//! A progress bar with loss, rate and time left; plain lines where there is no terminal.

use crate::{Callback, Flow, Run};
use gradus_core::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

/// Shows how a run goes: a bar on a terminal, a line now and then elsewhere. It writes to stderr.
///
/// ```
/// use gradus_train::Progress;
/// let quiet = Progress::lines(std::io::sink()); // or Progress::new()
/// ```
pub struct Progress {
    show: Show,
    shown: Option<Instant>,
    /// A number that follows the loss slowly, so that it can be read.
    smooth: Option<f64>,
}

enum Show {
    Bar(ProgressBar),
    Lines(Box<dyn Write>),
}

/// Plain lines come at most this often.
const PAUSE: Duration = Duration::from_secs(5);

impl Default for Progress {
    fn default() -> Self {
        Progress::new()
    }
}

impl Progress {
    /// A bar if stderr is a terminal, lines if not.
    pub fn new() -> Progress {
        if !stderr().is_terminal() {
            return Progress::lines(stderr());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { show: Show::Bar(bar), shown: None, smooth: None }
    }

    /// Lines to anywhere.
    pub fn lines(to: impl Write + 'static) -> Progress {
        Progress { show: Show::Lines(Box::new(to)), shown: None, smooth: None }
    }

    fn describe(&mut self, run: &Run<'_>) -> String {
        let smooth = self.smooth.map_or(run.loss, |s| 0.9 * s + 0.1 * run.loss);
        self.smooth = smooth.is_finite().then_some(smooth);
        let eta = run.eta().map_or(String::new(), |t| format!(", {} left", clock(t)));
        format!("loss {smooth:.4}, {:.1} batches/s{eta}", run.rate())
    }

    /// A line that stays: over the bar, or after other lines. What cannot be shown must not end a run.
    fn say(&mut self, line: &str) {
        match &mut self.show {
            Show::Bar(bar) => bar.println(line),
            Show::Lines(to) => {
                let _ = writeln!(to, "{line}");
            }
        }
    }
}

/// Hours, minutes and seconds.
fn clock(t: Duration) -> String {
    let s = t.as_secs();
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3600, s / 60 % 60),
    }
}

impl Callback for Progress {
    fn on_step(&mut self, run: &Run<'_>) -> Result<Flow> {
        let text = self.describe(run);
        if let Show::Bar(bar) = &self.show {
            if bar.position() > run.batch || bar.position() == 0 {
                bar.set_prefix(format!("epoch {}/{}", run.epoch + 1, run.epochs));
                bar.set_length(run.batches.unwrap_or(0));
            }
            bar.set_position(run.batch);
            bar.set_message(text);
            return Ok(Flow::Continue);
        }
        if self.shown.is_none_or(|t| t.elapsed() > PAUSE) {
            self.shown = Some(Instant::now());
            let of = run.batches.map_or(String::new(), |n| format!("/{n}"));
            self.say(&format!("epoch {}/{} batch {}{of}: {text}", run.epoch + 1, run.epochs, run.batch));
        }
        Ok(Flow::Continue)
    }

    fn on_epoch(&mut self, run: &Run<'_>) -> Result<Flow> {
        if let Some(e) = run.history.epochs.last() {
            let metrics: String = e.metrics.iter().map(|(name, x)| format!(", {name} {x:.4}")).collect();
            let took = clock(run.elapsed);
            self.say(&format!("epoch {}/{}: loss {:.4}{metrics} ({took})", e.epoch + 1, run.epochs, e.loss));
        }
        Ok(Flow::Continue)
    }

    fn on_end(&mut self, _run: &Run<'_>) -> Result<()> {
        match &mut self.show {
            Show::Bar(bar) => bar.finish_and_clear(),
            Show::Lines(to) => {
                let _ = to.flush();
            }
        }
        Ok(())
    }
}
