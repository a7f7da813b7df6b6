//! Networks that tell pictures apart: the digits inside this program, MNIST, CIFAR-10.

use super::{Settings, finish};
use crate::app::{
    fail::{Done, Failure},
    json::Json,
    models::Classifier,
    out::Out,
};
use gradus::{
    CrossEntropyOptions, Result, Tensor, autocast,
    data::{
        self, DataLoader, Dataset, Image, Items, LabeledImages, LoaderOptions,
        cifar::{self, Cifar},
        idx::{self, Part},
        transform::{Compose, RandomCrop, RandomHorizontalFlip, RandomRotation},
    },
    nn::{Layer, Module},
    no_grad,
    optim::{AdamW, LrScheduler, OneCycle, Schedule},
    train::{Per, Trainer},
};
use std::{path::Path, time::Instant};

/// Pictures to test with at a time.
const TEST_BATCH: usize = 500;

/// The handwritten digits inside this program.
pub fn digits(s: &Settings, out: &Out) -> Done {
    let d = data::digits()?;
    let pictures = d.train_images.to_vec::<f32>()?;
    let labels = d.train_labels.to_vec::<i64>()?;
    let image = |p: &[f32]| Image::new(1, 8, 8, p.to_vec());
    let images = pictures.chunks(64).map(image).collect::<Result<Vec<_>>>()?;
    let train = Items(images.into_iter().zip(labels).collect::<Vec<_>>());
    // Moved by up to a pixel and turned a little, another way each time: more to learn from.
    let changes = Compose::new().then(RandomRotation { degrees: 10.0 }).then(RandomCrop::new(8, 8).padding(1));
    let train = train.transform(changes);
    let classes = (0..10).map(|d| d.to_string()).collect();
    run(s, "digits-convnet", train, Test { images: d.test_images, labels: d.test_labels, classes }, out)
}

/// MNIST from a folder.
pub fn mnist(s: &Settings, folder: &Path, model: &str, out: &Out) -> Done {
    let (train, test) = (idx::mnist(folder, Part::Train)?, idx::mnist(folder, Part::Test)?);
    let test = checked(folder, [1, 28, 28], &train, test)?;
    match model {
        "mlp" => run(s, "mnist-mlp", train, test, out),
        _ => run(s, "mnist-convnet", train, test, out),
    }
}

/// CIFAR-10 from a folder.
pub fn cifar10(s: &Settings, folder: &Path, out: &Out) -> Done {
    let (train, test) = (cifar::load(Cifar::Ten, folder, true)?, cifar::load(Cifar::Ten, folder, false)?);
    let test = checked(folder, [3, 32, 32], &train, test)?;
    let changes = Compose::new().then(RandomCrop::new(32, 32).padding(4)).then(RandomHorizontalFlip::default());
    run(s, "cifar10-convnet", train.transform(changes), test, out)
}

/// Files may be of another set that comes in the same format.
fn checked(folder: &Path, size: [usize; 3], train: &LabeledImages, test: LabeledImages) -> Result<Test, Failure> {
    if train.size() != size || test.size() != size || train.classes().len() != 10 || test.is_empty() || train.is_empty()
    {
        let found = format!("{:?} and {:?} in {} classes", train.size(), test.size(), train.classes().len());
        return Err(Failure::Usage(format!(
            "{}: pictures of {size:?} in 10 classes were expected, not {found}",
            folder.display()
        )));
    }
    let (images, labels) = test.tensors()?;
    Ok(Test { images, labels, classes: test.classes().to_vec() })
}

struct Test {
    images: Tensor,
    labels: Tensor,
    classes: Vec<String>,
}

/// How much of each target is spread over all classes: small sets are learned by heart too soon without it.
fn smoothing(model: &Classifier) -> f64 {
    match model.name {
        "mnist-convnet" | "mnist-mlp" => 0.0,
        _ => 0.1,
    }
}

fn run<D: Dataset<Item = (Image, i64)> + 'static>(s: &Settings, name: &str, train: D, test: Test, out: &Out) -> Done {
    let Some(mut model) = Classifier::named(name)? else { return Err(Failure::Run(format!("no model {name}"))) };
    model.net.to(&s.device)?;
    let test = Test { images: test.images.to(&s.device), ..test };
    let (learn, tested) = (train.len(), test.labels.numel());
    out.say(format!(
        "{}: {learn} images to learn from, {tested} to test; a network of {} parameters",
        s.task,
        model.net.num_parameters()
    ));
    let options = LoaderOptions {
        batch_size: s.batch_size,
        shuffle: true,
        drop_last: learn > s.batch_size,
        num_workers: 1,
        seed: s.seed,
        ..LoaderOptions::default()
    };
    let loader = DataLoader::new(train, options)?;
    let total = s.epochs * loader.len() as u64;
    let mut opt = AdamW::new(&model.net.parameters(), s.lr);
    let cycle = OneCycle::new(s.lr, total.max(2));
    let schedule = LrScheduler::new(&mut opt, Schedule::OneCycle(cycle))?;
    let target = CrossEntropyOptions { label_smoothing: smoothing(&model), ..CrossEntropyOptions::default() };
    let began = Instant::now();
    let trainer = Trainer::new(opt).schedule(schedule, Per::Step).validate(|| {
        let (right, _) = evaluate(s, &model, &test)?;
        Ok(vec![("test_accuracy".into(), right as f64 / tested as f64)])
    });
    let report =
        s.equip(trainer, || model.net.state_dict(), |state| model.net.load_state_dict(state), 200)?.fit_compiled(
            |epoch| {
                loader.set_epoch(epoch);
                loader.iter().map(|batch| batch.map(|(x, y)| [x.to(&s.device), y.to(&s.device)]))
            },
            |[x, y]| model.net.forward(x)?.cross_entropy_with(y, &target),
        )?;
    let seconds = began.elapsed().as_secs_f64();
    let (right, confusion) = evaluate(s, &model, &test)?;
    let accuracy = right as f64 / tested as f64;
    out.say(table(&confusion, &test.classes));
    out.say(format!("test accuracy {accuracy:.4} ({right} of {tested}) after {seconds:.1} s"));
    let rows = confusion.iter().map(|row| Json::list(row.iter().copied()));
    let result = vec![
        ("accuracy", accuracy.into()),
        ("seconds", seconds.into()),
        ("parameters", model.net.num_parameters().into()),
        ("confusion", Json::List(rows.collect())),
    ];
    finish(s, &report, &model.state(&test.classes), result, out)
}

/// How many are right, and how often class `i` was taken for `j`.
fn evaluate(s: &Settings, model: &Classifier, test: &Test) -> Result<(usize, Vec<Vec<usize>>)> {
    model.net.eval();
    let mut confusion = vec![vec![0; model.classes]; model.classes];
    let n = test.labels.numel();
    for at in (0..n).step_by(TEST_BATCH) {
        let len = TEST_BATCH.min(n - at);
        let scores = no_grad(|| autocast(s.amp, || model.net.forward(&test.images.narrow(0, at, len)?)))?;
        let taken = scores.argmax_dim(1, false)?.to_vec::<i64>()?;
        let labels = test.labels.narrow(0, at, len)?.to_vec::<i64>()?;
        for (&label, &taken) in labels.iter().zip(&taken) {
            if let Some(cell) = confusion.get_mut(label as usize).and_then(|row| row.get_mut(taken as usize)) {
                *cell += 1;
            }
        }
    }
    model.net.train();
    Ok(((0..model.classes).filter_map(|i| confusion.get(i)?.get(i)).sum(), confusion))
}

/// The confusion as a table: rows are what is there, columns what it was taken for.
fn table(confusion: &[Vec<usize>], classes: &[String]) -> String {
    let name = classes.iter().map(|c| c.chars().count()).max().unwrap_or(1).max(7);
    let cell = confusion.iter().flatten().max().map_or(1, |m| m.to_string().len()).max(3);
    let columns: String = (0..confusion.len()).map(|i| format!(" {i:>cell$}")).collect();
    let mut lines = vec![format!("\n  {:name$}{columns}", "read as")];
    for (class, row) in classes.iter().zip(confusion) {
        let cells: String =
            row.iter().map(|&n| if n == 0 { format!(" {:>cell$}", ".") } else { format!(" {n:>cell$}") }).collect();
        lines.push(format!("  {class:>name$}{cells}"));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confusion_as_a_table() {
        let t = table(&[vec![3, 0], vec![1, 1200]], &["0".into(), "cat".into()]);
        assert_eq!(t, "\n  read as    0    1\n        0    3    .\n      cat    1 1200\n");
    }
}
