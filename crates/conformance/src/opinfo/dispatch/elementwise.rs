//! Functions of one, two or three tensors, element by element.

use super::Answer;
use crate::opinfo::{Args, KW, OpError, Scalar as Number, ScalarOr};
use gradus_core::{Closeness, NanToNum, Result as Made, Rounding, Scalar, Tensor};

type A<'a, 'b> = &'a Args<'b, Tensor>;
type One = Result<Tensor, OpError>;

/// Operators of this family.
pub fn call(op: &str, a: A<'_, '_>) -> Answer {
    // A variant of an operator is the operator, with some of its arguments.
    let name = if op.starts_with("__") { op } else { op.split("__").next().unwrap_or(op) };
    if let Some(f) = unary(name) {
        return Some(a.tensor(0, "input").map(|x| vec![f(&x)]).map_err(OpError::from));
    }
    if let Some(f) = binary(name, a) {
        return Some(pair(a, "input", "other").and_then(|(x, y)| Ok(vec![f(&x, y)?])));
    }
    if name == "frexp" {
        return Some(a.tensor(0, "input").map_err(OpError::from).map(|x| x.frexp()).map(|(m, e)| vec![m, e]));
    }
    Some(with_options(name, a)?.map(|t| vec![t]))
}

fn unary(op: &str) -> Option<fn(&Tensor) -> Tensor> {
    Some(match op.strip_prefix("special.").unwrap_or(op) {
        "abs" => Tensor::abs,
        "acos" => Tensor::acos,
        "acosh" => Tensor::acosh,
        "asin" => Tensor::asin,
        "asinh" => Tensor::asinh,
        "atan" => Tensor::atan,
        "atanh" => Tensor::atanh,
        "bitwise_not" => Tensor::bitwise_not,
        "ceil" => Tensor::ceil,
        "cos" => Tensor::cos,
        "cosh" => Tensor::cosh,
        "deg2rad" => Tensor::deg2rad,
        "digamma" | "psi" => Tensor::digamma,
        "entr" => Tensor::entr,
        "erf" => Tensor::erf,
        "erfc" => Tensor::erfc,
        "erfcx" => Tensor::erfcx,
        "erfinv" => Tensor::erfinv,
        "exp" => Tensor::exp,
        "exp2" => Tensor::exp2,
        "expm1" => Tensor::expm1,
        "floor" => Tensor::floor,
        "frac" => Tensor::frac,
        "i0" => Tensor::i0,
        "i0e" => Tensor::i0e,
        "i1" => Tensor::i1,
        "i1e" => Tensor::i1e,
        "isfinite" => Tensor::isfinite,
        "isinf" => Tensor::isinf,
        "isnan" => Tensor::isnan,
        "isneginf" => Tensor::isneginf,
        "isposinf" => Tensor::isposinf,
        "isreal" => Tensor::isreal,
        "lgamma" | "gammaln" => Tensor::lgamma,
        "log" => Tensor::log,
        "log10" => Tensor::log10,
        "log1p" => Tensor::log1p,
        "log2" => Tensor::log2,
        "log_ndtr" => Tensor::log_ndtr,
        "logical_not" => Tensor::logical_not,
        "ndtr" => Tensor::ndtr,
        "ndtri" => Tensor::ndtri,
        "neg" => Tensor::neg,
        "positive" => Tensor::positive,
        "rad2deg" => Tensor::rad2deg,
        "reciprocal" => Tensor::reciprocal,
        "relu" | "nn.functional.relu" => Tensor::relu,
        "rsqrt" => Tensor::rsqrt,
        "sgn" => Tensor::sgn,
        "sigmoid" | "expit" => Tensor::sigmoid,
        "sign" => Tensor::sign,
        "signbit" => Tensor::signbit,
        "sin" => Tensor::sin,
        "sinc" => Tensor::sinc,
        "sinh" => Tensor::sinh,
        "sqrt" => Tensor::sqrt,
        "square" => Tensor::square,
        "tan" => Tensor::tan,
        "tanh" => Tensor::tanh,
        "trunc" | "fix" => Tensor::trunc,
        _ => return None,
    })
}

fn binary(op: &str, a: A<'_, '_>) -> Option<fn(&Tensor, Tensor) -> Made<Tensor>> {
    Some(match op.strip_prefix("special.").unwrap_or(op) {
        "__radd__" => Tensor::add,
        "__rand__" | "bitwise_and" => Tensor::bitwise_and,
        "__rdiv__" => Tensor::rdiv,
        "__rmod__" => Tensor::rremainder,
        "__rmul__" | "mul" => Tensor::mul,
        "__ror__" | "bitwise_or" => Tensor::bitwise_or,
        "__rpow__" => Tensor::rpow,
        "__rsub__" => Tensor::rsub,
        "__rxor__" | "bitwise_xor" => Tensor::bitwise_xor,
        "atan2" => Tensor::atan2,
        "bitwise_left_shift" => Tensor::bitwise_left_shift,
        "bitwise_right_shift" => Tensor::bitwise_right_shift,
        "copysign" => Tensor::copysign,
        "eq" => Tensor::eq,
        "float_power" => Tensor::float_power,
        "floor_divide" => Tensor::floor_divide,
        "fmax" => Tensor::fmax,
        "fmin" => Tensor::fmin,
        "fmod" => Tensor::fmod,
        "gcd" => Tensor::gcd,
        "ge" => Tensor::ge,
        "gt" => Tensor::gt,
        "heaviside" => Tensor::heaviside,
        "hypot" => Tensor::hypot,
        "igamma" | "gammainc" => Tensor::igamma,
        "igammac" | "gammaincc" => Tensor::igammac,
        "lcm" => Tensor::lcm,
        "ldexp" => Tensor::ldexp,
        "le" => Tensor::le,
        "logaddexp" => Tensor::logaddexp,
        "logaddexp2" => Tensor::logaddexp2,
        "logical_and" => Tensor::logical_and,
        "logical_or" => Tensor::logical_or,
        "logical_xor" => Tensor::logical_xor,
        "lt" => Tensor::lt,
        "maximum" => Tensor::maximum,
        "max" if a.is_tensor(1, "other") => Tensor::maximum,
        "min" if a.is_tensor(1, "other") => Tensor::minimum,
        "minimum" => Tensor::minimum,
        "ne" => Tensor::ne,
        "nextafter" => Tensor::nextafter,
        "remainder" => Tensor::remainder,
        "true_divide" => Tensor::true_divide,
        "xlog1py" => Tensor::xlog1py,
        "xlogy" => Tensor::xlogy,
        "zeta" => Tensor::zeta,
        _ => return None,
    })
}

/// A Python number as gradus's.
pub(super) fn scalar(s: Number) -> Scalar {
    match s {
        Number::Int(x) => Scalar::I(x),
        Number::Float(x) => Scalar::F(x),
        Number::Bool(x) => Scalar::B(x),
    }
}

/// A tensor, or a number as a tensor beside `like` would meet it.
pub(super) fn operand(y: ScalarOr<Tensor>, like: &Tensor) -> Tensor {
    match y {
        ScalarOr::Tensor(t) => t,
        ScalarOr::Scalar(s) => Tensor::scalar(scalar(s), scalar(s).promote_with(like.dtype())).to(&like.device()),
    }
}

/// The first two arguments, of which one may be a number.
fn pair(a: A<'_, '_>, first: &str, second: &str) -> Result<(Tensor, Tensor), OpError> {
    let (x, y) = (a.scalar_or_tensor(0, first)?, a.scalar_or_tensor(1, second)?);
    match (x, y) {
        (ScalarOr::Tensor(x), y) => {
            let y = operand(y, &x);
            Ok((x, y))
        }
        (x, ScalarOr::Tensor(y)) => Ok((operand(x, &y), y)),
        (ScalarOr::Scalar(_), ScalarOr::Scalar(_)) => Err("two numbers and no tensor".into()),
    }
}

fn with_options(op: &str, a: A<'_, '_>) -> Option<One> {
    Some(match op {
        "add" | "sub" | "rsub" => scaled(op, a),
        "div" | "divide" => div(a),
        "pow" => pow(a),
        "addcmul" | "addcdiv" => addc(op, a),
        "clamp" | "clip" | "clamp_min" | "clamp_max" => clamp(op, a),
        "fill" => fill(a),
        "zero_" => a.tensor(0, "input").map_err(OpError::from).and_then(|x| Ok(x.fill(0)?)),
        "isclose" => isclose(a),
        "lerp" => lerp(a),
        "logit" | "special.logit" => logit(a),
        "mvlgamma" | "special.multigammaln" => mvlgamma(a),
        "nan_to_num" => nan_to_num(a),
        "polygamma" | "special.polygamma" => polygamma(a),
        "round" | "special.round" => round(a),
        "where" => where_(a),
        _ => return None,
    })
}

fn scaled(op: &str, a: A<'_, '_>) -> One {
    let (x, y) = pair(a, "input", "other")?;
    let alpha = a.opt_scalar(KW, "alpha")?.map(scalar).filter(|s| s.f64() != 1.0);
    let by_alpha = |t: Tensor| alpha.map_or(Ok(t.clone()), |s| t.mul(s));
    Ok(match op {
        "add" => x.add(by_alpha(y)?)?,
        "sub" => x.sub(by_alpha(y)?)?,
        _ => by_alpha(x)?.rsub(y)?,
    })
}

fn div(a: A<'_, '_>) -> One {
    let (x, y) = pair(a, "input", "other")?;
    Ok(match a.opt_str(KW, "rounding_mode")? {
        None => x.div(y)?,
        Some("floor") => x.div_rounding(y, Rounding::Floor)?,
        Some("trunc") => x.div_rounding(y, Rounding::Trunc)?,
        Some(other) => return Err(format!("rounding_mode {other}").into()),
    })
}

fn pow(a: A<'_, '_>) -> One {
    let (x, y) = pair(a, "input", "exponent")?;
    Ok(x.pow(y)?)
}

fn addc(op: &str, a: A<'_, '_>) -> One {
    let (x, s, t) = (a.tensor(0, "input")?, a.tensor(1, "tensor1")?, a.tensor(2, "tensor2")?);
    let value = a.opt_scalar(KW, "value")?.map_or(Scalar::I(1), scalar);
    Ok(if op == "addcmul" { x.addcmul(&s, &t, value)? } else { x.addcdiv(&s, &t, value)? })
}

fn clamp(op: &str, a: A<'_, '_>) -> One {
    let x = a.tensor(0, "input")?;
    let (lo, hi) = match op {
        "clamp_min" => (a.opt_scalar_or_tensor(1, "min")?, None),
        "clamp_max" => (None, a.opt_scalar_or_tensor(1, "max")?),
        _ => (a.opt_scalar_or_tensor(1, "min")?, a.opt_scalar_or_tensor(2, "max")?),
    };
    Ok(match (lo.map(|b| operand(b, &x)), hi.map(|b| operand(b, &x))) {
        (Some(lo), Some(hi)) => x.clamp(lo, hi)?,
        (Some(lo), None) => x.clamp_min(lo)?,
        (None, Some(hi)) => x.clamp_max(hi)?,
        (None, None) => return Err("clamp without a bound".into()),
    })
}

fn fill(a: A<'_, '_>) -> One {
    let x = a.tensor(0, "input")?;
    let value = operand(a.scalar_or_tensor(1, "value")?, &x);
    Ok(x.fill(value)?)
}

fn isclose(a: A<'_, '_>) -> One {
    let (x, y) = (a.tensor(0, "input")?, a.tensor(1, "other")?);
    let near = Closeness {
        rtol: a.float_or(2, "rtol", 1e-5)?,
        atol: a.float_or(3, "atol", 1e-8)?,
        equal_nan: a.bool_or(4, "equal_nan", false)?,
    };
    Ok(x.isclose(&y, near)?)
}

fn lerp(a: A<'_, '_>) -> One {
    let (x, end) = (a.tensor(0, "input")?, a.tensor(1, "end")?);
    let weight = operand(a.scalar_or_tensor(2, "weight")?, &x);
    Ok(x.lerp(&end, weight)?)
}

fn logit(a: A<'_, '_>) -> One {
    Ok(a.tensor(0, "input")?.logit(a.opt_float(1, "eps")?))
}

fn mvlgamma(a: A<'_, '_>) -> One {
    Ok(a.tensor(0, "input")?.mvlgamma(a.size(1, "p")?)?)
}

fn nan_to_num(a: A<'_, '_>) -> One {
    let to = NanToNum {
        nan: a.float_or(1, "nan", 0.0)?,
        posinf: a.opt_float(2, "posinf")?,
        neginf: a.opt_float(3, "neginf")?,
    };
    Ok(a.tensor(0, "input")?.nan_to_num(to))
}

fn polygamma(a: A<'_, '_>) -> One {
    // torch.polygamma(n, x), and x.polygamma(n).
    let (n, x) = if a.is_tensor(0, "input") {
        (a.size(1, "n")?, a.tensor(0, "input")?)
    } else {
        (a.size(0, "n")?, a.tensor(1, "input")?)
    };
    Ok(x.polygamma(u32::try_from(n)?))
}

fn round(a: A<'_, '_>) -> One {
    let decimals = a.int_or(KW, "decimals", 0)?;
    Ok(a.tensor(0, "input")?.round_decimals(i32::try_from(decimals)?))
}

/// `x.where(condition, other)`: the condition comes second.
fn where_(a: A<'_, '_>) -> One {
    let condition = a.tensor(1, "condition")?;
    let (x, other) = (a.scalar_or_tensor(0, "input")?, a.scalar_or_tensor(2, "other")?);
    let (x, other) = match (x, other) {
        (ScalarOr::Tensor(x), other) => {
            let other = operand(other, &x);
            (x, other)
        }
        (x, ScalarOr::Tensor(other)) => (operand(x, &other), other),
        (x, other) => (operand(x, &condition), operand(other, &condition)),
    };
    Ok(condition.where_(x, other)?)
}
