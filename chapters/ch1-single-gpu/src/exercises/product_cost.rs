//! Exercise 1.2: what X · W = Y costs. The check computes products and compares with what the decoder's operation reports.

use crate::core::ProductCost;
use crate::xw::{Cost, Product, counted_cost};
use crate::{homework, xw};
use candle_core::DType;
use decoder::random::Rng;
use lab::exercises::{Bug, Diagnosis, Exercise};
use lab::numbers::grouped;

/// The table.
pub const PRODUCT_COST: Exercise<ProductCost> = Exercise {
    id: "1.2",
    title: "FLOPs and bytes of X · W = Y",
    reference: xw::product_cost,
    homework: homework::product_cost,
    stub: super::stub(&["product_cost"]),
    hints: &[
        "Each element of Y is a sum of `inputs` products. How many multiplications and how many additions is that, and how many elements \
         has Y?",
        "X is [rows, inputs], W is [inputs, outputs], Y is [rows, outputs]. However often an element is used, it is read or written once.",
        "An element of W has `weight_size()` bytes, one of X or Y has `activation_size()`; they differ where weights are stored in 16 bits.",
    ],
    bugs: &[
        Bug {
            name: "product-multiply-add-once",
            what: "a multiply and an add counted as one operation",
            implementation: multiply_add_once,
            diagnosis: "half of the FLOP",
        },
        Bug {
            name: "product-weight-per-row",
            what: "W read again for each row",
            implementation: weight_per_row,
            diagnosis: "read W again for each row",
        },
        Bug {
            name: "product-without-result",
            what: "the bytes of Y forgotten",
            implementation: without_result,
            diagnosis: "writing Y",
        },
        Bug {
            name: "product-one-type",
            what: "X and Y in the type of W",
            implementation: one_type,
            diagnosis: "X and Y have elements of their own size",
        },
        Bug {
            name: "product-elements",
            what: "elements counted, not bytes",
            implementation: elements,
            diagnosis: "elements, not bytes",
        },
    ],
    check,
};

/// 16 bits first: there W's elements and those of X and Y differ in size.
const TYPES: [DType; 3] = [DType::BF16, DType::F32, DType::F64];

fn check(product_cost: &ProductCost) -> Result<(), Diagnosis> {
    let mut rng = Rng::new(12);
    for dtype in TYPES.into_iter().cycle().take(6) {
        let [rows, inputs, outputs] = [2, 20, 60].map(|least| least + rng.below(30) as u64);
        let product = Product::new(rows, inputs, outputs, dtype)?;
        let counted = counted_cost(&product).map_err(|error| Diagnosis::new(format!("{error:#}")))?;
        let found = product_cost(&product);
        Diagnosis::unless(found == counted, || explain(&product, found, counted))?;
    }
    Ok(())
}

fn explain(product: &Product, found: Cost, counted: Cost) -> String {
    let (rows, inputs, outputs) = (product.rows(), product.inputs(), product.outputs());
    let (narrow, wide) = (product.weight_size(), product.activation_size());
    let (x, w, y) = (rows * inputs, inputs * outputs, rows * outputs);
    let wrong = match found {
        Cost { flops, .. } if flops * 2 == counted.flops => "that is half of the FLOP: a multiply and an add are two",
        Cost { flops, .. } if flops != counted.flops => "the operation takes another number of FLOP",
        Cost { bytes, .. } if bytes == rows * w * narrow + (x + y) * wide => {
            "you read W again for each row; it is read once for all of them"
        }
        Cost { bytes, .. } if bytes == w * narrow + x * wide => "only writing Y is missing",
        Cost { bytes, .. } if bytes == w * narrow + y * wide => "only reading X is missing",
        Cost { bytes, .. } if bytes == (x + w + y) * narrow => {
            "X and Y have elements of their own size: `activation_size()`"
        }
        Cost { bytes, .. } if bytes == x + w + y => "those are elements, not bytes",
        _ => "the operation moves other bytes: X and W are read once, Y is written once",
    };
    format!(
        "{wrong}\nX [{rows}, {inputs}] · W [{inputs}, {outputs}], {narrow} bytes per element of W, {wide} of X and Y:\n\
         the operation reports {} FLOP and {} bytes, you say {} and {}",
        grouped(counted.flops),
        grouped(counted.bytes),
        grouped(found.flops),
        grouped(found.bytes)
    )
}

fn multiply_add_once(product: &Product) -> Cost {
    let Cost { flops, bytes } = xw::product_cost(product);
    Cost { flops: flops / 2, bytes }
}

fn weight_per_row(product: &Product) -> Cost {
    let weight = product.inputs() * product.outputs() * product.weight_size();
    let Cost { flops, bytes } = xw::product_cost(product);
    Cost { flops, bytes: bytes + (product.rows() - 1) * weight }
}

fn without_result(product: &Product) -> Cost {
    let Cost { flops, bytes } = xw::product_cost(product);
    Cost { flops, bytes: bytes - product.rows() * product.outputs() * product.activation_size() }
}

fn one_type(product: &Product) -> Cost {
    let (rows, inputs, outputs) = (product.rows(), product.inputs(), product.outputs());
    let elements = rows * inputs + inputs * outputs + rows * outputs;
    Cost { flops: 2 * rows * inputs * outputs, bytes: elements * product.weight_size() }
}

fn elements(product: &Product) -> Cost {
    let (rows, inputs, outputs) = (product.rows(), product.inputs(), product.outputs());
    Cost { flops: 2 * rows * inputs * outputs, bytes: rows * inputs + inputs * outputs + rows * outputs }
}
