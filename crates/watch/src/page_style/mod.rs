//! The look that all HTML pages of Ferry share, and the one function that puts a page together.
//!
//! A page is one file: style, script and data are inside it, so that it opens from a file without network
//! access, can be mailed and can be kept beside a bug report. Colours are variables of the style sheet, in a
//! light and a dark set; the system decides which, and a button of the page overrides it. `theme.js` is that
//! button, `units.js` writes times, sizes and counts, and finds the steps of an axis.
//!
//! This folder draws nothing itself and knows no facts: readers and reports bring their own style, body and
//! scripts. Arrows: it imports nothing of this crate.

/// Colours, fonts and the parts that pages have in common: header, panel, table, button, legend.
pub const STYLE: &str = include_str!("style.css");
/// The functions that write times, sizes and counts. They touch no document.
pub const UNITS: &str = include_str!("units.js");
/// The button that changes between light and dark: the element with the id `theme`.
pub const THEME: &str = include_str!("theme.js");

/// What a page is made of beside the shared look.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageParts<'a> {
    /// The title of the window, as plain text.
    pub title: &'a str,
    /// Its own style sheet, behind the shared one.
    pub style: &'a str,
    /// The HTML inside `<body>`.
    pub body: &'a str,
    /// Its scripts, in their order, behind [`UNITS`]. They share one scope.
    pub scripts: &'a [&'a str],
    /// JSON that the scripts find in the element with the id `data`.
    pub data: &'a str,
}

/// The whole page as one text.
pub fn page(parts: &PageParts) -> String {
    let mut text = String::with_capacity(parts.data.len() + (128 << 10));
    text += "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
    text += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    text += "<meta name=\"color-scheme\" content=\"light dark\">\n";
    // An icon of no bytes: a browser would ask for one otherwise.
    text += "<link rel=\"icon\" href=\"data:,\">\n<title>";
    text += &html(parts.title);
    text += "</title>\n<style>\n";
    text += STYLE;
    text += parts.style;
    text += "</style>\n</head>\n<body>\n";
    text += parts.body;
    text += "\n<script type=\"application/json\" id=\"data\">";
    // Inside a string of JSON this is the same letter, and no end tag can stand in the data.
    text += &parts.data.replace('<', "\\u003c");
    text += "</script>\n<script>\n\"use strict\";\n(() => {\n";
    for script in [UNITS].iter().chain(parts.scripts).chain(&[THEME]) {
        text += script;
    }
    text += "})();\n</script>\n</body>\n</html>\n";
    text
}

/// Text as it stands in HTML, also inside attributes.
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            _ => out.push(letter),
        }
    }
    out
}

/// Text as a string of JSON, with its quotes.
pub fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            letter if letter < ' ' => out += &format!("\\u{:04x}", u32::from(letter)),
            _ => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// Texts as a list of JSON.
pub fn json_strings<T: AsRef<str>>(all: impl IntoIterator<Item = T>) -> String {
    json_list(all.into_iter().map(|text| json_string(text.as_ref())))
}

/// A list of what is JSON already.
pub fn json_list(all: impl Iterator<Item = String>) -> String {
    format!("[{}]", all.collect::<Vec<_>>().join(","))
}

/// An object; the values of its members are JSON already.
pub fn json_object(members: &[(&str, String)]) -> String {
    let members = members.iter().map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_its_element() {
        let data = "[\"</script><b>\"]";
        let text = page(&PageParts { title: "a < b", data, ..PageParts::default() });
        assert!(text.contains("<title>a &lt; b</title>"), "{text}");
        let from = text.find("id=\"data\">").expect("the data are there") + 10;
        let len = text[from..].find("</script>").expect("the element ends");
        let read: Vec<String> = serde_json::from_str(&text[from..from + len]).expect("JSON");
        assert_eq!(read, ["</script><b>"]);
    }

    #[test]
    fn every_letter_survives_in_json() {
        let text: String = (0..300).filter_map(char::from_u32).collect();
        assert_eq!(serde_json::from_str::<String>(&json_string(&text)).expect("JSON"), text);
    }

    /// The variables of the style sheet, in the order of the light and the dark set.
    fn colours(name: &str) -> Vec<[f64; 3]> {
        let key = format!("--{name}: #");
        let values = STYLE.match_indices(&key).map(|(at, _)| &STYLE[at + key.len()..at + key.len() + 6]);
        let channel =
            |text: &str, at: usize| f64::from(u8::from_str_radix(&text[at..at + 2], 16).expect("hex"));
        values.map(|text| [channel(text, 0), channel(text, 2), channel(text, 4)]).collect()
    }

    /// The relative luminance of WCAG 2.
    fn luminance(colour: [f64; 3]) -> f64 {
        let linear = colour.map(|channel| {
            let part = channel / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    #[test]
    fn text_can_be_read_in_both_colour_schemes() {
        for (text, back, least) in [
            ("fg", "bg", 7.0),
            ("fg", "panel", 7.0),
            ("fg", "accent-soft", 7.0),
            ("muted", "panel", 4.5),
            ("muted", "band", 4.5),
            ("accent", "panel", 4.5),
            ("failed", "bg", 3.0),
            ("pageable", "bg", 3.0),
        ] {
            let pairs: Vec<_> = colours(text).into_iter().zip(colours(back)).collect();
            assert_eq!(pairs.len(), 2, "{text} and {back} are in both sets");
            for (theme, (text_colour, back_colour)) in ["light", "dark"].iter().zip(pairs) {
                let (one, other) = (luminance(text_colour), luminance(back_colour));
                let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                assert!(contrast >= least, "{text} on {back}, {theme}: {contrast:.2}, {least} wanted");
            }
        }
    }

    #[test]
    fn both_colour_schemes_have_every_colour() {
        let names = STYLE.lines().filter_map(|line| line.trim().strip_prefix("--")?.split_once(": #"));
        for (name, _) in names {
            assert_eq!(colours(name).len(), 2, "{name}");
        }
    }

    #[test]
    fn a_page_asks_for_nothing_from_a_network() {
        let text = page(&PageParts::default());
        for way in ["http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!text.contains(way), "{way}");
        }
    }
}
