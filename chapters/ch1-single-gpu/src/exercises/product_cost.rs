//! Exercise 1.2: what X · W = Y costs. The check computes products and compares with what the decoder's operation reports.

use crate::core::ProductCost;
use crate::xw::{Cost, Product, counted_cost};
use crate::{homework, xw};
use candle_core::DType;
use decoder::random::Rng;
use lab::exercises::{Bug, Diagnosis, Exercise};

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
    let sizes = format!(
        "X [{rows}, {inputs}] · W [{inputs}, {outputs}], {} bytes per element of W, {} of X and Y:\n",
        product.weight_size(),
        product.activation_size()
    );
    if found.flops != counted.flops {
        let half = if found.flops * 2 == counted.flops { "\nThat is half of the FLOP." } else { "" };
        return format!("{sizes}the operation reports {} FLOP, you say {}.{half}", counted.flops, found.flops);
    }
    let (x, w, y) = (rows * inputs, inputs * outputs, rows * outputs);
    let (narrow, wide) = (product.weight_size(), product.activation_size());
    let guess = match found.bytes {
        bytes if bytes == rows * w * narrow + (x + y) * wide => {
            "You read W again for each row; it is read once for all of them."
        }
        bytes if bytes == w * narrow + x * wide => "Only writing Y is missing.",
        bytes if bytes == w * narrow + y * wide => "Only reading X is missing.",
        bytes if bytes == (x + w + y) * narrow => "X and Y have elements of their own size: `activation_size()`.",
        bytes if bytes == x + w + y => "Those are elements, not bytes.",
        _ => "X and W are read once, Y is written once.",
    };
    format!("{sizes}the operation reports {} bytes, you say {}.\n{guess}", counted.bytes, found.bytes)
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
