//! The picture of `cargo ch3 split`: every weight of a layer, cut where it is divided.

use super::name;
use crate::Layout;
use crate::anatomy::{self, Share};
use crate::core::Core;
use decoder::split::Block;
use lab::plot::Blocks;

/// Ranks with a colour and a block of their own; the rest is not drawn.
const MOST: usize = 7;
/// A weight's place: distance to the next one, side, and height of a row of weights.
const STEP: f64 = 12.0;
const SIDE: f64 = 9.0;
const ROW: f64 = 15.0;
/// What is free above a weight, for its name and shape, and on the left, for the block's.
const HEAD: f64 = 5.0;
const LEFT: f64 = 13.0;

/// Each weight fills its place whatever its shape: the cuts are what is to be seen.
pub(super) fn draw(layout: &Layout, core: &Core, blocks: &[Block]) -> Blocks {
    let tp = layout.tp();
    let size = (LEFT + 4.0 * STEP, ROW * blocks.len() as f64);
    let mut picture = Blocks::new(format!("layer 0 on {tp} ranks: weights as a checkpoint has them, [out, in]"), size);
    for rank in 0..tp.min(MOST) {
        picture = picture.entry(format!("rank {rank}"), rank);
    }
    for (row, &block) in blocks.iter().enumerate() {
        let top = ROW * row as f64 + HEAD;
        picture = picture.text((LEFT / 2.0, top + SIDE / 2.0), name(block));
        let shares: Vec<_> = (0..tp).map(|rank| anatomy::shares(layout, core, block, rank)).collect();
        for column in 0..shares[0].len() {
            let of: Vec<&Share> = shares.iter().map(|rank| &rank[column]).collect();
            picture = weight(picture, &of, (LEFT + STEP * column as f64, top));
        }
    }
    picture
}

/// One weight with the part of each rank; ranks that hold the same one, as with shared key heads, are one block.
fn weight(mut picture: Blocks, of: &[&Share], (left, top): (f64, f64)) -> Blocks {
    let Share { name, whole, .. } = of[0];
    let short = name.split('.').nth(1).unwrap_or(name);
    picture =
        picture.text((left + SIDE / 2.0, top - 3.2), short).text((left + SIDE / 2.0, top - 1.3), format!("{whole:?}"));
    picture = picture.block((left, top, SIDE, SIDE), None, "");
    for (rank, share) in of.iter().enumerate().take(MOST) {
        let holders: Vec<String> =
            (0..of.len()).filter(|&other| of[other].cut == share.cut).map(|other| other.to_string()).collect();
        let Some((dim, ranges)) = &share.cut else {
            return picture.block((left, top, SIDE, SIDE), None, "on every rank");
        };
        if holders.first() != Some(&rank.to_string()) {
            continue;
        }
        for range in ranges {
            let scale = SIDE / whole[*dim] as f64;
            let (from, length) = (range.start as f64 * scale, range.len() as f64 * scale);
            let place = match dim {
                0 => (left, top + from, SIDE, length),
                _ => (left + from, top, length, SIDE),
            };
            picture = picture.block(place, rank, holders.join(", "));
        }
    }
    picture
}
