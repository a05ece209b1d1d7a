//! Writes a model with its matrices in another element type, the embeddings in one of their own if it is given:
//!
//! ```text
//! cargo run --release -p minfer-gguf --example requantize -- MODEL.gguf OUTPUT.gguf Q4_0 [Q8_0]
//! ```
//!
//! For counts of kernels and bytes: a model that was quantized twice answers worse than one that was quantized once.

use std::error::Error;

use minfer_gguf::{Gguf, OpenOptions, Tensor, TensorBytes, TensorType, Writer, quantize};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, output, ty, rest @ ..] = &arguments[..] else {
        return Err("MODEL, OUTPUT and a type are needed".into());
    };
    let ty = named(ty)?;
    let of_embeddings = rest.first().map_or(Ok(ty), |ty| named(ty))?;
    let model = Gguf::open(source, OpenOptions::default())?;
    let mut writer = Writer::new();
    for (key, value) in model.metadata().iter() {
        writer.set(key, value.clone());
    }
    // The number of a mixture that this is not.
    writer.remove("general.file_type");
    for info in model.tensors() {
        let tensor = model.tensor(&info.name).ok_or("a tensor has gone")?;
        let ty = match tensor.name.as_str() {
            "token_embd.weight" | "output.weight" => of_embeddings,
            _ => ty,
        };
        writer.add(in_type(tensor, ty)?);
    }
    writer.write(output)?;
    Ok(())
}

fn named(name: &str) -> Result<TensorType, String> {
    let mut types = TensorType::WEIGHTS.into_iter();
    let found = types.find(|ty| ty.name().eq_ignore_ascii_case(name));
    found.ok_or_else(|| format!("no type `{name}`"))
}

/// Vectors stay as they are.
fn in_type(tensor: Tensor, ty: TensorType) -> Result<Tensor, Box<dyn Error>> {
    if tensor.shape.len() < 2 || tensor.ty == ty {
        return Ok(tensor);
    }
    let mut values = vec![0.0; tensor.shape.iter().product()];
    quantize::dequantize(tensor.ty, &tensor.bytes, &mut values)?;
    let bytes = quantize::quantize(ty, &values)?;
    Ok(Tensor {
        ty,
        bytes: TensorBytes::from_vec(bytes),
        ..tensor
    })
}
