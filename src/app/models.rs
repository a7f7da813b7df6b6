//! The networks that the command trains, by name: a saved model says which one it is.

mod gpt;

use super::fail::Failure;
use gradus::{
    Result,
    io::{self, StateDict},
    nn::{BatchNorm2d, Conv2d, Dropout, Flatten, Linear, MaxPool2d, Module, Relu, Sequential},
};
use std::path::Path;

pub use gpt::{Gpt, GptOptions, Reader, reader};

/// A network for pictures: channels, height and width that it takes, and how many kinds it tells apart.
pub struct Classifier {
    pub name: &'static str,
    pub input: [usize; 3],
    pub classes: usize,
    pub net: Sequential,
}

/// Convolutions of these channels, normalised, with a pooling after each of the last `pools`, and two dense layers.
fn convnet(input: [usize; 3], channels: &[usize], pools: usize, hidden: usize, drop: f64) -> Result<Sequential> {
    let [mut from, mut height, mut width] = input;
    let mut net = Sequential::new();
    for (i, &to) in channels.iter().enumerate() {
        net.push(Conv2d::new(from, to, 3)?.padding(1).bias(false));
        net.push(BatchNorm2d::new(to));
        net.push(Relu);
        if i + pools >= channels.len() {
            net.push(MaxPool2d::new(2));
            (height, width) = (height / 2, width / 2);
        }
        from = to;
    }
    net.push(Flatten::default());
    net.push(Linear::new(from * height * width, hidden));
    net.push(Relu);
    net.push(Dropout::new(drop));
    net.push(Linear::new(hidden, 10));
    Ok(net)
}

impl Classifier {
    /// A network by its name.
    pub fn named(name: &str) -> Result<Option<Classifier>> {
        let (name, input, net) = match name {
            "digits-convnet" => {
                let input = [1, 8, 8];
                ("digits-convnet", input, convnet(input, &[16, 32], 1, 64, 0.2)?)
            }
            "mnist-convnet" => {
                let input = [1, 28, 28];
                ("mnist-convnet", input, convnet(input, &[16, 32], 2, 128, 0.25)?)
            }
            "mnist-mlp" => {
                let (first, second) = (Linear::new(784, 256), Linear::new(256, 128));
                let net = (Flatten::default(), first, Relu, second, Relu, Linear::new(128, 10));
                ("mnist-mlp", [1, 28, 28], Sequential::from(net))
            }
            "cifar10-convnet" => {
                let input = [3, 32, 32];
                ("cifar10-convnet", input, convnet(input, &[32, 64, 128, 128], 3, 256, 0.25)?)
            }
            _ => return Ok(None),
        };
        Ok(Some(Classifier { name, input, classes: 10, net }))
    }

    /// Its weights, and what it is.
    pub fn state(&self, classes: &[String]) -> StateDict {
        let mut state = self.net.state_dict();
        state.metadata_mut().insert("model".into(), self.name.into());
        state.metadata_mut().insert("classes".into(), classes.join(",").into());
        state
    }
}

/// What a saved model is.
pub enum Saved {
    Classifier(Box<Classifier>, Vec<String>),
    Gpt(Box<Gpt>, Reader),
}

/// Loads a model that this command saved.
pub fn load(path: &Path) -> Result<Saved, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    let state = io::load(path)?;
    let text = |key: &str| state.metadata().get(key).and_then(io::Meta::as_str);
    let Some(name) = text("model") else {
        return Err(wrong("this file does not say which model it is: `gradus train` saves files that do".into()));
    };
    let fits = |e: gradus::Error| wrong(e.to_string());
    let saved = if name == "char-gpt" {
        let (gpt, reader) = gpt::restore(&state).map_err(fits)?;
        Saved::Gpt(Box::new(gpt), reader)
    } else {
        let found = Classifier::named(name).map_err(fits)?;
        let model = found.ok_or_else(|| wrong(format!("there is no model `{}` here", name.escape_debug())))?;
        model.net.load_state_dict(&state).map_err(fits)?;
        model.net.eval();
        let classes = text("classes").map_or(vec![], |c| c.split(',').map(str::to_string).collect());
        Saved::Classifier(Box::new(model), classes)
    };
    Ok(saved)
}
