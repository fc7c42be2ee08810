//! What the steps of a program are examples of, to see that programs contain what they are for.

use crate::layout::Layout;
use crate::oracle::Oracle;
use crate::program::{Act, FIRST_CELLS, Form, Home, Kind, Pattern, Program, Span, Timing};

/// What a step is an example of.
pub fn traits(program: &Program, oracle: &Oracle, layout: &Layout, i: usize) -> Vec<&'static str> {
    let act = &program.steps[i].act;
    let device = |b: usize| matches!(program.home(b), Home::Device(_));
    let held = program.steps[..i].iter().fold(0, |held, step| match step.act {
        Act::Hold { .. } => held + 1,
        Act::Release { .. } => held - 1,
        _ => held,
    });
    let moves = act.moves();
    let peers = |(d, s): &(Span, Span)| {
        device(d.buffer) && device(s.buffer) && program.home(d.buffer) != program.home(s.buffer)
    };
    let overlaps = |(d, s): &(Span, Span)| d.buffer == s.buffer && d.at.abs_diff(s.at) < d.len;
    let timing = program.timing(act);
    let pieces = |s: &Span| layout.parts(program, *s).map_or(0, |parts| parts.len());
    let on_pages = |s: &Span| program.form(s.buffer) == Form::Pages;
    let spans: Vec<_> = moves.iter().flat_map(|(d, s)| [*d, *s]).collect();
    let over_pieces = spans.iter().any(|s| pieces(s) > 1);
    let busy = |b: &usize| oracle.is_busy(*b, i);
    let partly = |s: &Span| {
        layout.registered(s.buffer).is_some_and(|r| layout.is_plain(program, *s) && r.contains(&s.at))
    };
    let list = [
        ("copy", matches!(act, Act::Copy { .. })),
        ("copy with condition", matches!(act, Act::Copy { with_condition: true, .. })),
        ("copy from host to host", moves.iter().any(|(d, s)| !device(d.buffer) && !device(s.buffer))),
        ("copy between devices", moves.iter().any(peers)),
        ("copy over itself", moves.iter().any(overlaps)),
        ("copy of nothing", moves.iter().any(|(d, _)| d.len == 0)),
        ("copy of more than 512 KiB", moves.iter().any(|(d, _)| d.len > 512 << 10)),
        ("copy that stages its source", matches!(timing, Some(Timing::Staged { .. }))),
        ("copy that is waited for", matches!(timing, Some(Timing::Task { waits: true, .. }))),
        (
            "synchronous copy while a stream is held",
            held > 0 && !moves.is_empty() && timing == Some(Timing::Call),
        ),
        ("2-D copy of some rows", matches!(act, Act::Copy2d { height: 2.., width: 1.., .. })),
        ("2-D copy in device memory", matches!(act, Act::Copy2d { kind: Kind::DEVICE_TO_DEVICE, .. })),
        ("batch", matches!(act, Act::Batch { items, .. } if items.len() > 1)),
        ("32-bit fill", matches!(act, Act::Fill { with: Pattern::Word(_), .. })),
        ("8-bit fill", matches!(act, Act::Fill { with: Pattern::Byte(_), .. })),
        ("descriptor set", matches!(act, Act::SetDesc { .. })),
        ("descriptor copied", matches!(act, Act::CopyDesc { .. })),
        ("descriptor run", matches!(act, Act::RunDesc { desc: 0..FIRST_CELLS, .. })),
        ("pointer cells run", matches!(act, Act::RunDesc { desc: FIRST_CELLS.., .. })),
        ("poke", matches!(act, Act::Poke { .. })),
        ("free of busy memory", matches!(act, Act::Free { buffer } if busy(buffer))),
        (
            "free of mapped memory",
            matches!(act, Act::Free { buffer } if layout.mapped().any(|b| b == *buffer)),
        ),
        ("unmapping of busy memory", matches!(act, Act::Unmap { physical, .. } if busy(physical))),
        ("copy over pieces", over_pieces && matches!(act, Act::Copy { .. })),
        ("2-D copy over pieces", over_pieces && matches!(act, Act::Copy2d { .. })),
        ("batch over pieces", over_pieces && matches!(act, Act::Batch { .. })),
        ("descriptor copy over pieces", over_pieces && matches!(act, Act::RunDesc { .. })),
        ("fill over pieces", matches!(act, Act::Fill { dst, .. } if pieces(dst) > 1)),
        ("call into a hole", matches!(act, Act::Refused(_))),
        (
            "asynchronous copy of registered memory",
            spans.iter().any(on_pages) && matches!(timing, Some(Timing::Task { waits: false, .. })),
        ),
        ("copy of partly registered memory", spans.iter().any(partly)),
        ("unregistering of busy memory", matches!(act, Act::Unregister { buffer } if busy(buffer))),
        ("wait for an event", matches!(act, Act::Wait { .. })),
        ("event synchronised", matches!(act, Act::SyncEvent { .. })),
        ("held stream", matches!(act, Act::Hold { .. })),
        ("check", matches!(act, Act::Check { .. })),
        ("wait for the record after a reset", matches!(act, Act::Reset { .. })),
        ("task that an abort may drop", oracle.is_dropped(i) && !act.moves().is_empty()),
        ("copy that an abort drops for certain", oracle.is_void(i) && !act.moves().is_empty()),
        ("forced destruction", matches!(act, Act::Renew { .. })),
        ("failure that stops all streams", matches!(act, Act::Halt { .. })),
        ("model captured", matches!(act, Act::Launch { captures: true, .. })),
        ("model executed again", matches!(act, Act::Launch { captures: false, .. })),
        ("streams of a model that join", matches!(act, Act::Link { .. })),
        ("model whose memory was freed", matches!(act, Act::Stale { .. })),
        ("work by the second process", matches!(act, Act::Abroad { .. })),
    ];
    list.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
}
