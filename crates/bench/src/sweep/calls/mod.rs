//! Calls of PyTorch's operators by name: the third list, `list.txt`, whose rows stand for a case each way they can be read. The
//! dispatch of the operator samples makes the calls here, `calls.py` makes them there; a case is its name, `call:OPERATOR(ARGUMENTS)`, or
//! `callg:` with its gradient.

mod parse;

use super::{Sweep, any::operand};
use gradus_conformance::opinfo::{Args, Backend, Case, gradus::Gradus};
use gradus_core::{Error, Result, Tensor, no_grad};
use parse::Call;
use std::collections::BTreeMap;

/// How the names of these cases begin.
const PREFIX: [&str; 2] = ["call:", "callg:"];

/// Whether a name is that of a case here.
pub fn is_case(name: &str) -> bool {
    PREFIX.iter().any(|p| name.starts_with(p))
}

/// The names of the cases of the list that begin so.
pub fn names(beginning: &str) -> Vec<String> {
    let mut all = parse::names(include_str!("list.txt"));
    all.retain(|n| n.starts_with(beginning));
    all
}

/// Times the case of a name.
pub fn run(w: &Sweep, name: &str) -> Result<()> {
    let wrong = |what: String| Error::value("--sweep", format!("{name}: {what}"));
    let call = parse::call(name).map_err(wrong)?;
    let gradient = name.starts_with(PREFIX[1]);
    let mut tensors = BTreeMap::new();
    for (path, text) in &call.tensors {
        let x = operand(text)?;
        tensors.insert(path.clone(), if gradient && x.dtype().is_float() { Tensor::var(path, &x) } else { x });
    }
    let Call { op, args, kwargs, .. } = call;
    let case = Case { args, kwargs, inputs: BTreeMap::new(), outs: vec![], cotangents: vec![], grads: vec![] };
    let made = || -> Result<Vec<Tensor>> {
        let given = Args::new(&case, &tensors);
        let answer = Gradus::default().call(&op, &given).ok_or_else(|| wrong("no such operator".into()))?;
        answer.map_err(|e| wrong(e.to_string()))
    };
    if !gradient {
        return w.time(name, || no_grad(made));
    }
    let vars: Vec<&Tensor> = tensors.values().filter(|t| t.dtype().is_float()).collect();
    w.time(name, || {
        let outs: Vec<Tensor> = made()?.into_iter().filter(|t| t.dtype().is_float()).collect();
        let mut sum = outs[0].square().sum();
        for y in &outs[1..] {
            sum = sum.add(y.square().sum())?;
        }
        let g = sum.backward()?;
        vars.iter().map(|v| g.wrt(v)).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_conformance::opinfo::Arg;

    #[test]
    fn every_row_is_a_call_that_there_is() {
        let _alone = crate::allocations::alone();
        let sweep = Sweep { names: vec!["none".into()], profile: false };
        let names = names("");
        assert!(names.len() > 800, "{}", names.len());
        for name in names {
            run(&sweep, &name).unwrap_or_else(|e| panic!("{e}"));
        }
        assert!(run(&sweep, "call:sin(f32@3)").is_ok() && run(&sweep, "call:sin(f33@3)").is_err());
    }

    #[test]
    fn an_argument_is_what_it_looks_like() {
        let _alone = crate::allocations::alone();
        let call = parse::call("call:f(f32@3+f32@2,2/3,4/,0.5,-1,true,none,word,dim=1)").unwrap();
        let list = |n: &[i64]| Arg::List(n.iter().map(|i| Arg::Int(*i)).collect());
        assert_eq!(call.tensors.len(), 2);
        assert_eq!(call.args[1..5], [list(&[2, 3]), list(&[4]), Arg::Float(0.5), Arg::Int(-1)]);
        assert_eq!(call.args[5..], [Arg::Bool(true), Arg::None, Arg::Str("word".into())]);
        assert_eq!(call.kwargs["dim"], Arg::Int(1));
    }
}
