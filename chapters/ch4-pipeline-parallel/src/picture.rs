//! A timed schedule as the literature draws it: a row per stage, time from left to right. As text, as a figure, as a Chrome trace.

use crate::schedule::Work;
use crate::simulate::Interval;
use lab::plot::{Block, Gantt};
use lab::trace::Trace;

/// Columns that a timeline in text may take, its names included.
const WIDTH: usize = 118;

/// The colours of a figure, in order.
const KINDS: [&str; 4] = ["forward", "backward", "input gradient", "weight gradient"];

/// A row per stage. Where there is room an action is its letter and its micro-batch (`F3`, `B3`, `I3`, `W3`, a second chunk in lower
/// case), else its letter alone; what waits is blank.
pub fn text(stages: &[Vec<Interval>]) -> String {
    let all = || stages.iter().flatten();
    let end = all().map(|interval| interval.end).fold(0.0, f64::max);
    let shortest = all().map(|interval| interval.end - interval.start).filter(|&time| time > 0.0).fold(end, f64::min);
    let room = WIDTH - 10;
    // Columns of the shortest action: as many as fit, up to three.
    let each = (room as f64 * shortest / end).clamp(0.0, 3.0);
    let columns = (each.max(room as f64 * shortest / end).min(3.0) * end / shortest).round().min(room as f64);
    let column = |time: f64| (time / end * columns).round() as usize;
    let mut text = String::new();
    for (stage, intervals) in stages.iter().enumerate() {
        let mut line = vec![' '; column(end)];
        for interval in intervals {
            let (from, to) = (column(interval.start), column(interval.end));
            let action = interval.action;
            let letter = action.work.letter();
            let letter = if action.chunk > 0 { letter.to_ascii_lowercase() } else { letter };
            let label = format!("{letter}{}", action.micro_batch);
            let label = if label.len() < to - from || label.len() == to - from { label } else { letter.to_string() };
            for (place, sign) in line[from..to].iter_mut().zip(label.chars().chain(std::iter::repeat('-'))) {
                *place = sign;
            }
        }
        let line: String = line.into_iter().collect();
        text += &format!("stage {stage:<3} {}\n", line.trim_end());
    }
    text
}

/// The figure, with micro-batches as numbers; the lighter shade is a stage's second chunk. Times are in the simulation's own unit, which may
/// be a forward or a millisecond: the axis names none.
pub fn figure(title: &str, stages: &[Vec<Interval>]) -> Gantt {
    let block = |interval: &Interval| Block {
        start: interval.start,
        end: interval.end,
        kind: match interval.action.work {
            Work::Forward => 0,
            Work::Backward => 1,
            Work::InputGradient => 2,
            Work::WeightGradient => 3,
        },
        light: interval.action.chunk % 2 == 1,
        label: interval.action.micro_batch.to_string(),
    };
    let lanes: Vec<Vec<Block>> = stages.iter().map(|intervals| intervals.iter().map(block).collect()).collect();
    // What does not occur has no place in the legend.
    let occurs = |kind: usize| lanes.iter().flatten().any(|block| block.kind == kind);
    let kinds: Vec<&str> = (0..).zip(KINDS).map(|(kind, name)| if occurs(kind) { name } else { "" }).collect();
    lanes.into_iter().enumerate().fold(Gantt::new(title, kinds).without_unit(), |figure, (stage, blocks)| {
        figure.lane(format!("stage {stage}"), blocks)
    })
}

/// The timeline for Perfetto: a track per stage.
///
/// # Errors
/// Never for times that a simulation or a clock gave.
pub fn trace(stages: &[Vec<Interval>]) -> lab::Result<Trace> {
    let mut trace = Trace::new();
    for (stage, intervals) in stages.iter().enumerate() {
        let track = trace.track(&format!("stage {stage}"), "compute");
        let mut last = f64::NEG_INFINITY;
        for interval in intervals {
            // Two that run together have one interval: the second's span lies in the first's.
            let nested = interval.start < last;
            last = interval.end;
            let args = [
                ("micro_batch", interval.action.micro_batch.into()),
                ("chunk", interval.action.chunk.into()),
                ("together", nested.into()),
            ];
            let seconds = interval.end - interval.start;
            trace.span(track, &interval.action.to_string(), interval.start, seconds, args)?;
        }
    }
    Ok(trace)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::schedule::Kind;
    use crate::simulate::{Links, Uniform, simulate};

    fn timeline(kind: Kind, stages: usize, micro_batches: usize) -> Vec<Vec<Interval>> {
        let schedule = kind.schedule(stages, micro_batches, 2).unwrap();
        let costs = Uniform::new(1.0, 1.0, 1.0).over(schedule.layout.chunks());
        simulate(&schedule, &costs, &Links::Constant(0.0)).unwrap().stages
    }

    #[test]
    fn text_shows_who_works_on_what_and_who_waits() {
        let text = text(&timeline(Kind::OneForwardOneBackward, 2, 2));
        assert_eq!(text, "stage 0   F0-F1-      B0----   B1----\nstage 1      F0-B0----F1-B1----\n");
    }

    #[test]
    fn every_schedule_fits_into_the_width_at_any_size() {
        for kind in Kind::ALL {
            for (stages, micro_batches) in [(2, 4), (4, 8), (8, 16), (16, 64)] {
                let timeline = timeline(kind, stages, micro_batches);
                let text = text(&timeline);
                assert_eq!(text.lines().count(), stages);
                assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
                let spans: usize = timeline.iter().map(Vec::len).sum();
                assert_eq!(trace(&timeline).unwrap().len(), spans);
            }
        }
    }
}
