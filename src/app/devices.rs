//! `devices`: where gradus can compute.

use super::{
    fail::{Done, Failure},
    json::Json,
    out::Out,
};
use gradus::{
    Device,
    cuda::{self, CudaDevice},
    train::available_memory,
};
use std::process::ExitCode;

/// The device of a name, or a line that says what there is.
pub fn named(name: &str) -> Result<Device, Failure> {
    let gpu = name.strip_prefix("cuda").map(|n| n.strip_prefix(':').unwrap_or(if n.is_empty() { "0" } else { n }));
    if let Some(Ok(n)) = gpu.map(str::parse) {
        return Device::cuda(n).map_err(|e| Failure::Usage(format!("no device {name}: {}", first_line(&e))));
    }
    match name {
        "cpu" => Ok(Device::cpu()),
        other => Err(Failure::Usage(format!("there is no device {other} here; `gradus devices` lists them"))),
    }
}

/// An error's first line.
fn first_line(e: &gradus::Error) -> String {
    e.to_string().lines().next().unwrap_or_default().to_string()
}

/// What the processor can do, as far as kernels use it.
fn instructions() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let has = [
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx2", is_x86_feature_detected!("avx2")),
            ("fma", is_x86_feature_detected!("fma")),
        ];
        has.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        vec![]
    }
}

/// `gradus devices`
pub fn run(out: &Out) -> Done {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = available_memory();
    let cpu = Device::cpu();
    let free = memory.map_or(String::new(), |m| format!(", {:.1} GB free", m as f64 / 1e9));
    out.say(format!("{cpu}  {threads} threads{free}  {}", instructions().join(" ")));
    let gpus = match cuda::devices() {
        Ok(gpus) => gpus,
        Err(e) => {
            out.say(format!("cuda  none: {}", first_line(&e)));
            vec![]
        }
    };
    let mut all = vec![];
    for g in &gpus {
        let name = format!("cuda:{}", g.ordinal);
        out.say(format!("{name}  {}, {:.1} GB, {} multiprocessors", g.name, g.memory as f64 / 1e9, g.multiprocessors));
        all.push(Json::object([
            ("name", name.into()),
            ("model", g.name.clone().into()),
            ("bytes", g.memory.into()),
            ("capability", (g.capability as usize).into()),
        ]));
    }
    let one = Json::object([
        ("name", cpu.to_string().into()),
        ("threads", threads.into()),
        ("free_bytes", memory.map_or(Json::Null, Json::from)),
        ("instructions", Json::list(instructions())),
    ]);
    all.insert(0, one);
    out.finish(Json::object([("devices", Json::List(all))]));
    Ok(ExitCode::SUCCESS)
}
