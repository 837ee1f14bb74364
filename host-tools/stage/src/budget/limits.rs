//! The budget file: a limit and its reason for every number.

use toml::{Table, Value};

/// What one number may be at most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The measurement's name.
    pub name: String,
    /// At most this.
    pub limit: u64,
    /// Why so much is spent, and on what.
    pub why: String,
}

/// Reads a budget file: a table for each family, in it `member = { limit = …, why = "…" }`.
///
/// # Errors
/// The entry that is not of this form.
pub fn parse_budgets(text: &str) -> Result<Vec<Budget>, String> {
    let file: Table = text.parse().map_err(|error: toml::de::Error| error.to_string().trim().to_owned())?;
    let mut budgets = Vec::new();
    for (family, members) in &file {
        let members = members.as_table().ok_or_else(|| format!("`{family}` must be a table of budgets"))?;
        for (member, entry) in members {
            let name = format!("{family}.{member}");
            budgets.push(parse_budget(&name, entry)?);
        }
    }
    Ok(budgets)
}

fn parse_budget(name: &str, entry: &Value) -> Result<Budget, String> {
    let expected = || format!("`{name}` must be {{ limit = NUMBER, why = \"REASON\" }}");
    let table = entry.as_table().ok_or_else(expected)?;
    if let Some(unknown) = table.keys().find(|key| !["limit", "why"].contains(&key.as_str())) {
        return Err(format!("`{name}` has an unknown field `{unknown}`"));
    }
    let limit = table.get("limit").and_then(Value::as_integer).and_then(|limit| u64::try_from(limit).ok());
    let why = table.get("why").and_then(Value::as_str).filter(|why| !why.trim().is_empty());
    match (limit, why) {
        (Some(limit), Some(why)) => Ok(Budget { name: name.into(), limit, why: why.into() }),
        (_, _) => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_has_a_limit_and_a_reason() {
        let budgets = parse_budgets("[handle]\ntoken = { limit = 50_000, why = \"the ring\" }").unwrap();
        assert_eq!(budgets, [Budget { name: "handle.token".into(), limit: 50_000, why: "the ring".into() }]);
    }

    #[test]
    fn anything_else_is_named_and_refused() {
        for (text, part) in [
            ("x = 1", "`x`"),
            ("[a]\nb = 1", "`a.b`"),
            ("[a]\nb = { limit = 1 }", "why"),
            ("[a]\nb = { limit = 1, why = \" \" }", "why"),
            ("[a]\nb = { limit = -1, why = \"w\" }", "limit"),
            ("[a]\nb = { limit = 1, why = \"w\", more = 2 }", "`more`"),
            ("[a", "TOML"),
        ] {
            let error = parse_budgets(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
