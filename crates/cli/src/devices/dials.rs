//! Quirks, limits, schedules and faults that are set in the environment. The library has opened with them, so
//! they make sense.

/// The page that documents every variable, with a table of the quirks.
const PAGE: &str = include_str!("../../../../docs/ENVIRONMENT.md");

/// Variables that limit something.
const LIMITS: [&str; 4] =
    ["FERRY_BATCH_LIMIT", "FERRY_LIMIT_HOST_BYTES", "FERRY_LIMIT_REGISTER_ALIGN", "FERRY_LIMIT_STREAMS"];

/// Variables that decide when work runs and what fails.
const CHANCES: [&str; 3] = ["FERRY_SCHEDULE", "FERRY_SEED", "FERRY_FAULT"];

/// The quirks that `FERRY_QUIRKS` names, each with what it does.
pub fn quirks() -> Vec<(&'static str, &'static str)> {
    std::env::var("FERRY_QUIRKS").map_or_else(|_| Vec::new(), |list| named(&list))
}

fn named(list: &str) -> Vec<(&'static str, &'static str)> {
    let names = |id: &str| list.split(',').any(|word| word.trim().eq_ignore_ascii_case(id));
    table().filter(|(id, _)| names(id) || names("all")).collect()
}

/// The rows of the page's table of quirks: id, and what happens.
fn table() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_id = |id: &str| id.strip_prefix('F').is_some_and(|number| number.parse::<u32>().is_ok());
    PAGE.lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
            Some((cells.next()?, cells.next()?))
        })
        .filter(move |(id, _)| is_id(id))
}

/// The limits that are set, with their values.
pub fn limits() -> Vec<(&'static str, String)> {
    set(&LIMITS)
}

/// The schedule, its seed and the faults, as far as they are set, with their values.
pub fn chances() -> Vec<(&'static str, String)> {
    set(&CHANCES)
}

fn set(names: &[&'static str]) -> Vec<(&'static str, String)> {
    names.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_quirk() {
        let ids = |list| named(list).into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(ids("all"), ["F1", "F2", "F3", "F4", "F6", "F7", "F8", "F9", "F12"]);
        assert_eq!(ids("F12, f1"), ["F1", "F12"]);
        assert_eq!(ids(""), [""; 0]);
    }
}
