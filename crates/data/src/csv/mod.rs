//! CSV: quoted fields, headers, typed columns.
//!
//! ```
//! use gradus_data::csv::{self, CsvOptions};
//! let table = csv::parse("name,age,weight\n\"Brown, A.\",7,1.5\nB,8,2\n", &CsvOptions::default())?;
//! assert_eq!(table.column("age")?.to_string(), "age: i64");
//! let x = table.tensor(&["age", "weight"])?; // f32 [2, 2]
//! assert_eq!(x.to_vec::<f32>().unwrap(), [7.0, 1.5, 8.0, 2.0]);
//! let (y, classes) = table.labels("name")?;
//! assert_eq!(classes, ["B", "Brown, A."]);
//! # Ok::<(), gradus_data::ReadError>(())
//! ```

mod fields;
mod table;

use crate::{ReadError, ReadResult, file};
use std::{collections::BTreeMap, path::Path};

pub use table::{Column, ColumnType, Table, Values};

pub(crate) const FORMAT: &str = "CSV";

/// How a table is read.
#[derive(Clone, Debug, PartialEq)]
pub struct CsvOptions {
    /// What separates fields: a comma, a semicolon, a tab.
    pub delimiter: u8,
    /// Whether the first line names the columns; without, they are `column_1`, `column_2` and so on.
    pub header: bool,
    /// Types of some columns by name; the others follow from their content.
    pub types: BTreeMap<String, ColumnType>,
    /// Texts that mean a missing value: NaN in a column of floats, an error in one of integers.
    pub missing: Vec<String>,
}

impl Default for CsvOptions {
    fn default() -> CsvOptions {
        let missing = ["", "NA", "NaN", "nan", "null"].map(String::from).to_vec();
        CsvOptions { delimiter: b',', header: true, types: BTreeMap::new(), missing }
    }
}

/// Reads a table that is in memory.
pub fn parse(text: impl AsRef<[u8]>, options: &CsvOptions) -> ReadResult<Table> {
    if !options.delimiter.is_ascii() || matches!(options.delimiter, b'"' | b'\n' | b'\r') {
        let what = format!("the byte {:#04x} cannot separate fields", options.delimiter);
        return Err(ReadError::unsupported(FORMAT, what));
    }
    let bytes = text.as_ref();
    table::build(fields::rows(bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes), options.delimiter)?, options)
}

/// Reads a table.
pub fn load(path: impl AsRef<Path>, options: &CsvOptions) -> ReadResult<Table> {
    let path = path.as_ref();
    file::read(path).and_then(|bytes| parse(&bytes, options)).map_err(|e| e.with_path(path))
}
