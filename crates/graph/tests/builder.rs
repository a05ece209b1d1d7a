//! Shape rules of the builder: each error names node, tensor and values.

mod support;

use minfer_gguf::TensorType;
use minfer_graph::{
    AttentionHeads, DType, GraphBuilder, GraphError, GraphParams, Input, KvFormat, NodeId, Op,
    Rope, Rows, WeightCatalog, WindowLayout,
};
use support::{HEADS, ROPE, kv_layout, params};

fn catalog() -> WeightCatalog {
    let mut catalog = WeightCatalog::default();
    let mut add = |name: &str, ty, shape: &[usize]| catalog.insert(name, ty, shape);
    add("w.weight", TensorType::Q8_0, &[32, 6]);
    add("w.bias", TensorType::F32, &[6]);
    add("half.bias", TensorType::F16, &[6]);
    add("short.weight", TensorType::F32, &[5]);
    add("uneven.weight", TensorType::Q4_K, &[32, 6]);
    add("cube.weight", TensorType::F32, &[32, 6, 2]);
    add("norm.weight", TensorType::F32, &[32]);
    add("head_norm.weight", TensorType::F32, &[4]);
    add("rope_freqs.weight", TensorType::F32, &[2]);
    add("rope_long.weight", TensorType::F32, &[3]);
    add("blk.3.w.weight", TensorType::F32, &[32, 7]);
    catalog
}

/// Builds on an f32 input `x` `[32, tokens]`.
fn build<T>(
    params: GraphParams,
    body: impl FnOnce(&mut GraphBuilder<'_>, NodeId) -> Result<T, GraphError>,
) -> Result<T, GraphError> {
    let (catalog, layout) = (catalog(), kv_layout());
    let mut builder = GraphBuilder::new(&catalog, params, &layout);
    let x = builder.activations(0, 32, Rows::Tokens)?;
    body(&mut builder, x)
}

fn refused<T: std::fmt::Debug>(
    body: impl FnOnce(&mut GraphBuilder<'_>, NodeId) -> Result<T, GraphError>,
) -> String {
    build(params(4), body).unwrap_err().to_string()
}

/// An f32 input `[width, tokens]`.
fn input(b: &mut GraphBuilder<'_>, n: u32, width: usize) -> NodeId {
    b.activations(n, width, Rows::Tokens).unwrap()
}

#[test]
fn nodes_get_shapes_and_scoped_names() {
    let (catalog, layout) = (catalog(), kv_layout());
    let mut b = GraphBuilder::new(&catalog, params(4), &layout);
    let x = input(&mut b, 0, 32);
    let plain = b.matmul(x, "w").unwrap();
    let (scoped, again) = {
        let b = &mut b.layer(3);
        assert!(b.has_weight("w.weight") && !b.has_weight("w.bias"));
        (b.matmul(x, "w").unwrap(), b.matmul(x, "w").unwrap())
    };
    let biased = b.add_bias(plain, "w").unwrap();
    let silu = b.layer(3).silu(scoped).unwrap();
    let in_next_layer = b.layer(4).silu(scoped).unwrap();
    let graph = b.finish();
    let shape = |id: NodeId| {
        let node = graph.node(id);
        (node.name.as_str(), node.width, node.rows, node.dtype)
    };
    let activation = |name, width| (name, width, Rows::Tokens, DType::F32);
    assert_eq!(shape(plain), activation("w", 6));
    assert_eq!(shape(scoped), activation("blk.3.w", 7));
    assert_eq!(shape(again), activation("blk.3.w#2", 7));
    assert_eq!(shape(biased), activation("w.bias", 6));
    assert_eq!(shape(silu), activation("blk.3.w.silu", 7));
    assert_eq!(shape(in_next_layer), activation("blk.4.w.silu", 7));
    assert_eq!(graph.weights, ["w.weight", "blk.3.w.weight", "w.bias"]);
}

#[test]
fn an_input_is_one_node() {
    build(params(4), |b, _| {
        let first = b.input(Input::Tokens)?;
        assert_eq!(b.layer(3).input(Input::Tokens)?, first);
        assert_ne!(b.input(Input::Positions)?, first);
        Ok(())
    })
    .unwrap();
    assert_eq!(
        refused(|b, _| b.activations(0, 32, Rows::Tokens)),
        "node activations.0 (Input): defined twice"
    );
    assert_eq!(
        refused(|b, _| b.input(Input::Window)),
        "node window (Input): the causal layout has no window input"
    );
}

#[test]
fn weights_must_exist_and_fit() {
    let matmul = |name: &'static str| refused(move |b, x| b.matmul(x, name));
    assert_eq!(matmul("v"), "node v: weight v.weight is missing");
    assert_eq!(
        refused(|b, x| b.layer(1).matmul(x, "w")),
        "node blk.1.w: weight blk.1.w.weight is missing"
    );
    assert_eq!(
        refused(|b, _| {
            let narrow = input(b, 1, 31);
            b.matmul(narrow, "w")
        }),
        "node w: weight w.weight has shape [32, 6], expected [31, out]"
    );
    assert_eq!(
        matmul("norm"),
        "node norm: weight norm.weight has shape [32], expected [32, out]"
    );
    assert_eq!(
        matmul("cube"),
        "node cube: weight cube.weight has shape [32, 6, 2], expected [32, out]"
    );
    assert_eq!(
        matmul("uneven"),
        "node uneven: weight uneven.weight has shape [32, 6], expected rows of whole Q4_K blocks of 256"
    );
}

#[test]
fn gains_and_biases_are_f32_of_the_width() {
    assert_eq!(
        refused(|b, x| b.rms_norm(x, "short", 1e-5)),
        "node short: weight short.weight has shape [5], expected [32]"
    );
    assert_eq!(
        refused(|b, x| b.add_bias(x, "w")),
        "node w.bias: weight w.bias has shape [6], expected [32]"
    );
    assert_eq!(
        refused(|b, _| {
            let y = input(b, 1, 6);
            b.add_bias(y, "half")
        }),
        "node half.bias: weight half.bias has type F16, expected F32"
    );
    assert_eq!(
        refused(|b, x| b.rms_norm(x, "norm", f32::NAN)),
        "node norm (RmsNorm): epsilon NaN is not a finite number >= 0"
    );
    assert_eq!(
        refused(|b, _| {
            let y = input(b, 1, 6);
            b.qk_norm(y, "head_norm", 4, 1e-5)
        }),
        "node head_norm (QkNorm): width 6 is not whole heads of 4"
    );
}

#[test]
fn operands_have_equal_shapes_and_types() {
    assert_eq!(
        refused(|b, x| {
            let y = input(b, 1, 31);
            b.add(x, y, "sum")
        }),
        "node sum (Add): input activations.1 is F32 [31, tokens], expected F32 [32, tokens]"
    );
    assert_eq!(
        refused(|b, x| {
            let y = b.activations(1, 32, Rows::Outputs)?;
            b.layer(2).mul(x, y, "product")
        }),
        "node blk.2.product (Mul): input activations.1 is F32 [32, outputs], expected F32 [32, tokens]"
    );
    assert_eq!(
        refused(|b, _| {
            let tokens = b.input(Input::Tokens)?;
            b.silu(tokens)
        }),
        "node tokens.silu (Silu): input tokens is I32 [1, tokens], expected F32 [any, any]"
    );
    assert_eq!(
        refused(|b, x| b.embed(x, "w")),
        "node w (Embed): input activations.0 is F32 [32, tokens], expected I32 [1, tokens]"
    );
    assert_eq!(
        refused(|b, x| b.get_rows(x, x)),
        "node activations.0.rows (GetRows): input activations.0 is F32 [32, tokens], expected I32 [1, tokens]"
    );
    assert_eq!(
        refused(|b, x| b.scale(x, f32::INFINITY, "blown_up")),
        "node blown_up (Scale): factor inf is not finite"
    );
    assert_eq!(
        refused(|b, _| {
            let tokens = b.input(Input::Tokens)?;
            b.output(tokens)
        }),
        "node tokens (Input): an output must be f32"
    );
}

#[test]
fn views_stay_inside_their_source() {
    assert_eq!(
        refused(|b, x| b.view(x, 30, 3, "tail")),
        "node tail (View): features 30..+3 lie outside activations.0 of width 32"
    );
    assert_eq!(
        refused(|b, x| b.view(x, usize::MAX, 3, "far")),
        format!(
            "node far (View): features {}..+3 lie outside activations.0 of width 32",
            usize::MAX
        )
    );
    assert_eq!(
        refused(|b, x| b.view(x, 0, 0, "nothing")),
        "node nothing (View): the value is empty"
    );
}

#[test]
fn rotations_are_even_and_within_the_head() {
    let rope = |rope: Rope| refused(move |b, x| b.rope(x, rope));
    let name = "node activations.0.rope (Rope)";
    for n_rot in [0, 3, 6] {
        assert_eq!(
            rope(Rope { n_rot, ..ROPE }),
            format!("{name}: n_rot {n_rot} is not even and in 2..=4")
        );
    }
    assert_eq!(
        rope(Rope {
            head_dim: 5,
            ..ROPE
        }),
        format!("{name}: width 32 is not whole heads of 5")
    );
    assert_eq!(
        rope(Rope {
            freq_base: 0.0,
            ..ROPE
        }),
        format!("{name}: freq_base 0 and freq_scale 1 must be positive")
    );
    assert_eq!(
        refused(|b, _| {
            let y = b.activations(1, 4, Rows::Outputs)?;
            b.rope(y, ROPE)
        }),
        "node activations.1.rope (Rope): input activations.1 is F32 [4, outputs], expected F32 [any, tokens]"
    );
}

#[test]
fn rotation_factors_are_half_as_many_as_rotated_features() {
    assert_eq!(
        refused(|b, _| b.rope_factors("rope_long.weight", 4)),
        "node rope: weight rope_long.weight has shape [3], expected [2]"
    );
    assert_eq!(
        refused(|b, x| {
            let factors = Some(b.rope_factors("rope_long.weight", 6)?);
            b.rope(x, Rope { factors, ..ROPE })
        }),
        "node activations.0.rope (Rope): rope_long.weight has 3 factors for n_rot 4, not half as many"
    );
    build(params(4), |b, x| {
        let factors = Some(b.rope_factors("rope_freqs.weight", 4)?);
        b.rope(x, Rope { factors, ..ROPE })
    })
    .unwrap();
}

/// Attention of an 8-wide query over a stored pair of 4-wide rows.
fn attend(b: &mut GraphBuilder<'_>, heads: AttentionHeads) -> Result<NodeId, GraphError> {
    let (q, k) = (input(b, 1, 8), input(b, 2, 4));
    let stored = b.kv_store(k, k, 1)?;
    b.attention(q, stored, heads)
}

#[test]
fn heads_divide_and_match_the_region() {
    let heads = |heads| refused(move |b, _| attend(b, heads));
    assert_eq!(
        heads(AttentionHeads {
            n_head: 3,
            n_head_kv: 2,
            ..HEADS
        }),
        "node attn (Attention): 3 heads do not group over 2 KV heads"
    );
    assert_eq!(
        heads(AttentionHeads {
            n_head: 2,
            n_head_kv: 0,
            ..HEADS
        }),
        "node attn (Attention): 2 heads do not group over 0 KV heads"
    );
    assert_eq!(
        heads(AttentionHeads {
            n_head_kv: 2,
            ..HEADS
        }),
        "node attn (Attention): 2 KV heads of 4 do not make rows of 4 with heads of 4"
    );
    assert_eq!(
        heads(AttentionHeads { n_head: 3, ..HEADS }),
        "node attn (Attention): input activations.1 is F32 [8, tokens], expected F32 [12, tokens]"
    );
    assert_eq!(
        heads(AttentionHeads {
            scale: -1.0,
            ..HEADS
        }),
        "node attn (Attention): scale -1 is not positive"
    );
    assert_eq!(
        refused(|b, x| b.attention(x, x, HEADS)),
        "node attn (Attention): reads activations.0 (Input), not a KvStore"
    );
}

#[test]
fn attention_reads_the_window_of_its_layout() {
    for (window, inputs) in [
        (WindowLayout::Causal, 3),
        (WindowLayout::Span, 4),
        (WindowLayout::Map, 4),
    ] {
        let params = GraphParams {
            window,
            ..params(4)
        };
        let (catalog, layout) = (catalog(), kv_layout());
        let mut b = GraphBuilder::new(&catalog, params, &layout);
        let id = attend(&mut b, HEADS).unwrap();
        let graph = b.finish();
        let node = graph.node(id);
        let Op::Attention(attention) = &node.op else {
            panic!("{node:?}")
        };
        assert_eq!((attention.window, attention.layer), (window, 1));
        assert_eq!((node.inputs.len(), node.width), (inputs, 8));
        let width = node.inputs.get(3).map_or(0, |id| graph.node(*id).width);
        assert_eq!(width, window.input_width());
    }
}

#[test]
fn stores_and_loads_fit_their_region() {
    assert_eq!(
        refused(|b, x| b.kv_store(x, x, 0)),
        "node kv_store (KvStore): input activations.0 is F32 [32, tokens], expected F32 [4, tokens]"
    );
    assert_eq!(
        refused(|b, x| b.layer(2).kv_store(x, x, 2)),
        "node blk.2.kv_store (KvStore): layer 2 of 2 KV regions"
    );
    let half = GraphParams {
        kv_format: KvFormat::F16,
        ..params(4)
    };
    let error = build(half, |b, x| b.kv_store(x, x, 0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "node kv_store (KvStore): the region holds F32, the parameters ask for F16"
    );
    assert_eq!(
        refused(|b, _| {
            let k = input(b, 1, 4);
            let stored = b.kv_store(k, k, 0)?;
            b.kv_load(stored, 17, false)
        }),
        "node kv_keys (KvLoad): 17 cells of a region of 16"
    );
}

#[test]
fn batched_products_group_heads() {
    let scores = |heads, kv_heads, transposed, width| {
        build(params(4), move |b, _| {
            let k = input(b, 1, 4);
            let stored = b.kv_store(k, k, 0)?;
            let keys = b.kv_load(stored, 16, false)?;
            let a = input(b, 2, width);
            b.batch_matmul(a, keys, heads, kv_heads, transposed)
        })
    };
    scores(2, 1, false, 8).unwrap();
    scores(2, 1, true, 32).unwrap();
    assert_eq!(
        scores(3, 2, false, 8).unwrap_err().to_string(),
        "node attn_scores (BatchMatMul): 3 heads do not group over 2 KV heads"
    );
    assert_eq!(
        scores(3, 3, false, 8).unwrap_err().to_string(),
        "node attn_scores (BatchMatMul): width 4 of b is not 3 whole heads"
    );
    assert_eq!(
        scores(2, 1, true, 8).unwrap_err().to_string(),
        "node attn_values (BatchMatMul): input activations.2 is F32 [8, tokens], expected F32 [32, any]"
    );
    assert_eq!(
        refused(|b, x| b.batch_matmul(x, x, 1, 1, false)),
        "node attn_scores (BatchMatMul): b has Tokens rows, not a fixed number"
    );
}

#[test]
fn softmax_groups_are_equal_parts() {
    assert_eq!(
        refused(|b, x| b.softmax(x, None, 5, 1.0)),
        "node activations.0.softmax (Softmax): width 32 in 5 groups, scale 1"
    );
    build(params(4), |b, x| {
        let positions = b.input(Input::Positions)?;
        b.softmax(x, Some(positions), 4, 0.5)
    })
    .unwrap();
}
