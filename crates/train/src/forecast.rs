//! How much memory a step will take, before it runs.

use gradus_core::{Device, Result, Tensor, grad::Gradients, live_bytes, plan::Explanation};
use gradus_optim::Optimizer;
use std::{fmt, fs};

/// What a run will take, from its plan.
///
/// ```
/// use gradus_core::Tensor;
/// let x = Tensor::from(vec![1.0f32; 1 << 20]);
/// let f = gradus_train::forecast(&[&(&x + 1.0)])?;
/// assert_eq!(f.step, 4 << 20);
/// assert!(f.fits());
/// println!("{f}"); // 4.0 MiB for a step, 4.0 MiB alive before it ...
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Bytes of tensors that are alive now: weights, data, optimizer state.
    pub alive: u64,
    /// Bytes the run takes on top of them: intermediates and results.
    pub step: u64,
    /// Bytes that can still be had, where the system says.
    pub available: Option<u64>,
}

impl Forecast {
    /// The largest number of bytes alive at once.
    pub fn peak(&self) -> u64 {
        self.alive.saturating_add(self.step)
    }

    /// Whether the run will find its memory. Where the system does not say what there is, yes.
    pub fn fits(&self) -> bool {
        self.available.is_none_or(|available| self.step <= available)
    }
}

/// What computing these tensors will take. Nothing runs; they must be on one device.
pub fn forecast(tensors: &[&Tensor]) -> Result<Forecast> {
    Ok(of(&Tensor::explain_all(tensors)?, tensors.first().map(|t| t.device())))
}

/// What an optimizer's step from these gradients will take: forward pass, backward pass and update. Nothing runs.
pub fn forecast_step(opt: &(impl Optimizer + ?Sized), grads: &Gradients) -> Result<Forecast> {
    Ok(of(&opt.explain(grads)?, grads.iter().next().map(|(_, g)| g.device())))
}

fn of(plan: &Explanation, device: Option<Device>) -> Forecast {
    let available = match device.filter(|d| *d != Device::cpu()) {
        // What a device of its own has in all is an upper bound of what is left there.
        Some(device) => Some(device.backend().limits().max_buffer as u64),
        None => available_memory(),
    };
    Forecast { alive: live_bytes() as u64, step: plan.peak_bytes() as u64, available }
}

/// Bytes of main memory that can still be had: what the system reports, or what is left to a container.
pub fn available_memory() -> Option<u64> {
    let of_system = meminfo(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limit = number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current"));
    let of_group = limit.map(|(most, now)| most.saturating_sub(now));
    Some(of_group.map_or(of_system, |left| left.min(of_system)))
}

/// Memory that can be had without pushing others out, and free swap space.
fn meminfo(text: &str) -> Option<u64> {
    let kilobytes = |key: &str| {
        let line = text.lines().find(|l| l.starts_with(key))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Some((kilobytes("MemAvailable:")? + kilobytes("SwapFree:").unwrap_or(0)).saturating_mul(1024))
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for a step, {} alive before it", human(self.step), human(self.alive))?;
        match self.available {
            Some(available) => write!(f, ", {} available", human(available)),
            None => Ok(()),
        }
    }
}

/// Bytes as people read them.
fn human(b: u64) -> String {
    let x = b as f64;
    match b {
        0..1024 => format!("{b} B"),
        1024..1_048_576 => format!("{:.1} KiB", x / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", x / 1_048_576.0),
        _ => format!("{:.2} GiB", x / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_words() {
        let text = "MemTotal:       16 kB\nMemAvailable:    8 kB\nSwapFree:        2 kB\n";
        assert_eq!(meminfo(text), Some(10 * 1024));
        assert_eq!(meminfo("MemTotal: 5 kB"), None);
        let f = Forecast { alive: 3 << 30, step: 2 << 20, available: Some(1 << 20) };
        assert!(!f.fits() && f.peak() == (3 << 30) + (2 << 20));
        assert_eq!(f.to_string(), "2.0 MiB for a step, 3.00 GiB alive before it, 1.0 MiB available");
        assert!(Forecast { available: None, ..f }.fits());
    }
}
