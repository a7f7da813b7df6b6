//! Data sets made from others.

use gradus_core::Tensor;
use gradus_data::{DataLoader, Dataset, Items, LoaderOptions, Rows, TensorDataset};
use std::sync::Arc;

fn all<D: Dataset>(d: &D) -> Vec<D::Item> {
    (0..d.len()).map(|i| d.get(i).unwrap()).collect()
}

#[test]
fn chosen_joined_and_paired() {
    let d = Items((0..10).collect::<Vec<i64>>());
    assert_eq!(all(&d.clone().filter(|x| x % 3 == 0).unwrap()), [0, 3, 6, 9]);
    assert_eq!(all(&d.clone().subset([9, 0, 9]).unwrap()), [9, 0, 9]);
    assert!(d.clone().subset([10]).unwrap_err().to_string().contains("index 10 is out of range for size 10"));
    let joined = d.clone().map(|x| Ok(-x)).concat(d.clone().subset([1, 2]).unwrap());
    assert_eq!((joined.len(), joined.get(9).unwrap(), joined.get(11).unwrap()), (12, -9, 2));
    assert!(joined.get(12).unwrap_err().to_string().contains("index 12"));
    assert_eq!(d.clone().zip(joined.subset((0..10).collect::<Vec<_>>()).unwrap()).unwrap().get(3).unwrap(), (3, -3));
    assert!(d.clone().zip(Items(vec![1])).unwrap_err().to_string().contains("10 items cannot be paired with 1"));
    let boxed: Box<dyn Dataset<Item = i64>> = Box::new(Arc::new(d));
    assert_eq!((boxed.len(), boxed.is_empty(), boxed.get(4).unwrap()), (10, false, 4));
    assert!(boxed.get(10).is_err());
}

#[test]
fn splits_share_all_items_out() {
    let d = Items((0..10).collect::<Vec<i64>>());
    let parts = d.clone().split(&[7, 0, 3]).unwrap();
    assert_eq!(parts.iter().map(all).collect::<Vec<_>>(), [(0..7).collect(), vec![], vec![7, 8, 9]]);
    assert!(d.clone().split(&[7, 2]).unwrap_err().to_string().contains("[7, 2] items do not add up to the 10"));
    assert!(d.clone().split(&[usize::MAX, 11]).is_err());
    let random = |seed| d.clone().random_split(&[6, 4], seed).unwrap().iter().map(all).collect::<Vec<_>>();
    assert_eq!(random(1), random(1));
    assert_ne!(random(1), random(2));
    let mut items = random(1).concat();
    items.sort();
    assert_eq!(items, all(&d));
    // As torch.utils.data.random_split(range(10), [0.35, 0.35, 0.3]): 3, 3, 3 and the remainder from the first on.
    let lens: Vec<usize> =
        d.clone().random_split_fractions(&[0.35, 0.35, 0.3], 0).unwrap().iter().map(|p| p.len()).collect();
    assert_eq!(lens, [4, 3, 3]);
    for bad in [&[0.5, 0.4][..], &[1.5, -0.5], &[]] {
        assert!(d.clone().random_split_fractions(bad, 0).is_err(), "{bad:?}");
    }
}

#[test]
fn tensors_and_files_of_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("set.npz");
    let (x, y) = (Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]), Tensor::from([5i64, 6]));
    let state = gradus_io::StateDict::from_iter([("x", x.clone()), ("y", y)]);
    gradus_io::save(&path, &state).unwrap();
    let d = TensorDataset::load(&path, "x", "y").unwrap();
    let (a, b) = d.get(1).unwrap();
    assert_eq!((a.to_vec::<f32>().unwrap(), b.item::<i64>().unwrap()), (vec![3.0, 4.0], 6));
    assert!(d.get(2).is_err());
    let e = TensorDataset::load(&path, "x", "z").unwrap_err().to_string();
    assert!(e.contains("set.npz") && e.contains("no tensor is named `z`"), "{e}");
    assert!(Rows::new(&Tensor::from(1.0f32)).unwrap_err().to_string().contains("no rows"));
    // What is lazy is computed once, before workers share it.
    let rows = Rows::new(&(&x * 2.0)).unwrap();
    assert!(rows.tensor().is_realized());
    let loader = DataLoader::new(rows, LoaderOptions { batch_size: 2, num_workers: 2, ..LoaderOptions::default() });
    assert_eq!(loader.unwrap().iter().next().unwrap().unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0, 8.0]);
}
