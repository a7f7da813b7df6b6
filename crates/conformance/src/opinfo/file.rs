//! Reading sample files.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::SafeTensors;
use serde_json::Value;

use super::host::{HostArray, HostDType};
use super::json;

/// One argument of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// The tensor at this path among the case's inputs.
    Tensor(String),
    /// An integer.
    Int(i64),
    /// A floating-point number, perhaps not finite.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(String),
    /// Python's `None`.
    None,
    /// A list or tuple.
    List(Vec<Arg>),
    /// An element type.
    DType(HostDType),
    /// Another object of PyTorch's, such as a memory format, without `torch.`.
    Torch(String),
    /// A form that this reader does not know, as JSON.
    Unknown(String),
}

impl std::fmt::Display for Arg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tensor(path) => write!(f, "tensor {path}"),
            Self::Int(v) => write!(f, "{v}"),
            Self::Float(v) => write!(f, "{v:?}"),
            Self::Bool(v) => write!(f, "{v}"),
            Self::Str(v) => write!(f, "{v:?}"),
            Self::None => f.write_str("None"),
            Self::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::DType(v) => write!(f, "dtype {v}"),
            Self::Torch(v) => write!(f, "torch.{v}"),
            Self::Unknown(v) => f.write_str(v),
        }
    }
}

/// One call of an operator with what it must give.
#[derive(Clone, Debug)]
pub struct Case {
    /// The positional arguments.
    pub args: Vec<Arg>,
    /// The keyword arguments.
    pub kwargs: BTreeMap<String, Arg>,
    /// The tensors that the arguments name, by path (`0`, `1.2`, `weight`).
    pub inputs: BTreeMap<String, HostArray>,
    /// The expected outputs.
    pub outs: Vec<HostArray>,
    /// The cotangent of each output; `None` where it has no gradient.
    pub cotangents: Vec<Option<HostArray>>,
    /// The expected gradients, by path of the input; empty if none is asked for.
    pub grads: Vec<(String, HostArray)>,
}

/// All samples of one operator.
#[derive(Clone, Debug)]
pub struct OpFile {
    /// The operator's name.
    pub op: String,
    /// Its samples.
    pub cases: Vec<Case>,
}

impl OpFile {
    /// Reads the file at `path`. The error names the file and what is wrong.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let bytes = std::fs::read(path).map_err(|e| format!("{name}: {e}"))?;
        Self::parse(&bytes).map_err(|e| format!("{name}: {e}"))
    }

    /// Reads a file's content.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let safetensors = |e| format!("not a safetensors file: {e}");
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(safetensors)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(safetensors)?;
        let entry = |key: &str| {
            let entries = metadata.metadata().as_ref();
            let value = entries.and_then(|m| m.get(key));
            value.ok_or_else(|| format!("the metadata has no `{key}`"))
        };
        let op = entry("op")?.clone();
        let cases = json::parse(entry("cases")?).map_err(|e| format!("`cases`: {e}"))?;
        let cases = cases.as_array().ok_or("`cases` is not a list")?;
        let cases = cases
            .iter()
            .enumerate()
            .map(|(k, case)| {
                let reader = CaseReader { tensors: &tensors, k };
                reader.read(case).map_err(|e| format!("case {k}: {e}"))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { op, cases })
    }
}

struct CaseReader<'a> {
    tensors: &'a SafeTensors<'a>,
    k: usize,
}

impl CaseReader<'_> {
    fn read(&self, case: &Value) -> Result<Case, String> {
        let object = case.as_object().ok_or("not an object")?;
        let field = |key: &str| object.get(key).ok_or_else(|| format!("no `{key}`"));
        let args = field("args")?.as_array().ok_or("`args` is not a list")?;
        let args: Vec<Arg> = args.iter().map(arg).collect();
        let kwargs = field("kwargs")?.as_object();
        let kwargs = kwargs.ok_or("`kwargs` is not an object")?;
        let kwargs: BTreeMap<_, _> = kwargs.iter().map(|(k, v)| (k.clone(), arg(v))).collect();

        let mut inputs = BTreeMap::new();
        for arg in args.iter().chain(kwargs.values()) {
            self.inputs(arg, &mut inputs)?;
        }

        let n = field("outs")?.as_u64().ok_or("`outs` is not a count")?;
        let (mut outs, mut cotangents) = (Vec::new(), Vec::new());
        for i in 0..n {
            let out = self.tensor("out", &i.to_string())?;
            let out = out.ok_or_else(|| self.missing("out", &i.to_string()))?;
            let cotangent = self.tensor("ct", &i.to_string())?;
            if let Some(ct) = &cotangent {
                same_form(&format!("ct.{i}"), ct, "its output", &out)?;
            }
            outs.push(out);
            cotangents.push(cotangent);
        }

        let paths = field("grads")?.as_array().ok_or("`grads` is not a list")?;
        let mut grads: Vec<(String, HostArray)> = Vec::new();
        for path in paths {
            let path = path.as_str().ok_or("`grads` holds something not a path")?;
            if grads.iter().any(|(p, _)| p == path) {
                return Err(format!("`grads` names {path} twice"));
            }
            let input = inputs.get(path);
            let input = input.ok_or_else(|| format!("`grads` names {path}, which is no input"))?;
            let grad = self.tensor("grad", path)?;
            let grad = grad.ok_or_else(|| self.missing("grad", path))?;
            same_form(&format!("grad.{path}"), &grad, "its input", input)?;
            grads.push((path.to_string(), grad));
        }
        if !grads.is_empty() && cotangents.iter().all(Option::is_none) {
            return Err("gradients are asked for, but no output has a cotangent".to_string());
        }

        Ok(Case { args, kwargs, inputs, outs, cotangents, grads })
    }

    fn inputs(&self, arg: &Arg, into: &mut BTreeMap<String, HostArray>) -> Result<(), String> {
        match arg {
            Arg::Tensor(path) => {
                let tensor = self.tensor("in", path)?;
                let tensor = tensor.ok_or_else(|| self.missing("in", path))?;
                into.insert(path.clone(), tensor);
            }
            Arg::List(items) => {
                for item in items {
                    self.inputs(item, into)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn name(&self, kind: &str, path: &str) -> String {
        format!("{}.{kind}.{path}", self.k)
    }

    fn missing(&self, kind: &str, path: &str) -> String {
        format!("no tensor {}", self.name(kind, path))
    }

    fn tensor(&self, kind: &str, path: &str) -> Result<Option<HostArray>, String> {
        let name = self.name(kind, path);
        let Ok(view) = self.tensors.tensor(&name) else {
            return Ok(None);
        };
        let dtype = HostDType::from_safetensors(view.dtype())
            .ok_or_else(|| format!("tensor {name} has an unknown dtype {:?}", view.dtype()))?;
        HostArray::new(dtype, view.shape().to_vec(), view.data().to_vec())
            .map(Some)
            .map_err(|e| format!("tensor {name}: {e}"))
    }
}

fn same_form(name: &str, a: &HostArray, other: &str, b: &HostArray) -> Result<(), String> {
    if (a.dtype(), a.shape()) == (b.dtype(), b.shape()) {
        return Ok(());
    }
    Err(format!("{name} is {}{:?}, but {other} is {}{:?}", a.dtype(), a.shape(), b.dtype(), b.shape()))
}

fn arg(value: &Value) -> Arg {
    let unknown = || Arg::Unknown(value.to_string());
    match value {
        Value::Null => Arg::None,
        Value::Bool(v) => Arg::Bool(*v),
        Value::String(v) => Arg::Str(v.clone()),
        Value::Array(items) => Arg::List(items.iter().map(arg).collect()),
        Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(v), _) => Arg::Int(v),
            (None, Some(v)) if n.is_f64() => Arg::Float(v),
            _ => unknown(),
        },
        Value::Object(object) => {
            if let Some(v) = json::nonfinite(value) {
                return Arg::Float(v);
            }
            let mut entries = object.iter();
            match (entries.next(), entries.next()) {
                (Some((key, Value::String(v))), None) if key == "t" => Arg::Tensor(v.clone()),
                (Some((key, Value::String(v))), None) if key == "dtype" => {
                    let name = v.strip_prefix("torch.").unwrap_or(v);
                    HostDType::from_torch(v).map_or_else(|| Arg::Torch(name.to_string()), Arg::DType)
                }
                _ => unknown(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{f64s, file, write};
    use super::*;

    #[test]
    fn a_whole_file() {
        let cases = r#"[{"args": [{"t": "0"}, [{"t": "1.0"}, null, 3], -Infinity],
            "kwargs": {"dtype": {"dtype": "torch.int64"}, "mf": {"dtype": "torch.channels_last"},
                       "s": {"slice": [1]}, "big": 18446744073709551615, "w": {"t": "w"}},
            "outs": 1, "grads": ["w", "0"]}]"#;
        let t = |v| f64s(&[1], &[v]);
        let tensors = [
            ("0.in.0", t(1.0)),
            ("0.in.1.0", t(2.0)),
            ("0.in.w", t(3.0)),
            ("0.out.0", t(4.0)),
            ("0.ct.0", t(5.0)),
            ("0.grad.0", t(6.0)),
            ("0.grad.w", t(7.0)),
        ];
        let file = OpFile::parse(&file("cat", cases, &tensors)).unwrap();
        assert_eq!(file.op, "cat");
        let case = &file.cases[0];
        let list = vec![Arg::Tensor("1.0".into()), Arg::None, Arg::Int(3)];
        assert_eq!(case.args[1], Arg::List(list));
        assert_eq!(case.args[2], Arg::Float(f64::NEG_INFINITY));
        assert_eq!(case.kwargs["dtype"], Arg::DType(HostDType::I64));
        assert_eq!(case.kwargs["mf"], Arg::Torch("channels_last".into()));
        assert!(matches!(case.kwargs["s"], Arg::Unknown(_)));
        assert!(matches!(case.kwargs["big"], Arg::Unknown(_)));
        assert_eq!(case.inputs["1.0"].to_f64(), [2.0]);
        assert_eq!(case.cotangents[0].as_ref().unwrap().to_f64(), [5.0]);
        let paths: Vec<_> = case.grads.iter().map(|(p, _)| p.as_str()).collect();
        assert_eq!(paths, ["w", "0"]);
    }

    fn error(cases: &str) -> String {
        let one = f64s(&[1], &[1.0]);
        let two = f64s(&[2], &[1.0, 2.0]);
        let tensors = [("0.in.0", one.clone()), ("0.out.0", one.clone()), ("0.ct.0", one), ("0.grad.0", two)];
        OpFile::parse(&file("op", cases, &tensors)).unwrap_err()
    }

    #[test]
    fn malformed_cases() {
        let case = |args: &str, outs: &str, grads: &str| {
            error(&format!(r#"[{{"args": {args}, "kwargs": {{}}, "outs": {outs}, "grads": {grads}}}]"#))
        };
        let t = r#"[{"t": "0"}]"#;
        for (error, wanted) in [
            (error("{}"), "`cases` is not a list"),
            (error("[1"), "`cases`: EOF"),
            (error("[1]"), "case 0: not an object"),
            (error(r#"[{"args": 1}]"#), "`args` is not a list"),
            (error(r#"[{"args": []}]"#), "no `kwargs`"),
            (case(r#"[{"t": "7"}]"#, "1", "[]"), "no tensor 0.in.7"),
            (case(t, "-1", "[]"), "`outs` is not a count"),
            (case(t, "18446744073709551615", "[]"), "no tensor 0.out.1"),
            (case(t, "1", r#"["1"]"#), "names 1, which is no input"),
            (case(t, "1", "[1]"), "not a path"),
            (case(t, "1", r#"["0"]"#), "grad.0 is f64[2], but its input"),
        ] {
            assert!(error.contains(wanted), "{error:?} lacks {wanted:?}");
        }
    }

    #[test]
    fn hostile_bytes() {
        let good = file("op", "[]", &[("0.in.0", f64s(&[1], &[1.0]))]);
        assert!(OpFile::parse(&good).unwrap().cases.is_empty());
        for n in 0..good.len() {
            assert!(OpFile::parse(&good[..n]).is_err());
        }
        let huge = [u64::MAX.to_le_bytes().as_slice(), b"{}"].concat();
        assert!(OpFile::parse(&huge).is_err());
        let header = br#"{"a":{"dtype":"F64","shape":[9223372036854775807,9],"data_offsets":[0,8]}}"#;
        let mut lie = (header.len() as u64).to_le_bytes().to_vec();
        lie.extend_from_slice(header);
        lie.extend_from_slice(&[0; 8]);
        assert!(OpFile::parse(&lie).is_err());
        // Any single changed byte may change the meaning, but must not panic.
        for i in 0..good.len() {
            let mut changed = good.clone();
            changed[i] ^= 0x15;
            let _ = OpFile::parse(&changed);
        }
    }

    #[test]
    fn errors_name_the_file() {
        let dir = write("errors_name_the_file", &[("x.safetensors", b"junk".to_vec())]);
        let error = OpFile::read(&dir.join("x.safetensors")).unwrap_err();
        assert!(error.contains("x.safetensors: not a safetensors file"), "{error}");
        let error = OpFile::read(&dir.join("y.safetensors")).unwrap_err();
        assert!(error.contains("y.safetensors"), "{error}");
    }

    #[test]
    fn no_metadata() {
        let bytes = [2u64.to_le_bytes().as_slice(), b"{}"].concat();
        let error = OpFile::parse(&bytes).unwrap_err();
        assert!(error.contains("no `op`"), "{error}");
    }
}
