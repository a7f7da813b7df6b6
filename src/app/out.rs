//! What is shown: text for people, or one JSON object for machines.

use super::json::Json;

/// Where results go. Progress goes to stderr and is no result.
pub struct Out {
    json: bool,
}

impl Out {
    pub fn new(json: bool) -> Out {
        Out { json }
    }

    /// A line for people.
    pub fn say(&self, line: impl AsRef<str>) {
        if !self.json {
            println!("{}", line.as_ref());
        }
    }

    /// The result for machines.
    pub fn finish(&self, result: Json) {
        if self.json {
            println!("{result}");
        }
    }
}
