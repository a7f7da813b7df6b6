//! `info` and `convert`.

use super::{
    fail::{Done, Failure},
    json::Json,
    out::Out,
};
use clap::ArgMatches;
use gradus::{DType, Tensor, io};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

fn meta(m: &io::Meta) -> Json {
    match m {
        io::Meta::None => Json::Null,
        io::Meta::Bool(b) => (*b).into(),
        io::Meta::Int(i) => (*i).into(),
        io::Meta::Float(x) => (*x).into(),
        io::Meta::Str(s) => s.as_str().into(),
        io::Meta::List(items) => Json::List(items.iter().map(meta).collect()),
    }
}

fn described(path: &Path, info: &io::Info) -> Json {
    let tensor = |e: &io::Entry| {
        Json::object([
            ("name", e.name.as_str().into()),
            ("dtype", e.dtype.map_or(Json::Str(e.dtype_name.clone()), |d| d.to_string().into())),
            ("shape", Json::list(e.shape.iter().copied())),
            ("bytes", e.bytes.into()),
        ])
    };
    Json::object([
        ("file", path.display().to_string().into()),
        ("format", info.format.to_string().into()),
        ("elements", info.numel().into()),
        ("tensors", Json::List(info.entries.iter().map(tensor).collect())),
        ("metadata", Json::object(info.metadata.iter().map(|(k, v)| (k.as_str(), meta(v))))),
    ])
}

/// `gradus info FILE...`
pub fn info(m: &ArgMatches, out: &Out) -> Done {
    let files: Vec<&PathBuf> = m.get_many("FILE").into_iter().flatten().collect();
    let mut all = vec![];
    for &path in &files {
        let info = io::inspect(path)?;
        if files.len() > 1 {
            out.say(format!("{}:", path.display()));
        }
        out.say(shown(&info).trim_end());
        all.push(described(path, &info));
    }
    out.finish(if files.len() == 1 { all.remove(0) } else { Json::List(all) });
    Ok(ExitCode::SUCCESS)
}

fn shown(info: &io::Info) -> String {
    let bytes: u64 = info.entries.iter().map(|e| e.bytes).sum();
    format!("{info}{:.1} MB of elements", bytes as f64 / 1e6)
}

/// `gradus convert IN OUT`
pub fn convert(m: &ArgMatches, out: &Out) -> Done {
    let named = |name| m.get_one::<PathBuf>(name).cloned().unwrap_or_default();
    let (from, to) = (named("IN"), named("OUT"));
    // Better to say so before a large file is read.
    if io::Format::of_extension(&to).is_none() {
        return Err(Failure::Usage(format!("{}: the extension must be .safetensors, .npz or .npy", to.display())));
    }
    let mut state = io::load(&from)?;
    if m.get_flag("drop-metadata") {
        state.metadata_mut().clear();
    }
    if let Some(dtype) = m.get_one::<String>("dtype") {
        state = cast(&state, dtype);
    }
    for_numpy(&to, &state)?;
    if m.get_flag("compress") && io::Format::of_extension(&to) == Some(io::Format::Npz) {
        io::npz::save(&to, &state, io::npz::Compression::Deflated)?;
    } else {
        io::save(&to, &state)?;
    }
    let numel: usize = state.iter().map(|(_, t)| t.numel()).sum();
    out.say(format!("{} tensors, {numel} elements: {} -> {}", state.len(), from.display(), to.display()));
    out.finish(Json::object([
        ("from", from.display().to_string().into()),
        ("to", to.display().to_string().into()),
        ("tensors", state.len().into()),
        ("elements", numel.into()),
    ]));
    Ok(ExitCode::SUCCESS)
}

/// What NumPy's formats cannot hold, with the flag that helps.
fn for_numpy(to: &Path, state: &io::StateDict) -> Result<(), Failure> {
    if !matches!(io::Format::of_extension(to), Some(io::Format::Npz | io::Format::Npy)) {
        return Ok(());
    }
    let say = |why: String| Err(Failure::Usage(format!("{}: {why}", to.display())));
    if let Some(key) = state.metadata().keys().next() {
        return say(format!("NumPy's formats cannot hold `{}`: add --drop-metadata", key.escape_debug()));
    }
    match state.iter().find(|(_, t)| t.dtype() == DType::BF16) {
        Some((name, _)) => say(format!("NumPy has no bf16, as `{}` is: add --dtype f32", name.escape_debug())),
        None => Ok(()),
    }
}

fn cast(state: &io::StateDict, name: &str) -> io::StateDict {
    let to = [DType::F64, DType::F32, DType::F16, DType::BF16].into_iter().find(|d| d.to_string() == name);
    let cast = |t: &Tensor| match to {
        Some(to) if t.dtype().is_float() => t.to_dtype(to),
        Some(_) | None => t.clone(),
    };
    let mut new: io::StateDict = state.iter().map(|(n, t)| (n, cast(t))).collect();
    *new.metadata_mut() = state.metadata().clone();
    new
}
