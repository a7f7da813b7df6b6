//! Loading a state by name: everything is checked before anything changes.

use gradus_core::{Error, Result, Shape, Tensor};
use gradus_io::StateDict;

/// What a partial load found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Names the module has and the state has not: these stayed as they were.
    pub missing: Vec<String>,
    /// Names the state has and the module has not.
    pub unexpected: Vec<String>,
}

/// What would be set to what.
pub(crate) struct Plan {
    pairs: Vec<(Tensor, Tensor)>,
    mismatched: Vec<(String, Shape, Shape)>,
    pub report: LoadReport,
}

impl Plan {
    pub fn new(targets: &[(String, Tensor)], state: &StateDict) -> Plan {
        let mut plan = Plan { pairs: vec![], mismatched: vec![], report: LoadReport::default() };
        for (name, target) in targets {
            match state.get(name) {
                None => plan.report.missing.push(name.clone()),
                Some(t) if t.shape() != target.shape() => {
                    plan.mismatched.push((name.clone(), target.shape().clone(), t.shape().clone()));
                }
                Some(t) => plan.pairs.push((target.clone(), t.clone())),
            }
        }
        let known: std::collections::HashSet<&str> = targets.iter().map(|(n, _)| n.as_str()).collect();
        plan.report.unexpected = state.names().filter(|n| !known.contains(n)).map(str::to_string).collect();
        plan
    }

    #[track_caller]
    pub fn check_shapes(&self) -> Result<()> {
        self.fail(self.shapes().into_iter().collect())
    }

    #[track_caller]
    pub fn check_strictly(&self) -> Result<()> {
        // A counter that old checkpoints do not have, and PyTorch does without too.
        let missing: Vec<&String> =
            self.report.missing.iter().filter(|n| !n.ends_with("num_batches_tracked")).collect();
        let mut why: Vec<String> = vec![];
        if !missing.is_empty() {
            why.push(format!("{} missing: {}", missing.len(), listed(missing.iter().map(|n| n.as_str()))));
        }
        let unexpected = &self.report.unexpected;
        if !unexpected.is_empty() {
            let names = listed(unexpected.iter().map(String::as_str));
            why.push(format!("{} unexpected: {names}", unexpected.len()));
        }
        why.extend(self.shapes());
        self.fail(why)
    }

    fn shapes(&self) -> Option<String> {
        let all: Vec<String> =
            self.mismatched.iter().map(|(n, here, there)| format!("`{n}` is {here} here and {there} there")).collect();
        (!all.is_empty()).then(|| format!("{} of another shape: {}", all.len(), limited(all)))
    }

    #[track_caller]
    fn fail(&self, why: Vec<String>) -> Result<()> {
        if why.is_empty() {
            return Ok(());
        }
        let e = Error::value("load_state_dict", why.join("; "));
        Err(match self.mismatched.is_empty() {
            true => e.hint("load_state_dict_partial takes the names that both have"),
            false => e,
        })
    }

    #[track_caller]
    pub fn run(&self) -> Result<()> {
        let mut new = vec![];
        for (target, t) in &self.pairs {
            let t = t.resolve().detach().to_dtype(target.dtype()).to(&target.device());
            target.set(&t)?;
            new.push(target.resolve());
        }
        Tensor::eval_all(&new.iter().collect::<Vec<_>>())
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    limited(names.map(|n| format!("`{n}`")).collect())
}

/// A list that stays readable when a whole model does not fit.
fn limited(mut items: Vec<String>) -> String {
    const MOST: usize = 12;
    let more = items.len().saturating_sub(MOST);
    items.truncate(MOST);
    let list = items.join(", ");
    if more > 0 { format!("{list} and {more} more") } else { list }
}
