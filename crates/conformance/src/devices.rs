//! Devices by name.

use crate::oracle;
use gradus_core::Device;
use gradus_cuda::CudaDevice;

/// `cpu`, `oracle`, `cuda` or `cuda:N`.
pub fn by_name(name: &str) -> Result<Device, String> {
    match name.split_once(':').unwrap_or((name, "0")) {
        ("cpu", "0") => Ok(Device::cpu()),
        ("oracle", "0") => Ok(oracle::device()),
        ("cuda", n) => {
            let n = n.parse().map_err(|_| format!("no device {name}"))?;
            Device::cuda(n).map_err(|e| e.to_string())
        }
        _ => Err(format!("no device {name}; there are cpu, oracle and cuda:N")),
    }
}
