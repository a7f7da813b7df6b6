//! Time on the device.

use crate::{backend::with_backend, context::Context, sys::driver::Handle};
use gradus_core::{Device, Result};

/// Measures device time between two points of the stream: what was asked for in between, and the gaps where the host was
/// not fast enough.
///
/// ```no_run
/// # use gradus_core::{Device, Tensor};
/// # use gradus_cuda::{CudaDevice, Timer};
/// let device = Device::cuda(0).unwrap();
/// let x = Tensor::randn([1024, 1024]).to(&device);
/// let timer = Timer::start(&device).unwrap();
/// x.exp().eval().unwrap();
/// println!("{} ms", timer.stop().unwrap());
/// ```
pub struct Timer {
    device: Device,
    watch: Stopwatch,
}

impl Timer {
    /// Marks the first point.
    pub fn start(device: &Device) -> Result<Timer> {
        let watch = with_backend(device, |c| Stopwatch::start(&c.context))??;
        Ok(Timer { device: *device, watch })
    }

    /// Marks the second point, waits for it, and gives the milliseconds in between.
    pub fn stop(self) -> Result<f64> {
        with_backend(&self.device, |c| self.watch.stop(&c.context))?
    }
}

/// Two events on a GPU's stream.
pub(crate) struct Stopwatch {
    start: Handle,
    stop: Handle,
}

impl Stopwatch {
    /// Marks the first point.
    pub fn start(c: &Context) -> Result<Stopwatch> {
        let d = c.driver;
        c.enter()?;
        let (mut start, mut stop) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: pointers are to locals, and the stream is alive.
        unsafe {
            d.check((d.event_create)(&mut start, 0), "cuEventCreate")?;
            d.check((d.event_create)(&mut stop, 0), "cuEventCreate")?;
            d.check((d.event_record)(start, c.stream), "cuEventRecord")?;
        }
        Ok(Stopwatch { start, stop })
    }

    /// Marks the second point, waits for it, and gives the milliseconds in between.
    pub fn stop(self, c: &Context) -> Result<f64> {
        let d = c.driver;
        let mut ms = 0f32;
        // SAFETY: both events were made by `start` and are destroyed once.
        unsafe {
            d.check((d.event_record)(self.stop, c.stream), "cuEventRecord")?;
            d.check((d.event_synchronize)(self.stop), "cuEventSynchronize")?;
            d.check((d.event_elapsed_time)(&mut ms, self.start, self.stop), "cuEventElapsedTime")?;
            (d.event_destroy)(self.start);
            (d.event_destroy)(self.stop);
        }
        Ok(ms as f64)
    }
}
