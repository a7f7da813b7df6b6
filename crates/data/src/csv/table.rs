//! Columns with types.

use super::{CsvOptions, FORMAT, fields::Row};
use crate::{ReadError, ReadResult, error::shorten};
use gradus_core::Tensor;
use std::fmt;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Whole numbers.
    I64,
    /// Numbers; missing ones are NaN.
    F64,
    /// `true` or `false`, in any case.
    Bool,
    /// Anything.
    Text,
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ColumnType::I64 => "i64",
            ColumnType::F64 => "f64",
            ColumnType::Bool => "bool",
            ColumnType::Text => "text",
        })
    }
}

/// The cells of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Whole numbers.
    I64(Vec<i64>),
    /// Numbers.
    F64(Vec<f64>),
    /// Truth values.
    Bool(Vec<bool>),
    /// Texts.
    Text(Vec<String>),
}

/// A named column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its cells.
    pub values: Values,
}

impl Column {
    /// Its type.
    pub fn kind(&self) -> ColumnType {
        match self.values {
            Values::I64(_) => ColumnType::I64,
            Values::F64(_) => ColumnType::F64,
            Values::Bool(_) => ColumnType::Bool,
            Values::Text(_) => ColumnType::Text,
        }
    }

    /// Its cells as numbers; `None` for texts.
    pub fn to_f64(&self) -> Option<Vec<f64>> {
        match &self.values {
            Values::I64(v) => Some(v.iter().map(|&x| x as f64).collect()),
            Values::F64(v) => Some(v.clone()),
            Values::Bool(v) => Some(v.iter().map(|&x| f64::from(u8::from(x))).collect()),
            Values::Text(_) => None,
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.kind())
    }
}

/// Columns of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
    rows: usize,
}

impl Table {
    /// Rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// All columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// A column by name.
    pub fn column(&self, name: &str) -> ReadResult<&Column> {
        self.columns.iter().find(|c| c.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).take(20).collect();
            ReadError::unsupported(FORMAT, format!("there is no column `{}`, but {}", shorten(name), names.join(", ")))
        })
    }

    /// Columns of numbers side by side, as f32 `[rows, columns]`.
    pub fn tensor(&self, names: &[&str]) -> ReadResult<Tensor> {
        let mut columns = vec![];
        for name in names {
            let column = self.column(name)?;
            columns.push(column.to_f64().ok_or_else(|| {
                let what = format!("column `{}` holds texts, not numbers", shorten(name));
                ReadError::unsupported(FORMAT, what).hint("use labels() to number its values")
            })?);
        }
        let cell = |r: usize| columns.iter().filter_map(move |c| c.get(r)).map(|&x| x as f32);
        let all: Vec<f32> = (0..self.rows).flat_map(cell).collect();
        Ok(Tensor::from_slice(&all, [self.rows, columns.len()])?)
    }

    /// The values of a column as numbers from 0 on (i64 `[rows]`), and what each stands for, in order.
    pub fn labels(&self, name: &str) -> ReadResult<(Tensor, Vec<String>)> {
        let column = self.column(name)?;
        let (numbers, classes) = match &column.values {
            Values::I64(v) => number(v, |a, b| a.cmp(b)),
            Values::F64(v) => number(v, f64::total_cmp),
            Values::Bool(v) => number(v, |a, b| a.cmp(b)),
            Values::Text(v) => number(v, |a, b| a.cmp(b)),
        };
        Ok((Tensor::from_slice(&numbers, numbers.len())?, classes))
    }
}

/// Each cell's place among the different ones.
fn number<T: Clone + fmt::Display>(
    cells: &[T],
    order: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> (Vec<i64>, Vec<String>) {
    let mut classes = cells.to_vec();
    classes.sort_by(&order);
    classes.dedup_by(|a, b| order(a, b).is_eq());
    let place = |c: &T| classes.partition_point(|k| order(k, c).is_lt()) as i64;
    (cells.iter().map(place).collect(), classes.iter().map(T::to_string).collect())
}

pub(super) fn build(rows: Vec<Row<'_>>, options: &CsvOptions) -> ReadResult<Table> {
    let mut rows = rows.into_iter().peekable();
    let names: Vec<String> = match rows.peek() {
        None => return Err(ReadError::malformed(FORMAT, "at least one line", "none").at_cell(1, 1)),
        Some(first) if options.header => first.fields.iter().map(|f| f.trim().to_string()).collect(),
        Some(first) => (1..=first.fields.len()).map(|i| format!("column_{i}")).collect(),
    };
    if options.header {
        rows.next();
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    if let Some(name) = sorted.windows(2).find_map(|w| matches!(w, [a, b] if a == b).then(|| w.first())).flatten() {
        let column = names.iter().rposition(|n| n == *name).unwrap_or(0) as u64 + 1;
        let found = format!("`{}` twice", shorten(name));
        return Err(ReadError::malformed(FORMAT, "different names of columns", found).at_cell(1, column));
    }
    if let Some(name) = options.types.keys().find(|k| !names.contains(k)) {
        let what = format!("a type is given for the column `{}`, which is not there", shorten(name));
        return Err(ReadError::unsupported(FORMAT, what));
    }
    let rows: Vec<Row> = rows.collect();
    for row in &rows {
        if row.fields.len() != names.len() {
            let column = row.fields.len().min(names.len()) as u64 + 1;
            let (expected, found) = (format!("{} fields", names.len()), format!("{}", row.fields.len()));
            return Err(ReadError::malformed(FORMAT, expected, found).at_cell(row.line, column));
        }
    }
    let column = |(i, name): (usize, String)| {
        let kind = options.types.get(&name).copied().unwrap_or_else(|| infer(&rows, i, options));
        Ok(Column { values: values(&rows, i, kind, &name, options)?, name })
    };
    let columns = names.into_iter().enumerate().map(column).collect::<ReadResult<Vec<_>>>()?;
    Ok(Table { columns, rows: rows.len() })
}

fn cells<'a>(rows: &'a [Row<'_>], column: usize) -> impl Iterator<Item = (u64, &'a str)> {
    rows.iter().filter_map(move |r| Some((r.line, r.fields.get(column)?.trim())))
}

fn is_missing(cell: &str, options: &CsvOptions) -> bool {
    options.missing.iter().any(|m| m == cell)
}

/// The narrowest type that takes all cells; nothing but missing ones is a column of floats.
fn infer(rows: &[Row<'_>], column: usize, options: &CsvOptions) -> ColumnType {
    let all = |fits: &dyn Fn(&str) -> bool| cells(rows, column).all(|(_, c)| fits(c));
    if !rows.is_empty() && all(&|c| c.parse::<i64>().is_ok()) {
        ColumnType::I64
    } else if !rows.is_empty() && all(&|c| truth(c).is_some()) {
        ColumnType::Bool
    } else if all(&|c| is_missing(c, options) || c.parse::<f64>().is_ok()) {
        ColumnType::F64
    } else {
        ColumnType::Text
    }
}

fn truth(cell: &str) -> Option<bool> {
    match cell.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn values(rows: &[Row<'_>], i: usize, kind: ColumnType, name: &str, options: &CsvOptions) -> ReadResult<Values> {
    let wrong = |what: &str, (line, cell): (u64, &str)| {
        let expected = format!("{what} in column `{}`", shorten(name));
        ReadError::malformed(FORMAT, expected, format!("`{}`", shorten(cell))).at_cell(line, i as u64 + 1)
    };
    Ok(match kind {
        ColumnType::I64 => Values::I64(
            cells(rows, i).map(|c| c.1.parse().map_err(|_| wrong("a whole number", c))).collect::<Result<_, _>>()?,
        ),
        ColumnType::Bool => Values::Bool(
            cells(rows, i).map(|c| truth(c.1).ok_or_else(|| wrong("true or false", c))).collect::<Result<_, _>>()?,
        ),
        ColumnType::F64 => {
            let number = |c: (u64, &str)| match is_missing(c.1, options) {
                true => Ok(f64::NAN),
                false => c.1.parse().map_err(|_| wrong("a number", c)),
            };
            Values::F64(cells(rows, i).map(number).collect::<Result<_, _>>()?)
        }
        // Texts are kept as they are, spaces included.
        ColumnType::Text => Values::Text(rows.iter().filter_map(|r| Some(r.fields.get(i)?.to_string())).collect()),
    })
}
