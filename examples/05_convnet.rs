//! A convnet on the digits: layers in a row, training and evaluation mode, a schedule, and the model in a file.
//!
//! cargo run --release --example 05_convnet

use gradus::{
    data::{DataLoader, LoaderOptions, TensorDataset, digits},
    io,
    nn::{BatchNorm2d, Conv2d, Dropout, Flatten, Linear, MaxPool2d, Relu, Sequential},
    optim::OneCycle,
    prelude::*,
};
use std::path::Path;

fn network() -> Result<Sequential> {
    Ok(Sequential::from((
        Sequential::from((Conv2d::new(1, 16, 3)?.padding(1), BatchNorm2d::new(16), Relu)),
        Sequential::from((Conv2d::new(16, 32, 3)?.padding(1), BatchNorm2d::new(32), Relu)),
        MaxPool2d::new(2), // [n, 32, 8, 8] -> [n, 32, 4, 4]
        Flatten::default(),
        Dropout::new(0.2),
        Linear::new(32 * 4 * 4, 10),
    )))
}

fn accuracy(model: &Sequential, images: &Tensor, labels: &Tensor) -> Result<f64> {
    model.eval(); // batch norm uses what it has seen so far, dropout drops nothing
    let read = no_grad(|| model.forward(images))?.argmax_dim(1, false)?;
    model.train();
    read.eq(labels)?.to_dtype(DType::F64).mean().item()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::temp_dir().join("gradus-05-convnet.safetensors");
    println!("test accuracy {:.4}, and the same from {}", learn(12, &file)?, file.display());
    Ok(())
}

/// Learns for so many passes over the data and saves the model; the accuracy of what is loaded again.
pub fn learn(epochs: usize, file: &Path) -> Result<f64, Box<dyn std::error::Error>> {
    manual_seed(0);
    let d = digits()?;
    let data = TensorDataset::new(&d.train_images, &d.train_labels)?;
    let options = LoaderOptions { batch_size: 64, shuffle: true, num_workers: 1, ..Default::default() };
    let loader = DataLoader::new(data, options)?;
    let model = network()?;
    println!("{}", model.summary());

    let mut opt = AdamW::new(&model.parameters(), 5e-3);
    // Up for a third of the steps, then down to almost nothing.
    let cycle = OneCycle::new(5e-3, (epochs * loader.len()) as u64);
    let mut schedule = LrScheduler::new(&mut opt, Schedule::OneCycle(cycle))?;
    for epoch in 1..=epochs {
        let mut total = 0.0;
        for batch in &loader {
            let (images, labels) = batch?;
            let loss = model.forward(&images)?.cross_entropy(&labels)?;
            opt.step(&loss.backward()?)?;
            schedule.step(&mut opt)?;
            total += loss.item::<f64>()?;
        }
        let right = accuracy(&model, &d.test_images, &d.test_labels)?;
        println!("epoch {epoch:2}: mean loss {:.4}, test accuracy {right:.4}", total / loader.len() as f64);
    }

    // A model is its names and tensors: `gradus info FILE` lists them, and PyTorch reads the file too.
    io::save(file, &model.state_dict())?;
    let again = network()?;
    again.load_state_dict(&io::load(file)?)?;
    Ok(accuracy(&again, &d.test_images, &d.test_labels)?)
}
