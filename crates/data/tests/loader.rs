//! Loaders: lengths, orders, workers and places as promised.

use gradus_core::{Error, Result, Tensor};
use gradus_data::{DataLoader, Dataset, Items, LoaderOptions, LoaderState, Rng, Sampler, TensorDataset};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn numbers(n: i64) -> Items<i64> {
    Items((0..n).collect())
}

fn options(batch_size: usize) -> LoaderOptions {
    LoaderOptions { batch_size, ..LoaderOptions::default() }
}

fn epoch<D: Dataset + 'static>(loader: &DataLoader<D, Tensor>) -> Vec<Vec<i64>> {
    loader.iter().map(|b| b.unwrap().to_vec::<i64>().unwrap()).collect()
}

#[test]
fn lengths_are_pytorchs() {
    // (items, batch, drop_last) -> len(DataLoader(...)) in PyTorch.
    for (n, batch, drop_last, want) in
        [(10, 3, false, 4), (10, 3, true, 3), (9, 3, false, 3), (9, 3, true, 3), (2, 3, false, 1), (2, 3, true, 0)]
    {
        let loader = DataLoader::new(numbers(n), LoaderOptions { drop_last, ..options(batch) }).unwrap();
        let got = epoch(&loader);
        assert_eq!((loader.len(), got.len()), (want, want), "{n} {batch} {drop_last}");
        let items: Vec<i64> = got.concat();
        assert_eq!(items, (0..items.len() as i64).collect::<Vec<_>>());
    }
    let empty = DataLoader::new(numbers(0), options(4)).unwrap();
    assert!(empty.is_empty() && epoch(&empty).is_empty());
}

#[test]
fn shuffling_is_another_order_each_epoch_and_the_same_for_the_same_seed() {
    let make = |seed| DataLoader::new(numbers(100), LoaderOptions { shuffle: true, seed, ..options(7) }).unwrap();
    let (a, b, c) = (make(1), make(1), make(2));
    let (first, second) = (epoch(&a), epoch(&a));
    assert_ne!(first, second);
    assert_eq!((&first, &second), (&epoch(&b), &epoch(&b)));
    assert_ne!(first, epoch(&c));
    let mut sorted = first.concat();
    sorted.sort();
    assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    // The very order, which must not change from release to release or machine to machine.
    assert_eq!(first[0], [17, 45, 30, 25, 37, 93, 73]);
}

/// Items that depend on the draws, with threads that finish in another order than they start.
fn noisy(n: i64) -> impl Dataset<Item = i64> {
    numbers(n).augment(|x, rng: &mut Rng| {
        if x % 5 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Ok(x * 1000 + rng.below(1000) as i64)
    })
}

#[test]
fn workers_change_nothing() {
    let make = |num_workers, prefetch_factor| {
        let o = LoaderOptions { shuffle: true, seed: 3, num_workers, prefetch_factor, ..options(4) };
        DataLoader::new(noisy(50), o).unwrap()
    };
    let alone = make(0, 2);
    let (first, second) = (epoch(&alone), epoch(&alone));
    assert_ne!(first, second);
    for (workers, prefetch) in [(1, 1), (2, 1), (3, 2), (40, 3)] {
        let loader = make(workers, prefetch);
        assert_eq!(epoch(&loader), first, "{workers} workers");
        assert_eq!(epoch(&loader), second, "{workers} workers");
    }
}

#[test]
fn a_place_gives_the_same_rest() {
    for workers in [0, 3] {
        let o = LoaderOptions { shuffle: true, seed: 9, num_workers: workers, drop_last: true, ..options(4) };
        let make = || DataLoader::new(noisy(42), o.clone()).unwrap();
        let whole: Vec<Vec<Vec<i64>>> = {
            let l = make();
            (0..3).map(|_| epoch(&l)).collect()
        };
        for stop in 0..=10 {
            let first = make();
            epoch(&first);
            let begun: Vec<_> = first.iter().take(stop).map(|b| b.unwrap().to_vec::<i64>().unwrap()).collect();
            assert_eq!(begun, whole[1][..stop]);
            let at: LoaderState = first.state().to_string().parse().unwrap();
            assert_eq!(at, LoaderState { seed: 9, epoch: 1, batch: stop as u64 });
            let second = make();
            second.restore(at).unwrap();
            assert_eq!(epoch(&second), whole[1][stop..], "{workers} workers, stopped after {stop}");
            assert_eq!(epoch(&second), whole[2]);
            // And the first one goes on from where it was left.
            assert_eq!(epoch(&first), whole[1][stop..]);
        }
    }
}

#[test]
fn the_last_batch_is_not_yet_the_next_epoch() {
    let loader = DataLoader::new(numbers(4), options(2)).unwrap();
    let mut batches = loader.iter();
    batches.next();
    batches.next();
    // Work that belongs to the end of an epoch is still to be done, so a checkpoint made here says so.
    assert_eq!(loader.state(), LoaderState { seed: 0, epoch: 0, batch: 2 });
    assert!(batches.next().is_none());
    assert_eq!(loader.state(), LoaderState { seed: 0, epoch: 1, batch: 0 });
    assert!(batches.next().is_none(), "an iterator that is over stays so");
    assert_eq!(loader.state().epoch, 1);
    loader.set_epoch(5);
    assert_eq!(loader.state(), LoaderState { seed: 0, epoch: 5, batch: 0 });
    let e = loader.restore(LoaderState { seed: 0, epoch: 0, batch: 3 }).unwrap_err().to_string();
    assert!(e.contains("batch 3, and an epoch has 2"), "{e}");
    for bad in ["", "seed=1 epoch=2", "seed=1 epoch=2 batch=x", "seed=1 epoch=2 batch=3 more=4"] {
        assert!(bad.parse::<LoaderState>().is_err(), "{bad}");
    }
}

#[test]
fn errors_and_panics_come_out_where_they_belong() {
    for workers in [0, 2] {
        let data = numbers(20).map(|x| if x == 9 { Err(Error::value("item", "nine is bad")) } else { Ok(x) });
        let loader = DataLoader::new(data, LoaderOptions { num_workers: workers, ..options(2) }).unwrap();
        let got: Vec<Result<Tensor>> = loader.iter().collect();
        assert_eq!(got.len(), 5, "four batches and the error");
        assert!(got[4].as_ref().unwrap_err().to_string().contains("nine is bad"));
        assert_eq!(loader.state().batch, 4);
    }
    let data = numbers(20).map(|x| {
        assert_ne!(x, 9, "nine again");
        Ok(x)
    });
    let loader = DataLoader::new(data, LoaderOptions { num_workers: 2, ..options(2) }).unwrap();
    let last = loader.iter().last().unwrap().unwrap_err().to_string();
    assert!(last.contains("making batch 4 panicked") && last.contains("nine again"), "{last}");
}

#[test]
fn workers_stop_when_the_iterator_goes() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let data = numbers(10_000).map(|x| {
        MADE.fetch_add(1, SeqCst);
        Ok(x)
    });
    let o = LoaderOptions { num_workers: 3, prefetch_factor: 2, ..options(1) };
    let loader = DataLoader::new(data, o).unwrap();
    loader.iter().next();
    let made = MADE.load(SeqCst);
    // One given out, two waiting and one in hand a worker: nothing runs ahead without end.
    assert!(made <= 1 + 3 * (2 + 2), "{made}");
    assert_eq!(loader.state().batch, 1);
}

#[test]
fn weights_decide_how_often() {
    let weighted = |weights: &[f64], num_samples, replacement| {
        let sampler = Sampler::Weighted { weights: weights.to_vec(), num_samples, replacement };
        DataLoader::new(numbers(4), LoaderOptions { sampler: Some(sampler), seed: 5, ..options(100) })
    };
    let loader = weighted(&[1.0, 0.0, 2.0, 5.0], 8000, true).unwrap();
    assert_eq!(loader.len(), 80);
    let drawn = epoch(&loader).concat();
    let count = |k| drawn.iter().filter(|&&x| x == k).count();
    assert_eq!((drawn.len(), count(1)), (8000, 0));
    for (k, want) in [(0, 1000), (2, 2000), (3, 5000)] {
        assert!(count(k).abs_diff(want) < 150, "{k}: {}", count(k));
    }
    // Without replacement: a heavy item comes first more often than its share of places.
    let loader = weighted(&[1.0, 0.0, 1.0, 8.0], 3, false).unwrap();
    let firsts: Vec<i64> = (0..20_000)
        .map(|_| {
            let mut d = epoch(&loader).concat();
            let f = d[0];
            d.sort();
            assert_eq!(d, [0, 2, 3]);
            f
        })
        .collect();
    let heavy = firsts.iter().filter(|&&f| f == 3).count();
    assert!((15_800..16_200).contains(&heavy), "{heavy}");
    for (weights, n, replacement, why) in [
        (&[1.0][..], 1, true, "1 weights do not fit a data set of 4"),
        (&[1.0, -1.0, 0.0, 0.0], 1, true, "weight 1 is -1"),
        (&[1.0, f64::NAN, 0.0, 0.0], 1, true, "weight 1 is NaN"),
        (&[0.0; 4], 1, true, "no weight is above zero"),
        (&[1.0, 1.0, 0.0, 0.0], 3, false, "3 draws without replacement"),
        (&[f64::MAX; 4], 3, true, "add up to more"),
    ] {
        let Err(e) = weighted(weights, n, replacement) else { panic!("{why}") };
        assert!(e.to_string().contains(why), "{e}");
    }
}

#[test]
fn options_that_make_no_sense() {
    let make = |o: LoaderOptions| DataLoader::new(numbers(4), o).err().unwrap().to_string();
    assert!(make(options(0)).contains("batch_size must be at least 1"));
    assert!(make(LoaderOptions { num_workers: 1, prefetch_factor: 0, ..options(1) }).contains("prefetch_factor"));
    let both = LoaderOptions { shuffle: true, sampler: Some(Sampler::Sequential), ..options(1) };
    assert!(make(both).contains("exclude each other"));
    let beyond = LoaderOptions { sampler: Some(Sampler::Indices(vec![0, 4])), ..options(1) };
    assert!(make(beyond).contains("item 4 of a data set of 4"));
    let some = LoaderOptions { sampler: Some(Sampler::Indices(vec![3, 1, 1])), ..options(2) };
    assert_eq!(epoch(&DataLoader::new(numbers(4), some).unwrap()), [vec![3, 1], vec![1]]);
}

#[test]
fn items_become_batches() {
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]).t().unwrap(); // not contiguous: [2, 3]
    let data = TensorDataset::new(&x, &Tensor::from([true, false])).unwrap();
    let (a, b) = DataLoader::new(data, options(2)).unwrap().iter().next().unwrap().unwrap();
    assert_eq!((a.dims(), a.to_vec::<f32>().unwrap()), (&[2, 3][..], vec![1.0, 3.0, 5.0, 2.0, 4.0, 6.0]));
    assert_eq!((b.dims(), b.to_vec::<bool>().unwrap()), (&[2][..], vec![true, false]));

    let triples = Items(vec![(vec![1i32, 2], 0.5f64, "a".to_string()), (vec![3, 4], 1.5, "b".to_string())]);
    let (v, f, s) = DataLoader::new(triples, options(2)).unwrap().iter().next().unwrap().unwrap();
    assert_eq!((v.dims(), f.to_vec::<f64>().unwrap(), s), (&[2, 2][..], vec![0.5, 1.5], vec!["a".into(), "b".into()]));

    let ragged = Items(vec![vec![1.0f32], vec![1.0, 2.0]]);
    let e = DataLoader::new(ragged, options(2)).unwrap().iter().next().unwrap().unwrap_err().to_string();
    assert!(e.contains("item 1 has 2 numbers, the first one 1"), "{e}");
    let tensors = Items(vec![Tensor::from([1.0f32]), Tensor::from([1i64])]);
    let e = DataLoader::new(tensors, options(2)).unwrap().iter().next().unwrap().unwrap_err().to_string();
    assert!(e.contains("item 1 has i64 [1], the first one f32 [1]"), "{e}");
    let e = TensorDataset::new(&x, &Tensor::from([1.0f32])).unwrap_err().to_string();
    assert!(e.contains("inputs [2, 3] and targets [1]"), "{e}");
}
