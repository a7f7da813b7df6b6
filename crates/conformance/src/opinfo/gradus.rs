//! gradus as the backend of the samples.

use super::{Args, Backend, HostArray, HostDType, OpError, dispatch};
use gradus_core::{DType, Device, Tensor, grad::grad_of};

/// Runs samples through gradus's public API.
#[derive(Clone, Copy, Debug)]
pub struct Gradus {
    /// Where the samples' tensors live.
    pub device: Device,
}

impl Default for Gradus {
    /// On the CPU.
    fn default() -> Gradus {
        Gradus { device: Device::cpu() }
    }
}

impl Backend for Gradus {
    type Tensor = Tensor;

    fn load(&self, array: &HostArray, grad: bool) -> Result<Tensor, OpError> {
        let dtype = dtype(array.dtype()).ok_or_else(|| format!("gradus has no {:?}", array.dtype()))?;
        let t = Tensor::from_bytes(array.bytes(), array.shape(), dtype)?;
        let t = t.to(&self.device);
        t.eval()?;
        Ok(if grad { t.requires_grad_() } else { t })
    }

    fn call(&self, op: &str, args: &Args<'_, Tensor>) -> Option<Result<Vec<Tensor>, OpError>> {
        dispatch::call(op, args)
    }

    fn store(&self, tensor: &Tensor) -> Result<HostArray, OpError> {
        Ok(HostArray::new(host_dtype(tensor.dtype()), tensor.shape().to_vec(), tensor.to_bytes()?)?)
    }

    fn grad(&self, outs: &[(Tensor, Tensor)], wrt: &[Tensor]) -> Result<Vec<Option<Tensor>>, OpError> {
        let outs: Vec<(&Tensor, &Tensor)> = outs.iter().map(|(y, g)| (y, g)).collect();
        Ok(grad_of(&outs, &wrt.iter().collect::<Vec<_>>())?)
    }
}

/// gradus's name for a sample's element type.
pub fn dtype(d: HostDType) -> Option<DType> {
    Some(match d {
        HostDType::F64 => DType::F64,
        HostDType::F32 => DType::F32,
        HostDType::F16 => DType::F16,
        HostDType::BF16 => DType::BF16,
        HostDType::I64 => DType::I64,
        HostDType::I32 => DType::I32,
        HostDType::I16 => DType::I16,
        HostDType::I8 => DType::I8,
        HostDType::U8 => DType::U8,
        HostDType::Bool => DType::Bool,
        HostDType::U64 => return None,
    })
}

fn host_dtype(d: DType) -> HostDType {
    match d {
        DType::F64 => HostDType::F64,
        DType::F32 => HostDType::F32,
        DType::F16 => HostDType::F16,
        DType::BF16 => HostDType::BF16,
        DType::I64 => HostDType::I64,
        DType::I32 => HostDType::I32,
        DType::I16 => HostDType::I16,
        DType::I8 => HostDType::I8,
        DType::U8 => HostDType::U8,
        DType::Bool => HostDType::Bool,
    }
}
