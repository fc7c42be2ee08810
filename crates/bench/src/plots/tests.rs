//! Reads the page back: what is drawn is what was measured, names cannot break it, and nothing is no trouble.

use std::time::Duration;

use ferry_abi::Error;
use ferry_watch::page_style::html;

use crate::report::{self, Row};
use crate::sampling::Figures;
use crate::work::Sweep;

use super::page;

/// An element of the page: its name, its attributes, the text directly inside it, and what it contains.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("{name} is not in {self:?}")).1
    }

    fn number(&self, name: &str) -> f64 {
        self.attribute(name).parse().expect("a number")
    }

    fn is_of(&self, class: &str) -> bool {
        let found = self.attributes.iter().find(|(name, _)| name == "class");
        found.is_some_and(|(_, words)| words.split(' ').any(|word| word == class))
    }

    /// All elements inside it for which `is_wanted` is true, in their order.
    fn all<'a>(&'a self, is_wanted: &dyn Fn(&Element) -> bool) -> Vec<&'a Element> {
        let mut found = Vec::new();
        for child in &self.children {
            found.extend(is_wanted(child).then_some(child));
            found.extend(child.all(is_wanted));
        }
        found
    }

    fn named(&self, name: &str) -> Vec<&Element> {
        self.all(&|one| one.name == name)
    }

    /// All text inside it.
    fn words(&self) -> String {
        self.children.iter().fold(self.text.clone(), |text, child| text + " " + &child.words())
    }
}

/// The body of the page without its scripts. Panics if an element is not closed or an attribute not quoted.
fn body(page: &str) -> Element {
    let from = page.find("<body>").expect("a body") + "<body>".len();
    let to = page.find("<script type").expect("the data");
    let mut open = vec![Element::default()];
    for piece in page[from..to].split('<') {
        let Some((tag, text)) = piece.split_once('>') else {
            assert_eq!(piece.trim(), "", "text before the first element");
            continue;
        };
        if let Some(name) = tag.strip_prefix('/') {
            let done = open.pop().expect("an open element");
            assert_eq!(done.name, name, "closed in turn");
            open.last_mut().expect("an element around it").children.push(done);
        } else {
            let element = element(tag.trim_end_matches('/'));
            match tag.ends_with('/') {
                true => open.last_mut().expect("an element around it").children.push(element),
                false => open.push(element),
            }
        }
        open.last_mut().expect("an open element").text += &plain(text);
    }
    assert_eq!(open.len(), 1, "everything is closed");
    open.remove(0)
}

fn element(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    let mut attributes = Vec::new();
    while let Some((name, after)) = rest.split_once("=\"") {
        let (value, after) = after.split_once('"').expect("a closing quote");
        attributes.push((name.trim().to_owned(), plain(value)));
        rest = after;
    }
    assert_eq!(rest.trim(), "", "{tag}");
    Element { name: name.to_owned(), attributes, ..Element::default() }
}

fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    for letter in ["<", ">", "\"", "'", "&"] {
        text = text.replace(&html(letter), letter);
    }
    text
}

fn of(name: &'static str, [low, median, high]: [u64; 3]) -> Figures {
    let [low, median, high] = [low, median, high].map(Duration::from_nanos);
    Figures { name, median, low, high, verified: 0, loss: None }
}

fn row(name: &str, bytes: usize, sweep: Option<Sweep>, figures: Vec<Figures>) -> Row {
    let series = name.rsplit_once('/').expect("a series").0.to_owned();
    let about = "what one sample does".to_owned();
    let growth = matches!(sweep, Some(Sweep::Count(..)));
    let (name, outcome) = (name.to_owned(), Ok(figures));
    Row { name, series, about, bytes, operations: 0, growth, sweep, outcome, note: None }
}

fn failed(name: &str, error: Error) -> Row {
    Row { outcome: Err(error), ..row(name, 0, None, Vec::new()) }
}

fn drawn(rows: &[Row]) -> Element {
    body(&page("ferry bench", &[("Backend", "host".to_owned())], rows, "{}"))
}

/// What an axis says of a place: read from its labels of the class `side` and its grid lines, which have the
/// same `at` at both ends.
fn read_axis(plot: &Element, side: &str, at: [&str; 2]) -> impl Fn(f64) -> f64 + use<> {
    let labels = plot.all(&|one| one.is_of("tick") && one.is_of(side) && one.text.parse::<f64>().is_ok());
    let is_whole =
        |one: &Element| one.number("x1") != one.number("x2") || one.number("y2") - one.number("y1") > 9.0;
    let lines = plot.all(&|one| one.is_of("grid") && one.number(at[0]) == one.number(at[1]) && is_whole(one));
    assert_eq!(labels.len(), lines.len());
    let value = |label: &Element| label.text.parse::<f64>().expect("a number");
    let ticks: Vec<(f64, f64)> =
        lines.iter().zip(labels).map(|(line, label)| (line.number(at[0]), value(label))).collect();
    let (first, last) = (ticks[0], *ticks.last().expect("ticks"));
    assert!(ticks.len() >= 3 && first.1 == 0.0, "{ticks:?}");
    move |place| (place - first.0) / (last.0 - first.0) * (last.1 - first.1)
}

#[track_caller]
fn assert_near(got: f64, want: f64) {
    assert!((got - want).abs() <= 0.01 * want.abs().max(0.1), "{got} is drawn, {want} was measured");
}

#[test]
fn bars_and_whiskers_have_the_lengths_of_the_results() {
    let rows = [
        row(
            "h2d/batch/64x4K",
            262_144,
            None,
            vec![of("ferry", [20_000, 25_000, 40_000]), of("memcpy", [30_000, 31_000, 33_000])],
        ),
        row("h2d/batch/4096x1K", 4 << 20, None, vec![of("ferry", [300_000, 400_000, 500_000])]),
        row(
            "event/latency",
            0,
            None,
            vec![of("ferry", [400, 500, 700]), of("thread", [9_000, 9_500, 9_600])],
        ),
    ];
    let page = drawn(&rows);
    let plots = page.named("svg");
    assert_eq!(plots.len(), 2, "one for each series");
    for (plot, rows) in plots.into_iter().zip([&rows[..2], &rows[2..]]) {
        let value = read_axis(plot, "middle", ["x1", "x2"]);
        let want: Vec<(&Row, &Figures)> =
            rows.iter().flat_map(|row| row.outcome.iter().flatten().map(move |one| (row, one))).collect();
        let bars = plot.all(&|one| one.is_of("bar"));
        let is_range = |one: &Element| one.is_of("whisker") && one.number("y1") == one.number("y2");
        let ranges = plot.all(&is_range);
        assert_eq!((bars.len(), ranges.len()), (want.len(), want.len()));
        for ((bar, range), (row, one)) in bars.into_iter().zip(ranges).zip(want) {
            assert_near(value(bar.number("x") + bar.number("width")), row.value(one.median));
            let (low, high) = row.range(one);
            assert!(low < high, "{low} {high}");
            assert_near(value(range.number("x1")), low);
            assert_near(value(range.number("x2")), high);
            assert_eq!(bar.children[0].text, row.said_of(one));
        }
    }
    let ratios = page.all(&|one| one.name == "text" && one.text.ends_with('x'));
    assert_eq!(ratios.iter().map(|one| one.text.as_str()).collect::<Vec<_>>(), ["1.24x", "19.0x"]);
}

#[test]
fn a_peer_that_is_ahead_is_marked() {
    let ratio_class = |peer| {
        let rows = [row("h2d/loop/x", 64, None, vec![of("ferry", [9, 10, 11]), of("memcpy", [peer; 3])])];
        let page = drawn(&rows);
        page.all(&|one| one.name == "text" && one.text.ends_with('x') && one.is_of("bad")).len()
    };
    // The case itself is called `x`, but is no ratio.
    assert_eq!((ratio_class(5), ratio_class(20)), (1, 0));
}

fn points(element: &Element) -> Vec<(f64, f64)> {
    let pair = |text: &str| {
        let (x, y) = text.split_once(',').expect("two numbers");
        (x.parse().expect("a number"), y.parse().expect("a number"))
    };
    element.attribute("points").split(' ').map(pair).collect()
}

#[test]
fn curves_go_through_the_medians_over_a_logarithmic_axis() {
    let case = |len: usize, times: [u64; 3], peer: u64| {
        let figures = vec![of("ferry", times), of("memcpy", [peer, peer, peer + 7])];
        row(&format!("d2h/contiguous/{len}"), len, Some(Sweep::Bytes(len)), figures)
    };
    // Out of order, as `-t` may give them.
    let rows = [
        case(1000, [90, 100, 120], 300),
        case(100_000, [10_000, 11_000, 12_000], 10_900),
        case(10_000, [2_000, 2_100, 2_500], 1_500),
    ];
    let sorted = [&rows[0], &rows[2], &rows[1]];
    let page = drawn(&rows);
    let plot = page.named("svg")[0];
    let value = read_axis(plot, "end", ["y1", "y2"]);
    let (curves, bands) = (plot.named("polyline"), plot.named("polygon"));
    assert_eq!((curves.len(), bands.len()), (2, 2));
    for ((curve, band), contender) in curves.into_iter().zip(bands).zip([1, 0]) {
        let (medians, mut ends) = (points(curve), points(band));
        let uppers = ends.split_off(3);
        for (index, row) in sorted.iter().enumerate() {
            let one = &row.outcome.as_ref().expect("figures")[contender];
            let (low, high) = row.range(one);
            assert_near(value(medians[index].1), row.value(one.median));
            assert_near(value(ends[index].1), low);
            assert_near(value(uppers[2 - index].1), high);
        }
        assert_near(medians[1].0 - medians[0].0, medians[2].0 - medians[1].0);
    }
    let labels = plot.all(&|one| one.is_of("tick") && one.is_of("middle"));
    let labels: Vec<&str> = labels.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(labels, ["1000", "10000", "100000", "bytes of a copy"]);
    let names = plot.all(&|one| one.is_of("name"));
    let mut places: Vec<(f64, &str)> = names.iter().map(|one| (one.number("y"), one.text.as_str())).collect();
    places.sort_by(|one, other| one.0.total_cmp(&other.0));
    // The last point of memcpy is the higher one; the names are apart although the points are not.
    assert_eq!(places.iter().map(|(_, name)| *name).collect::<Vec<_>>(), ["memcpy", "ferry"]);
    assert!(places[1].0 - places[0].0 >= 12.0, "{places:?}");
}

#[test]
fn growth_is_a_curve_and_one_point_is_a_bar() {
    let case = |count| {
        let figures = vec![of("ferry", [90, 100, 110]), of("one", [40, 50, 60])];
        row(&format!("streams/{count}"), 0, Some(Sweep::Count(count, "streams")), figures)
    };
    for (counts, curves, bars) in [(&[10, 100][..], 2, 0), (&[10], 0, 2), (&[10, 10], 0, 4)] {
        let page = drawn(&counts.iter().map(|count| case(*count)).collect::<Vec<_>>());
        let drawn =
            (page.named("polyline").len(), page.all(&|one| one.is_of("bar") && one.name == "rect").len());
        assert_eq!(drawn, (curves, bars), "{counts:?}");
        assert!(page.words().contains("2.00x"), "the cost is in the numbers");
    }
}

#[test]
fn names_notes_and_errors_stand_there_as_they_are() {
    const ODD: &str = "<b>&\"'</svg></script>\\u003c&lt;";
    let mut odd = row(&format!("{ODD}/{ODD}"), 64, None, vec![of(ODD, [1, 2, 3]), of("a<b", [1, 2, 3])]);
    odd.note = Some(format!("note {ODD}"));
    odd.about = format!("about {ODD}");
    let rows = [odd, failed(&format!("{ODD}/x"), Error::Setup(format!("error {ODD}")))];
    let text =
        page(ODD, &[(ODD, format!("value {ODD}"))], &rows, &report::json(serde_json::json!({}), &rows));
    let page = body(&text);
    assert_eq!(page.named("b").len(), 0);
    let words = page.words();
    for want in [ODD, "a<b", &format!("note {ODD}"), &format!("about {ODD}"), &format!("value {ODD}")] {
        assert!(words.contains(want), "{want} is not in {words}");
    }
    assert!(words.contains(&format!("FAILED: error {ODD}")), "{words}");
    let from = text.find("id=\"data\">").expect("the data") + 10;
    let len = text[from..].find("</script>").expect("its end");
    let data: serde_json::Value = serde_json::from_str(&text[from..from + len]).expect("JSON");
    assert_eq!(data["rows"][0]["name"], rows[0].name);
}

#[test]
fn nothing_measured_is_said_and_draws_nothing() {
    let none = drawn(&[]);
    assert!(none.words().contains("No case was measured"), "{}", none.words());
    let lacking = |name| failed(name, Error::NotHere("needs 2 devices".to_owned()));
    let missing = drawn(&[lacking("p2p/contiguous/4K")]);
    assert!(missing.words().contains("not here: needs 2 devices"), "{}", missing.words());
    let several = drawn(&["p2p/contiguous/4K", "p2p/contiguous/8K"].map(lacking));
    assert_eq!(several.words().matches("needs 2 devices").count(), 1, "said once of both");
    assert!(several.words().contains("4K") && several.words().contains("8K"), "{}", several.words());
    let empty = drawn(&[row("h2d/loop/1", 64, None, Vec::new())]);
    for page in [none, missing, several, empty] {
        assert_eq!(page.named("svg").len() + page.named("table").len(), 0);
        assert!(page.words().contains("host"), "the machine is there all the same");
    }
}

#[test]
fn the_page_asks_for_nothing_from_a_network() {
    let rows = [row("h2d/loop/1", 64, None, vec![of("ferry", [1, 2, 3])])];
    let text = page("ferry bench", &[], &rows, "{}");
    for way in ["http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
        assert!(!text.contains(way), "{way}");
    }
}
