//! `predict`: pictures to classes, or a prompt to a text.

use super::{
    fail::{Done, Failure},
    json::Json,
    models::{self, Classifier, Saved},
    out::Out,
    train::{Written, write},
};
use clap::ArgMatches;
use gradus::{
    Result, Tensor,
    data::{
        Image, Rng,
        image::{self, ImageOptions},
        transform::{Resize, Transform},
    },
    io,
    nn::Layer,
    no_grad,
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// `gradus predict`
pub fn run(m: &ArgMatches, out: &Out) -> Done {
    let path = m.get_one::<PathBuf>("model").cloned().unwrap_or_default();
    if !path.exists() {
        let how = if m.value_source("model") == Some(clap::parser::ValueSource::DefaultValue) {
            "run `gradus` once to make it, or name another with --model"
        } else {
            "is the name right?"
        };
        return Err(Failure::Usage(format!("{}: there is no such file ({how})", path.display())));
    }
    let inputs: Vec<&PathBuf> = m.get_many("INPUT").into_iter().flatten().collect();
    match models::load(&path)? {
        Saved::Gpt(gpt, reader) => {
            if !inputs.is_empty() {
                return Err(Failure::Usage(format!("{} writes: give it --prompt TEXT, not files", path.display())));
            }
            let prompt = m.get_one::<String>("prompt").cloned().unwrap_or_else(|| "\n".into());
            let wanted = Written {
                prompt: &prompt,
                length: m.get_one::<usize>("length").copied().unwrap_or(500),
                temperature: m.get_one::<f64>("temperature").copied().unwrap_or(0.8),
                seed: m.get_one::<u64>("seed").copied().unwrap_or(0),
            };
            reader.tokenizer().encode(prompt.as_bytes()).map_err(|e| Failure::Usage(e.to_string()))?;
            let text = write(&gpt, &reader, &wanted)?;
            out.say(&text);
            out.finish(Json::object([("text", text.into())]));
        }
        Saved::Classifier(model, classes) => {
            if inputs.is_empty() {
                return Err(Failure::Usage("predict needs a picture: .png, .jpg or .npy".into()));
            }
            let mut all = vec![];
            for input in inputs {
                for (index, picture) in pictures(input, &model)?.into_iter().enumerate() {
                    all.push(one(&model, &classes, input, index, &picture, out)?);
                }
            }
            out.finish(Json::object([("predictions", Json::List(all))]));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn one(
    model: &Classifier,
    classes: &[String],
    input: &Path,
    index: usize,
    picture: &Image,
    out: &Out,
) -> Result<Json, Failure> {
    let x = picture.to_tensor()?.unsqueeze(0)?;
    let chances = no_grad(|| model.net.forward(&x)?.softmax(-1))?.to_vec::<f64>()?;
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&a, &b| chances[b].total_cmp(&chances[a]));
    let name = |i: usize| classes.get(i).cloned().unwrap_or_else(|| i.to_string());
    let shown: Vec<String> =
        order.iter().take(3).map(|&i| format!("{} {:.1} %", name(i), 100.0 * chances[i])).collect();
    let best = order.first().copied().unwrap_or(0);
    let place = if index == 0 { String::new() } else { format!(" [{index}]") };
    out.say(format!("{}{place}: {}  ({})", input.display(), name(best), shown.join(", ")));
    Ok(Json::object([
        ("file", input.display().to_string().into()),
        ("index", index.into()),
        ("class", name(best).into()),
        ("probability", chances[best].into()),
        ("probabilities", Json::list(chances)),
    ]))
}

/// The pictures of a file, brought to the size and the range that the model learned from.
fn pictures(path: &Path, model: &Classifier) -> Result<Vec<Image>, Failure> {
    let [channels, height, width] = model.input;
    let is_npy = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy"));
    let found = if is_npy {
        from_array(path, &io::npy::load(path)?)?
    } else {
        vec![image::load(path, &ImageOptions { channels: Some(channels), ..ImageOptions::default() })?]
    };
    let fit = |mut i: Image| -> Result<Image, Failure> {
        if i.channels() != channels {
            let why = format!(
                "{}: the model takes {channels} channels, and the picture has {}",
                path.display(),
                i.channels()
            );
            return Err(Failure::Usage(why));
        }
        // Digits are light on a dark ground in the data; photographs of paper are the other way round.
        let mean = i.pixels().iter().sum::<f32>() / i.pixels().len().max(1) as f32;
        if channels == 1 && mean > 0.5 {
            i.pixels_mut().iter_mut().for_each(|p| *p = 1.0 - *p);
        }
        if (i.height(), i.width()) == (height, width) {
            return Ok(i);
        }
        Ok(Resize::new(height, width).apply(i, &mut Rng::new(0, 0))?)
    };
    found.into_iter().map(fit).collect()
}

/// An array of one or several pictures; values above 1 are bytes, or the 16 steps of the digits.
fn from_array(path: &Path, t: &Tensor) -> Result<Vec<Image>, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    let size = match *t.dims() {
        [h, w] => [1, 1, h, w],
        [c, h, w] => [1, c, h, w],
        [n, c, h, w] => [n, c, h, w],
        _ => return Err(wrong(format!("a picture has 2 to 4 axes, not {}", t.shape()))),
    };
    let [n, c, h, w] = size;
    if t.numel() == 0 {
        return Err(wrong(format!("{} holds no pixels", t.shape())));
    }
    let values = t.to_vec::<f32>()?;
    let most = values.iter().copied().fold(0.0, f32::max);
    let scale = if most <= 1.0 {
        1.0
    } else if most <= 16.0 {
        16.0
    } else {
        255.0
    };
    if !values.iter().all(|v| (0.0..=255.0).contains(v)) {
        return Err(wrong("pixels lie between 0 and 255".into()));
    }
    let image = |p: &[f32]| Image::new(c, h, w, p.iter().map(|v| v / scale).collect());
    Ok(values.chunks(t.numel() / n).map(image).collect::<Result<Vec<_>>>()?)
}
