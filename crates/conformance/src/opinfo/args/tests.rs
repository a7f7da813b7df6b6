use super::*;

fn case(args: Vec<Arg>, kwargs: &[(&str, Arg)]) -> Case {
    Case {
        args,
        kwargs: kwargs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect(),
        inputs: BTreeMap::new(),
        outs: Vec::new(),
        cotangents: Vec::new(),
        grads: Vec::new(),
    }
}

fn t(path: &str) -> Arg {
    Arg::Tensor(path.to_string())
}

fn ints(values: &[i64]) -> Arg {
    Arg::List(values.iter().map(|&v| Arg::Int(v)).collect())
}

/// Tensors are stood for by their paths in capitals.
fn tensors(paths: &[&str]) -> BTreeMap<String, String> {
    let pairs = paths.iter().map(|p| (p.to_string(), format!("T{p}")));
    pairs.collect()
}

#[test]
fn by_position_and_by_name() {
    let case = case(
        vec![t("0"), Arg::Int(-1), Arg::None],
        &[("keepdim", Arg::Bool(true)), ("p", Arg::Int(2)), ("mode", Arg::Str("sum".into())), ("w", t("w"))],
    );
    let tensors = tensors(&["0", "w"]);
    let a = Args::new(&case, &tensors);
    assert_eq!(a.tensor(0, "input").unwrap(), "T0");
    assert_eq!(a.int(1, "dim").unwrap(), -1);
    assert_eq!(a.opt_tensor(2, "bias").unwrap(), None);
    assert!(a.bool_or(3, "keepdim", false).unwrap());
    assert_eq!(a.float_or(KW, "p", 1.0).unwrap(), 2.0);
    assert_eq!(a.str_or(KW, "mode", "mean").unwrap(), "sum");
    assert_eq!(a.size_or(KW, "absent", 7).unwrap(), 7);
    assert!(a.finish().is_err());
    let w = a.scalar_or_tensor(KW, "w").unwrap();
    assert_eq!(w, ScalarOr::Tensor("Tw".to_string()));
    a.finish().unwrap();
}

#[test]
fn what_is_not_used_is_named() {
    let case = case(vec![t("0")], &[("device", Arg::Str("cpu".into()))]);
    let tensors = tensors(&["0"]);
    let a = Args::new(&case, &tensors);
    assert!(a.has(0, "input"));
    let error = a.finish().unwrap_err().to_string();
    assert_eq!(error, "arguments 0 (tensor 0), `device` (\"cpu\") of the sample were not used");
    a.ignore("device");
    a.ignore("nothing");
    let error = a.finish().unwrap_err().to_string();
    assert_eq!(error, "argument 0 (tensor 0) of the sample was not used");
    a.ignore_at(0);
    a.finish().unwrap();
}

#[test]
fn wrong_types_and_missing_ones() {
    let case = case(vec![Arg::Int(-3)], &[("x", Arg::Int(1)), ("n", Arg::None)]);
    let tensors = tensors(&[]);
    let a = Args::new(&case, &tensors);
    let text = |e: ArgError| e.to_string();
    let error = text(a.tensor(0, "input").unwrap_err());
    assert_eq!(error, "argument `input` is -3, not a tensor");
    let error = text(a.size(0, "n_bins").unwrap_err());
    assert_eq!(error, "argument `n_bins` is -3, not a size");
    let error = text(a.int(0, "x").unwrap_err());
    assert!(error.contains("both at position 0 and by name"));
    let error = text(a.int(1, "y").unwrap_err());
    assert_eq!(error, "no argument `y` (position 1)");
    assert_eq!(text(a.int(KW, "n").unwrap_err()), "argument `n` is None");
    assert!(a.bool(1, "x").is_err());
}

#[test]
fn lists() {
    let floats = Arg::List(vec![Arg::Int(1), Arg::Float(2.5)]);
    let case = case(
        vec![Arg::List(vec![t("0.0"), t("0.1")]), Arg::Int(3)],
        &[
            ("pair", ints(&[1, 2])),
            ("empty", ints(&[])),
            ("one", ints(&[4])),
            ("some", Arg::List(vec![Arg::None, Arg::Int(5)])),
            ("nested", Arg::List(vec![ints(&[0]), ints(&[1])])),
            ("floats", floats),
            ("index", Arg::List(vec![Arg::None, t("0.1")])),
        ],
    );
    let tensors = tensors(&["0.0", "0.1"]);
    let a = Args::new(&case, &tensors);
    assert_eq!(a.tensors(0, "tensors").unwrap(), ["T0.0", "T0.1"]);
    assert_eq!(a.ints(1, "dim").unwrap(), [3]);
    assert_eq!(a.ints_n(1, "k", 2).unwrap(), [3, 3]);
    assert_eq!(a.ints_n(KW, "pair", 2).unwrap(), [1, 2]);
    assert!(a.ints_n(KW, "pair", 3).is_err());
    assert_eq!(a.opt_ints_n(KW, "empty", 2).unwrap(), None);
    assert_eq!(a.ints_n_or(KW, "empty", 2, 9).unwrap(), [9, 9]);
    assert_eq!(a.ints_n(KW, "one", 3).unwrap(), [4, 4, 4]);
    assert_eq!(a.maybe_ints_n(KW, "some", 2).unwrap(), [None, Some(5)]);
    assert_eq!(a.maybe_ints_n(1, "k", 2).unwrap(), [Some(3), Some(3)]);
    assert_eq!(a.int_lists(KW, "nested").unwrap(), [[0], [1]]);
    assert_eq!(a.floats(KW, "floats").unwrap(), [1.0, 2.5]);
    let index = a.maybe_tensors(KW, "index").unwrap();
    assert_eq!(index, [None, Some("T0.1".to_string())]);
    assert!(a.ints(0, "tensors").is_err());
    a.finish().unwrap();
}

#[test]
fn variadic_arguments() {
    let tensors = tensors(&["0", "1"]);
    let many = case(vec![t("0"), t("1")], &[]);
    let a = Args::new(&many, &tensors);
    assert_eq!(a.tensors_from(0, "tensors").unwrap(), ["T0", "T1"]);
    a.finish().unwrap();
    let sizes = case(vec![Arg::Int(2), Arg::Int(3)], &[]);
    let a = Args::new(&sizes, &tensors);
    assert_eq!(a.ints_from(0, "size").unwrap(), [2, 3]);
    a.finish().unwrap();
    let list = case(vec![ints(&[2, 3])], &[]);
    let a = Args::new(&list, &tensors);
    assert_eq!(a.ints_from(0, "size").unwrap(), [2, 3]);
}
