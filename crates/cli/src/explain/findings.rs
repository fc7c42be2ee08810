//! The pages of `docs/findings`, which are compiled into the command: what a finding of `ferry check` means.

use ferry_watch::check::FindingId;

/// A page by the id of its finding, in any case, with or without its first word.
pub fn find(word: &str) -> Option<String> {
    let wanted = word.trim().to_ascii_uppercase();
    let is = |id: &FindingId| {
        let name = id.name();
        name == wanted || name.strip_prefix("FERRY-") == Some(&wanted)
    };
    FindingId::ALL.into_iter().find(is).map(|id| without_links(page(id)))
}

fn page(id: FindingId) -> &'static str {
    match id {
        FindingId::HostRead => include_str!("../../../../docs/findings/FERRY-HOST-READ.md"),
        FindingId::HostWrite => include_str!("../../../../docs/findings/FERRY-HOST-WRITE.md"),
        FindingId::Free => include_str!("../../../../docs/findings/FERRY-FREE.md"),
        FindingId::StreamRace => include_str!("../../../../docs/findings/FERRY-STREAM-RACE.md"),
        FindingId::BatchRace => include_str!("../../../../docs/findings/FERRY-BATCH-RACE.md"),
        FindingId::UseAfterFree => include_str!("../../../../docs/findings/FERRY-USE-AFTER-FREE.md"),
        FindingId::DoubleFree => include_str!("../../../../docs/findings/FERRY-DOUBLE-FREE.md"),
        FindingId::Leak => include_str!("../../../../docs/findings/FERRY-LEAK.md"),
        FindingId::Uninitialised => include_str!("../../../../docs/findings/FERRY-UNINITIALISED.md"),
        FindingId::DevicePointer => include_str!("../../../../docs/findings/FERRY-DEVICE-POINTER.md"),
        FindingId::Lost => include_str!("../../../../docs/findings/FERRY-LOST.md"),
        FindingId::Capture => include_str!("../../../../docs/findings/FERRY-CAPTURE.md"),
    }
}

/// `[text](target)` becomes `text`: targets are files of the repository.
fn without_links(page: &str) -> String {
    let mut plain = String::new();
    let mut rest = page;
    while let Some((before, behind)) = rest.split_once("](") {
        let (Some(open), Some((_, after))) = (before.rfind('['), behind.split_once(')')) else { break };
        plain += &before[..open];
        plain += &before[open + 1..];
        rest = after;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_has_its_page_without_links() {
        for id in FindingId::ALL {
            let name = id.name();
            let text = find(&name.to_lowercase()).expect(name);
            assert!(text.starts_with(&format!("# {}: ", id.name())), "{text}");
            assert!(!text.contains("]("), "{text}");
            assert_eq!(find(id.name().trim_start_matches("FERRY-")), Some(text));
        }
        assert_eq!(["", "FERRY-", "FERRY", "READ"].map(find), [const { None }; 4]);
    }

    #[test]
    fn links_are_their_text() {
        for (page, want) in [
            ("see [this](a.md) and [`that`](b.md#c).", "see this and `that`."),
            ("a[0] = f(x)", "a[0] = f(x)"),
            ("](", "]("),
        ] {
            assert_eq!(without_links(page), want);
        }
    }
}
