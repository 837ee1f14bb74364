//! Typed access to a TOML document that remembers where everything stands.

use crate::{error::ScenarioError, span::parse_duration};
use compasso_wire::Duration;
use std::{ops::RangeInclusive, path::Path};
use toml::de::{DeTable, DeValue};

/// Reads a file of at most so many bytes as text; `what` it should be.
///
/// # Errors
/// One line that names the file.
pub fn load(path: &Path, max: usize, what: &str) -> Result<String, ScenarioError> {
    let whole = |message: String| {
        let file = path.display().to_string();
        ScenarioError { file, line: 0, field: String::new(), message }
    };
    let bytes = std::fs::read(path).map_err(|error| whole(format!("cannot be read: {error}")))?;
    if bytes.len() > max {
        return Err(whole(format!("expected {what} of at most {max} bytes, found {}", bytes.len())));
    }
    String::from_utf8(bytes).map_err(|_| whole("expected a text file in UTF-8".to_owned()))
}

/// Parses a TOML document and hands it to `read`; `file` is what errors call it.
///
/// # Errors
/// One line that names file, line, field and what was expected.
pub fn document<T>(
    text: &str,
    file: &str,
    read: impl FnOnce(&Section<'_>) -> Result<T, ScenarioError>,
) -> Result<T, ScenarioError> {
    let source = Source { file, text };
    let document = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        // The parser names a key that is given twice only by its place.
        let key = text.get(span.clone()).filter(|_| message == "duplicate key").unwrap_or_default();
        let message = if key.is_empty() { message } else { format!("expected once, found twice ({message})") };
        source.error(span.start, key.trim(), message)
    })?;
    read(&Section { source: &source, path: String::new(), at: 0, table: document.get_ref() })
}

/// The file that is being read.
pub struct Source<'a> {
    /// What errors call it.
    pub file: &'a str,
    /// Its content.
    pub text: &'a str,
}

impl Source<'_> {
    /// What is wrong at a place of the text.
    pub fn error(&self, at: usize, field: &str, message: impl Into<String>) -> ScenarioError {
        let before = self.text.as_bytes().get(..at).unwrap_or(self.text.as_bytes());
        ScenarioError {
            file: self.file.to_owned(),
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            field: field.to_owned(),
            message: message.into(),
        }
    }
}

/// A table of the document.
pub struct Section<'a> {
    /// The file.
    pub source: &'a Source<'a>,
    /// Its name as a dotted path; empty for the whole document.
    pub path: String,
    /// Where it begins.
    pub at: usize,
    /// What it holds.
    pub table: &'a DeTable<'a>,
}

/// A value of the document.
pub struct Field<'a> {
    source: &'a Source<'a>,
    /// Its name as a dotted path.
    pub path: String,
    /// Where it begins.
    pub at: usize,
    /// Where it ends.
    pub end: usize,
    value: &'a DeValue<'a>,
}

impl<'a> Section<'a> {
    /// What is wrong with it.
    pub fn error(&self, message: impl Into<String>) -> ScenarioError {
        self.source.error(self.at, &self.path, message)
    }

    /// Refuses every key that is not `known`; those that a later version will know, by name.
    ///
    /// # Errors
    /// The first of them.
    pub fn refuse_unknown(&self, known: &[&str], later: &[&str]) -> Result<(), ScenarioError> {
        let strangers = self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(key) = strangers.min_by_key(|key| key.span().start) else { return Ok(()) };
        let name = key.get_ref().as_ref();
        let message = if later.contains(&name) {
            format!(
                "`{name}` is a known name, but this version does not perform it yet; it performs: {}",
                known.join(", ")
            )
        } else {
            format!("unknown key; expected one of: {}", known.join(", "))
        };
        Err(self.source.error(key.span().start, &join(&self.path, name), message))
    }

    /// The value of a key, if it is there.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Field<'a>> {
        let value = self.table.get(key)?;
        Some(Field {
            source: self.source,
            path: join(&self.path, key),
            at: value.span().start,
            end: value.span().end,
            value: value.get_ref(),
        })
    }

    /// The value of a key.
    ///
    /// # Errors
    /// If it is not there.
    pub fn require(&self, key: &str, expected: &str) -> Result<Field<'a>, ScenarioError> {
        self.get(key)
            .ok_or_else(|| self.source.error(self.at, &join(&self.path, key), format!("missing; expected {expected}")))
    }

    /// The duration of a key, if it is there.
    ///
    /// # Errors
    /// If it is none.
    pub fn duration(&self, key: &str) -> Result<Option<Duration>, ScenarioError> {
        self.get(key).map(|field| field.duration()).transpose()
    }
}

impl<'a> Field<'a> {
    /// What is wrong with it.
    pub fn error(&self, message: impl Into<String>) -> ScenarioError {
        self.source.error(self.at, &self.path, message)
    }

    fn mistyped(&self, expected: &str) -> ScenarioError {
        let article = if self.value.type_str().starts_with(['a', 'i']) { "an" } else { "a" };
        self.error(format!("expected {expected}, found {article} {}", self.value.type_str()))
    }

    /// A text.
    ///
    /// # Errors
    /// If it is none.
    pub fn string(&self) -> Result<&'a str, ScenarioError> {
        self.value.as_str().ok_or_else(|| self.mistyped("a string"))
    }

    /// Yes or no.
    ///
    /// # Errors
    /// If it is neither.
    pub fn boolean(&self) -> Result<bool, ScenarioError> {
        self.value.as_bool().ok_or_else(|| self.mistyped("true or false"))
    }

    /// A whole number within bounds.
    ///
    /// # Errors
    /// If it is none.
    pub fn integer(&self, range: RangeInclusive<u64>, what: &str) -> Result<u64, ScenarioError> {
        let expected = if *range.end() == u64::MAX {
            format!("{what} (a number from {})", range.start())
        } else {
            format!("{what} (a number from {} to {})", range.start(), range.end())
        };
        let integer = self.value.as_integer().ok_or_else(|| self.mistyped(&expected))?;
        u64::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.error(format!("expected {expected}, found {integer}")))
    }

    /// A number within bounds.
    ///
    /// # Errors
    /// If it is none.
    pub fn number(&self, range: RangeInclusive<f64>, what: &str) -> Result<f64, ScenarioError> {
        let expected = format!("{what} from {} to {}", range.start(), range.end());
        let (text, number) = match (self.value.as_integer(), self.value.as_float()) {
            (Some(integer), _) => {
                (integer.to_string(), i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|n| n as f64))
            }
            (None, Some(float)) => (float.to_string(), float.as_str().parse().ok()),
            (None, None) => return Err(self.mistyped(&expected)),
        };
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.error(format!("expected {expected}, found {text}")))
    }

    /// A duration.
    ///
    /// # Errors
    /// If it is none.
    pub fn duration(&self) -> Result<Duration, ScenarioError> {
        let text = self.value.as_str().ok_or_else(|| self.mistyped("a duration like \"20ms\""))?;
        parse_duration(text).map_err(|message| self.error(message))
    }

    /// One of these ids.
    ///
    /// # Errors
    /// If it is none.
    pub fn id(&self, ids: &[u16]) -> Result<u16, ScenarioError> {
        let expected = format!("the id of a node, one of: {}", list(ids));
        let integer = self.value.as_integer().ok_or_else(|| self.mistyped(&expected))?;
        let id = u16::from_str_radix(integer.as_str(), integer.radix()).ok();
        id.filter(|id| ids.contains(id)).ok_or_else(|| self.error(format!("expected {expected}; found {integer}")))
    }

    /// A list.
    ///
    /// # Errors
    /// If it is none.
    pub fn list(&self, expected: &str) -> Result<Vec<Field<'a>>, ScenarioError> {
        let array = self.value.as_array().ok_or_else(|| self.mistyped(expected))?;
        Ok(array
            .iter()
            .enumerate()
            .map(|(index, item)| Field {
                source: self.source,
                path: format!("{}[{index}]", self.path),
                at: item.span().start,
                end: item.span().end,
                value: item.get_ref(),
            })
            .collect())
    }

    /// A table.
    ///
    /// # Errors
    /// If it is none.
    pub fn table(&self, expected: &str) -> Result<Section<'a>, ScenarioError> {
        let table = self.value.as_table().ok_or_else(|| self.mistyped(expected))?;
        Ok(Section { source: self.source, path: self.path.clone(), at: self.at, table })
    }

    /// Whether it is a table.
    #[must_use]
    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// One of the names this version performs; those of later versions are refused by name.
    ///
    /// # Errors
    /// If it is none of them.
    pub fn choose<T: Copy>(&self, performed: &[(&str, T)], later: &[&str]) -> Result<T, ScenarioError> {
        let name = self.string()?;
        if let Some((_, choice)) = performed.iter().find(|(known, _)| *known == name) {
            return Ok(*choice);
        }
        let names: Vec<&str> = performed.iter().map(|(known, _)| *known).collect();
        Err(self.error(if later.contains(&name) {
            format!("`{name}` is a known name, but this version performs only: {}", names.join(", "))
        } else {
            format!("expected one of: {}; found \"{name}\"", names.join(", "))
        }))
    }
}

/// Ids as people list them.
#[must_use]
pub fn list(ids: &[u16]) -> String {
    ids.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
