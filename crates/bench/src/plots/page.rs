//! The page: machine and command above, then the sections with their plots, notes and numbers.

use std::fmt::Write;

use ferry_abi::Error;
use ferry_terminal::figures;
use ferry_watch::page_style::{self, PageParts, html};

use crate::report::{Row, last_part, micros};

use super::series::{PageSection, Palette, PlotKind, Series, sections};
use super::{bars, curves};

const STYLE: &str = include_str!("report.css");

/// The page. `machine` is what the numbers hold for, as names and values; `data` is the same results for
/// programs, as JSON.
pub fn page(command: &str, machine: &[(&str, String)], rows: &[Row], data: &str) -> String {
    let (palette, mut body) = (Palette::new(rows), String::new());
    let sections = sections(rows);
    head(&mut body, command, machine, &sections);
    for section in &sections {
        write(
            &mut body,
            format_args!("<section>\n<h2>{}</h2>\n<div class=\"cards\">\n", html(section.title)),
        );
        for series in &section.series {
            card(&mut body, series, &palette);
        }
        body += "</div>\n</section>\n";
    }
    if rows.is_empty() {
        body += "<p class=\"note\">No case was measured.</p>\n";
    }
    body += "</main>\n";
    let title = format!("Ferry bench: {command}");
    page_style::page(&PageParts { title: &title, style: STYLE, body: &body, scripts: &[], data })
}

fn head(body: &mut String, command: &str, machine: &[(&str, String)], sections: &[PageSection]) {
    let command = html(command);
    write(
        body,
        format_args!(
            "<header class=\"bar\">\n<h1>Ferry bench</h1>\n<code class=\"grow command\">{command}</code>\n\
         <button type=\"button\" id=\"theme\"></button>\n</header>\n<main>\n<dl class=\"machine\">\n"
        ),
    );
    for (name, value) in machine {
        write(body, format_args!("<div><dt>{}</dt><dd>{}</dd></div>\n", html(name), html(value)));
    }
    body.push_str("</dl>\n");
    if !sections.is_empty() {
        body.push_str(EXPLANATION);
    }
}

const EXPLANATION: &str = "<p class=\"muted\">Bars and curves are medians; whiskers and bands reach from \
    the 10th to the 90th percentile, or to the edge of the plot where that is less. GB/s (10<sup>9</sup> \
    bytes per second): more is better. µs: less is better. <em>ratio</em>: how many times as fast as the \
    peer Ferry is. <em>cost</em>: how many times as long a copy takes beside many of something as beside \
    one.</p>\n";

/// A series: its name, its plot, its notes and its numbers.
fn card(body: &mut String, series: &Series, palette: &Palette) {
    let first = series.rows[0];
    let (name, about) = (html(&first.series), html(&first.about));
    write(body, format_args!("<article>\n<h3><code>{name}</code></h3>\n<p class=\"muted\">{about}</p>\n"));
    match series.plot() {
        PlotKind::Nothing => {}
        PlotKind::Bars => *body += &bars::draw(series, palette),
        PlotKind::Curves => *body += &curves::draw(series, palette),
    }
    remarks(body, series);
    if series.plot() != PlotKind::Nothing {
        numbers(body, series);
    }
    body.push_str("</article>\n");
}

/// What could not be measured and why, what failed, and notes; each once, with the cases that it is about.
fn remarks(body: &mut String, series: &Series) {
    let mut remarks: Vec<(&str, String, Vec<String>)> = Vec::new();
    let mut add = |class, text: String, row: &Row| {
        let name = format!("<code>{}</code>", html(last_part(&row.name)));
        match remarks.iter_mut().find(|known| (known.0, &known.1) == (class, &text)) {
            Some(known) => known.2.push(name),
            None => remarks.push((class, text, vec![name])),
        }
    };
    for row in &series.rows {
        match &row.outcome {
            Err(error @ Error::NotHere(_)) => add("muted", format!("not here: {error}"), row),
            Err(error) => add("bad", format!("FAILED: {error}"), row),
            Ok(_) => {}
        }
        if let Some(note) = &row.note {
            add("muted", note.clone(), row);
        }
    }
    for (class, text, names) in remarks {
        write(body, format_args!("<p class=\"{class}\">{} {}</p>\n", names.join(", "), html(&text)));
    }
}

/// All numbers of a series as a table, folded.
fn numbers(body: &mut String, series: &Series) {
    body.push_str("<details>\n<summary>Numbers</summary>\n<table>\n<tr><th>case</th><th>contender</th>");
    for name in ["median µs", "10 %", "90 %", "GB/s", series.ratio_word()] {
        write(body, format_args!("<th class=\"number\">{name}</th>"));
    }
    body.push_str("</tr>\n");
    for (row, all) in series.measured() {
        for (index, one) in all.iter().enumerate() {
            write(
                body,
                format_args!("<tr><td>{}</td><td>{}</td>", html(last_part(&row.name)), html(one.name)),
            );
            let [median, low, high] = [one.median, one.low, one.high].map(|time| figures(micros(time)));
            let rate = row.rate(one.median).map(figures).unwrap_or_default();
            let ratio = if index == 0 {
                String::new()
            } else {
                format!("{}x", figures(row.ratio_to(one, &all[0]).0))
            };
            for text in [median, low, high, rate, ratio] {
                write(body, format_args!("<td class=\"number\">{text}</td>"));
            }
            body.push_str("</tr>\n");
        }
    }
    body.push_str("</table>\n</details>\n");
}

fn write(body: &mut String, text: std::fmt::Arguments) {
    // Writing to a string cannot fail.
    let _ = body.write_fmt(text);
}
