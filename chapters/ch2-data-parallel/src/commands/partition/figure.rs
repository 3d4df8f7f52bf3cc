//! The picture of `cargo ch2 partition`: three products, each cut where it is divided.

use crate::core::Core;
use crate::partition::{Block, Cut, Held, Matrix, Need, Product};
use collective::Algorithm;
use collective::volume::Place;
use lab::plot::Blocks;

/// Ranks with a colour and a block of their own; the rest is not drawn.
const MOST: usize = 7;
/// Height of a row of the picture, and what is free above the matrices.
const ROW: f64 = 12.0;
const HEAD: f64 = 2.6;
/// Left edges of X, W and Y; each is `SIDE` wide.
const LEFT: [f64; 3] = [14.0, 27.0, 40.0];
const SIDE: f64 = 10.0;
const TALL: f64 = 8.0;

/// Each matrix fills its place whatever its shape: the cuts are what is to be seen.
pub(in crate::commands) fn draw(core: &Core, product: &Product, ranks: usize) -> crate::Result<Blocks> {
    let ((rows, inputs), (_, outputs)) = (product.shape(Matrix::X), product.shape(Matrix::W));
    let title = format!("X [{rows}, {inputs}] · W [{inputs}, {outputs}] = Y [{rows}, {outputs}] on {ranks} ranks");
    let mut blocks = Blocks::new(title, (LEFT[2] + SIDE + 17.0, 3.0 * ROW));
    for rank in 0..ranks.min(MOST) {
        blocks = blocks.entry(format!("rank {rank}"), rank);
    }
    for (index, cut) in Cut::ALL.into_iter().enumerate() {
        let top = ROW * index as f64;
        blocks = blocks.text((6.0, top + HEAD + 2.5), cut.name()).text((6.0, top + HEAD + 4.5), note(cut));
        for (matrix, (name, left)) in [("X", LEFT[0]), ("W", LEFT[1]), ("Y", LEFT[2])].into_iter().enumerate() {
            blocks = blocks.text((left + SIDE / 2.0, top + HEAD - 1.2), name);
            blocks = matrix_of(blocks, (core, product, ranks, cut), matrix, (left, top + HEAD))?;
        }
        let right = LEFT[2] + SIDE + 8.5;
        for (line, (pass, need)) in needs(product, ranks, cut).into_iter().enumerate() {
            blocks = blocks.text((right, top + HEAD + 2.5 + 2.0 * line as f64), format!("{pass}: {need}"));
        }
        for (text, left) in [("·", LEFT[1]), ("=", LEFT[2])] {
            blocks = blocks.text((left - 1.5, top + HEAD + TALL / 2.0), text);
        }
    }
    Ok(blocks)
}

/// What each pass sends.
fn needs(product: &Product, ranks: usize, cut: Cut) -> [(&'static str, String); 2] {
    let needs = cut.communication(product, Algorithm::Ring, &Place::flat(0, ranks));
    let text = |need: Option<Need>| {
        need.map_or_else(|| "nothing".to_owned(), |Need { operation, matrix }| format!("{operation} of {matrix}"))
    };
    [("forward", text(needs.forward)), ("backward", text(needs.backward))]
}

fn note(cut: Cut) -> &'static str {
    match cut {
        Cut::XByRows => "data-parallel",
        Cut::WByColumns => "column-parallel",
        Cut::WByRows => "row-parallel",
    }
}

/// One matrix with the part of each rank, or one block if every rank has all of it.
fn matrix_of(
    mut blocks: Blocks,
    (core, product, ranks, cut): (&Core, &Product, usize, Cut),
    matrix: usize,
    (left, top): (f64, f64),
) -> crate::Result<Blocks> {
    let which = [Matrix::X, Matrix::W, Matrix::Y][matrix];
    let whole = product.whole(which);
    let of = |rank| {
        let Held { x, w, mut y } = cut.held(core, product, ranks, rank)?;
        // Y as it is computed, before it is gathered.
        y.columns = w.columns.clone();
        Ok::<_, crate::Error>([x, w, y].into_iter().nth(matrix).unwrap_or_else(|| whole.clone()))
    };
    if of(0)? == whole {
        let summand = matches!((cut, which), (Cut::WByRows, Matrix::Y)) && ranks > 1;
        let label = if summand { "a summand on each" } else { "on every rank" };
        return Ok(blocks.block((left, top, SIDE, TALL), None, label));
    }
    blocks = blocks.block((left, top, SIDE, TALL), None, "");
    let (height, width) = product.shape(which);
    for rank in 0..ranks.min(MOST) {
        let Block { rows, columns } = of(rank)?;
        if rows.is_empty() || columns.is_empty() {
            continue;
        }
        let x = left + SIDE * columns.start as f64 / width as f64;
        let y = top + TALL * rows.start as f64 / height as f64;
        let size = (SIDE * columns.len() as f64 / width as f64, TALL * rows.len() as f64 / height as f64);
        // A narrow column has no room for its shape.
        let label = match columns.len() < width {
            true => rank.to_string(),
            false => format!("{} x {}", rows.len(), columns.len()),
        };
        blocks = blocks.block((x, y, size.0, size.1), rank, label);
    }
    Ok(blocks)
}
