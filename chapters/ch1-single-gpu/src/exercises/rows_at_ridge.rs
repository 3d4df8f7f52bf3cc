//! Exercise 1.4: the batch from which on a product waits for arithmetic. The check looks at the intensity just below and just above it.

use crate::core::RowsAtRidge;
use crate::xw::{Product, product_cost};
use crate::{homework, xw};
use candle_core::DType;
use decoder::random::Rng;
use lab::exercises::{Bug, Diagnosis, Exercise};
use lab::numbers::plain;
use lab::roofline::Roofline;

/// The table.
pub const ROWS_AT_RIDGE: Exercise<RowsAtRidge> = Exercise {
    id: "1.4",
    title: "the batch at which arithmetic takes over",
    reference: xw::rows_at_ridge,
    homework: homework::rows_at_ridge,
    stub: super::stub(&["rows_at_ridge"]),
    hints: &[
        "Arithmetic takes flops / peak seconds, reading takes bytes / bandwidth. Where are the two equal? `roof.ridge()` is peak / bandwidth.",
        "With r rows: flops = 2 · r · in · out; bytes = bytes of W + r · (bytes of a row of X and of Y). Solve flops = ridge · bytes for r.",
        "r · (2 · in · out - ridge · bytes of a row) = ridge · bytes of W. If the bracket is not positive, no r is enough: `None`.",
    ],
    bugs: &[
        Bug {
            name: "ridge-weights-only",
            what: "the bytes of X and Y forgotten",
            implementation: weights_only,
            diagnosis: "X and Y grow with the rows",
        },
        Bug {
            name: "ridge-upside-down",
            what: "bandwidth / peak in place of peak / bandwidth",
            implementation: upside_down,
            diagnosis: "bandwidth / peak",
        },
        Bug {
            name: "ridge-always",
            what: "a number of rows also where none is enough",
            implementation: always,
            diagnosis: "no number of rows is enough",
        },
        Bug {
            name: "ridge-multiply-add-once",
            what: "a multiply and an add counted as one operation",
            implementation: multiply_add_once,
            diagnosis: "twice the ridge",
        },
    ],
    check,
};

fn check(rows_at_ridge: &RowsAtRidge) -> Result<(), Diagnosis> {
    let mut rng = Rng::new(14);
    for _ in 0..8 {
        let [inputs, outputs] = [400, 700].map(|least| least + rng.below(600) as u64);
        let dtype = [DType::BF16, DType::F32][rng.below(2)];
        let roof = Roofline { peak: 1e12, bandwidth: 1e12 / (3.0 + 40.0 * rng.uniform()) };
        reached(rows_at_ridge, &Product::new(1, inputs, outputs, dtype)?, &roof)?;
        // A row of this product brings 2·n² FLOP and 8·n bytes: n / 4 FLOP per byte at most.
        let side = 4 + rng.below(8) as u64;
        never_reached(rows_at_ridge, &Product::new(1, side, side, DType::F32)?, &roof)?;
    }
    Ok(())
}

fn reached(rows_at_ridge: &RowsAtRidge, product: &Product, roof: &Roofline) -> Result<(), Diagnosis> {
    let (case, ridge) = (describe(product, roof), roof.ridge());
    let rows = rows_at_ridge(product, roof)
        .ok_or_else(|| Diagnosis::new(format!("`None`, but enough rows do reach the ridge\n{case}")))?;
    Diagnosis::unless((1.0..1e6).contains(&rows), || {
        let asked = if (0.0..1.0).contains(&rows) { ": is the ridge taken as bandwidth / peak?" } else { "" };
        format!("{} rows are no batch{asked}\n{case}", plain(rows))
    })?;
    let below = product_cost(&product.with_rows(rows.floor() as u64)?).intensity();
    let above = product_cost(&product.with_rows(rows.floor() as u64 + 1)?).intensity();
    // A rounding in the last digit is nobody's mistake.
    let between = below * (1.0 - 1e-9) <= ridge && ridge <= above * (1.0 + 1e-9);
    Diagnosis::unless(between, || {
        let wrong = match () {
            () if below <= 2.0 * ridge && 2.0 * ridge <= above => {
                "those rows reach twice the ridge: how many FLOP are a multiply and an add?"
            }
            () if below < ridge => "too few rows: X and Y grow with the rows, and their bytes count, too",
            () => "too many rows: fewer reach the ridge",
        };
        format!("{wrong}\n{case} you say {} rows, but those have {} FLOP per byte", plain(rows), plain(below))
    })
}

fn never_reached(rows_at_ridge: &RowsAtRidge, product: &Product, roof: &Roofline) -> Result<(), Diagnosis> {
    let Some(rows) = rows_at_ridge(product, roof) else { return Ok(()) };
    let many = product_cost(&product.with_rows(1 << 20)?).intensity();
    Err(Diagnosis::new(format!(
        "{} rows, where no number of rows is enough\n{} a million rows have {} FLOP per byte, and more have no more",
        plain(rows),
        describe(product, roof),
        plain(many)
    )))
}

fn describe(product: &Product, roof: &Roofline) -> String {
    format!(
        "W [{}, {}], {} bytes per element of W, {} of X and Y, ridge at {} FLOP per byte:",
        product.inputs(),
        product.outputs(),
        product.weight_size(),
        product.activation_size(),
        plain(roof.ridge())
    )
}

fn weights_only(product: &Product, roof: &Roofline) -> Option<f64> {
    Some(roof.ridge() * product.weight_size() as f64 / 2.0)
}

fn upside_down(product: &Product, roof: &Roofline) -> Option<f64> {
    let turned = Roofline { peak: roof.bandwidth, bandwidth: roof.peak };
    xw::rows_at_ridge(product, &turned)
}

fn always(product: &Product, roof: &Roofline) -> Option<f64> {
    let (inputs, outputs) = (product.inputs() as f64, product.outputs() as f64);
    let per_row = (inputs + outputs) * product.activation_size() as f64;
    let weight = inputs * outputs * product.weight_size() as f64;
    Some(roof.ridge() * weight / (2.0 * inputs * outputs - roof.ridge() * per_row))
}

fn multiply_add_once(product: &Product, roof: &Roofline) -> Option<f64> {
    // Half the FLOP against the ridge is as much as all of them against twice the ridge.
    xw::rows_at_ridge(product, &Roofline { peak: 2.0 * roof.peak, bandwidth: roof.bandwidth })
}
