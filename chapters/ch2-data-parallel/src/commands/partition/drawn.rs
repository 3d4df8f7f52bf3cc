//! A divided product as text: three boxes, cut where the matrices are.

use crate::partition::Cut;

/// Lines of a box without its frame.
const HEIGHT: usize = 7;
/// Columns of a box without its frame.
const WIDTH: usize = 19;
/// Parts that are drawn; more are hinted at.
const PARTS: usize = 4;

/// How a matrix lies on the ranks.
#[derive(Clone, Copy)]
enum Lies {
    Whole,
    Rows,
    Columns,
    Summand,
}

/// X, W and Y beside each other, on `ranks` ranks.
pub(in crate::commands) fn boxes(cut: Cut, ranks: usize) -> String {
    let (x, w, y) = match cut {
        Cut::XByRows => (Lies::Rows, Lies::Whole, Lies::Rows),
        Cut::WByColumns => (Lies::Whole, Lies::Columns, Lies::Columns),
        Cut::WByRows => (Lies::Columns, Lies::Rows, Lies::Summand),
    };
    let [x, w, y] = [("X", x), ("W", w), ("Y", y)].map(|(name, lies)| boxed(name, lies, ranks));
    let middle = 1 + HEIGHT.div_ceil(2);
    let line = |index: usize| {
        let [times, is] = if index == middle { ["·", "="] } else { [" ", " "] };
        format!("   {} {times} {} {is} {}", x[index], w[index], y[index]).trim_end().to_owned()
    };
    (0..x.len()).map(line).collect::<Vec<_>>().join("\n")
}

/// A name, and a box below it: lines of equal width.
fn boxed(name: &str, lies: Lies, ranks: usize) -> Vec<String> {
    let mut lines = vec![format!("{name:^width$}", width = WIDTH + 2)];
    match lies {
        _ if ranks == 1 => lines.extend(framed(&middle(&["rank 0"]))),
        Lies::Whole => lines.extend(framed(&middle(&["on every rank"]))),
        Lies::Summand => lines.extend(framed(&middle(&["on every rank", "a summand"]))),
        Lies::Rows => {
            let parts = labels(ranks);
            // A line for each part and one between two: as many as there are lines, the rest below.
            let mut inner: Vec<String> = Vec::new();
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    inner.push("─".repeat(WIDTH));
                }
                inner.push(format!("{part:^WIDTH$}"));
            }
            while inner.len() < HEIGHT {
                inner.push(" ".repeat(WIDTH));
            }
            lines.extend(framed(&inner).into_iter().map(|line| joined(&line)));
        }
        Lies::Columns => {
            let parts = labels(ranks);
            let widths = collective::chunks(WIDTH - (parts.len() - 1), parts.len());
            let short = |part: &str| part.trim_start_matches("rank ").to_owned();
            let row = |filled: bool| {
                let cells = parts.iter().zip(&widths).map(|(part, width)| {
                    let text = if filled { short(part) } else { String::new() };
                    format!("{text:^width$}", width = width.len())
                });
                cells.collect::<Vec<_>>().join("│")
            };
            let inner: Vec<String> = (0..HEIGHT).map(|line| row(line == HEIGHT / 2)).collect();
            let edge =
                |corner: &str| widths.iter().map(|width| "─".repeat(width.len())).collect::<Vec<_>>().join(corner);
            let mut frame = framed(&inner);
            if let Some(first) = frame.first_mut() {
                *first = format!("┌{}┐", edge("┬"));
            }
            if let Some(last) = frame.last_mut() {
                *last = format!("└{}┘", edge("┴"));
            }
            lines.extend(frame);
        }
    }
    lines
}

/// `rank 0`, `rank 1`, … or the first ones, dots and the last.
fn labels(ranks: usize) -> Vec<String> {
    if ranks <= PARTS {
        return (0..ranks).map(|rank| format!("rank {rank}")).collect();
    }
    let first = (0..PARTS - 2).map(|rank| format!("rank {rank}"));
    first.chain(["…".to_owned(), format!("rank {}", ranks - 1)]).collect()
}

/// Texts in the middle of a box.
fn middle(texts: &[&str]) -> Vec<String> {
    let above = (HEIGHT - texts.len()) / 2;
    let text = |line: usize| line.checked_sub(above).and_then(|index| texts.get(index)).copied().unwrap_or("");
    (0..HEIGHT).map(|line| format!("{:^WIDTH$}", text(line))).collect()
}

fn framed(inner: &[String]) -> Vec<String> {
    let rule = "─".repeat(WIDTH);
    let sides = inner.iter().map(|line| format!("│{line}│"));
    [format!("┌{rule}┐")].into_iter().chain(sides).chain([format!("└{rule}┘")]).collect()
}

/// A rule inside of a box meets its sides.
fn joined(line: &str) -> String {
    match line.strip_prefix("│─") {
        Some(_) => format!("├{}┤", "─".repeat(WIDTH)),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_rectangles_and_name_every_rank_or_the_last() {
        for cut in Cut::ALL {
            for ranks in [1, 2, 3, 4, 5, 64] {
                let text = boxes(cut, ranks);
                let widths: Vec<usize> = text.lines().skip(1).map(|line| line.chars().count()).collect();
                assert!(widths.iter().all(|width| *width == widths[0]), "{ranks} ranks\n{text}");
                assert!(widths[0] < 80, "\n{text}");
                let last = (ranks - 1).to_string();
                assert!(text.contains(&last), "{ranks} ranks\n{text}");
            }
        }
        let rows = boxes(Cut::XByRows, 4);
        assert_eq!(rows.matches("rank 2").count(), 2, "X and Y\n{rows}");
        assert!(boxes(Cut::WByRows, 2).contains("a summand"));
    }
}
