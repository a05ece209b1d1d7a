//! Where the nodes stay as they are.

use minfer_graph::RowCount;

use super::*;

#[test]
fn a_norm_that_is_read_twice_stays() {
    let planned = plan(|b, x, _| {
        let x = b.rms_norm(x, "norm", EPS)?;
        let (w, v) = (b.matmul(x, "w")?, b.matmul(x, "v")?);
        b.mul(w, v, "product")
    });
    let expected = [
        "RmsNorm norm(activations.0)",
        "MatMul w(norm)",
        "MatMul v(norm)",
        "Mul product(w v)",
    ];
    assert_eq!(planned.nodes(), expected);
}

#[test]
fn a_norm_that_is_also_the_residual_stays() {
    let planned = plan(|b, x, _| {
        let x = b.rms_norm(x, "norm", EPS)?;
        let y = b.matmul(x, "square")?;
        b.add(y, x, "sum")
    });
    let expected = ["RmsNorm norm(activations.0)", "FusedMatMul sum(norm norm)"];
    assert_eq!(planned.nodes(), expected);
    assert_eq!(planned.values, [15.0, 9.0, -9.0, -3.0, 9.0, 3.0]);
}

#[test]
fn an_output_of_the_graph_stays() {
    let build = |b: &mut GraphBuilder<'_>, x, r| {
        let x = b.rms_norm(x, "norm", EPS)?;
        let y = b.matmul(x, "w")?;
        let sum = b.add(y, r, "sum")?;
        [sum, x, y].into_iter().try_for_each(|id| b.output(id))
    };
    let planned = plan_on(executor(vec![fusing()]), Fusion::default(), build, |_| {});
    let expected = [
        "RmsNorm norm(activations.0)",
        "MatMul w(norm)",
        "Add sum(w activations.1)",
    ];
    assert_eq!(planned.nodes(), expected);
}

#[test]
fn a_product_that_something_else_reads_stays() {
    let before_bias = plan(|b, x, r| {
        let product = b.matmul(x, "w")?;
        let y = b.add_bias(product, "w")?;
        let y = b.add(y, r, "sum")?;
        b.mul(y, product, "product")
    });
    assert_eq!(
        before_bias.nodes()[1..3],
        ["AddBias w.bias(w)", "Add sum(w.bias activations.1)"]
    );
    let behind_bias = plan(|b, x, r| {
        let y = b.matmul(x, "w")?;
        let y = b.add_bias(y, "w")?;
        let sum = b.add(y, r, "sum")?;
        b.mul(sum, y, "product")
    });
    assert_eq!(behind_bias.nodes()[2], "Add sum(w.bias activations.1)");
    let doubled = plan(|b, x, _| {
        let y = b.matmul(x, "w")?;
        b.add(y, y, "sum")
    });
    assert_eq!(doubled.nodes(), ["MatMul w(activations.0)", "Add sum(w w)"]);
}

#[test]
fn rows_of_other_numbers_are_picked_before() {
    let build = |b: &mut GraphBuilder<'_>, x, r| {
        let y = picked(b, x, r)?;
        b.output(y)
    };
    // The residual's rows get an input of their own, of the same values.
    let split = |graph: &mut Graph| {
        let is_numbers = |node: &Node| node.op == Op::Input(Input::OutputRows);
        let numbers = graph.nodes.iter().position(is_numbers).unwrap();
        let other = Node {
            name: "other_rows".into(),
            ..graph.nodes[numbers].clone()
        };
        graph.nodes.insert(numbers + 1, other);
        let shift = |id: &mut NodeId| id.0 += u32::from(id.0 as usize > numbers);
        let later = graph.nodes[numbers + 2..].iter_mut();
        later.for_each(|node| node.inputs.iter_mut().for_each(shift));
        graph.outputs.iter_mut().for_each(shift);
        graph.nodes[numbers + 2].inputs[1].0 += 1;
    };
    let planned = plan_on(executor(vec![fusing()]), Fusion::default(), build, split);
    let expected = [
        "GetRows activations.1.rows(activations.1 other_rows)",
        "GetRows activations.0.rows(activations.0 output_rows)",
        "FusedMatMul sum(activations.0.rows activations.1.rows)",
    ];
    assert_eq!(planned.nodes(), expected);
    let expected = [707.0, 817.0, 927.0, 119.0, 241.0, 363.0];
    assert_eq!(planned.values, expected);
}

#[test]
fn picked_rows_that_something_else_reads_are_picked_before() {
    let planned = plan(|b, x, r| {
        let numbers = b.input(Input::OutputRows)?;
        let (x, r) = (b.get_rows(x, numbers)?, b.get_rows(r, numbers)?);
        let y = b.matmul(x, "w")?;
        let y = b.add(y, r, "sum")?;
        b.mul(y, r, "product")
    });
    let expected = "FusedMatMul sum(activations.0.rows activations.1.rows)";
    assert_eq!(planned.nodes()[2], expected);
    let expected = [697.0 * 700.0, 797.0 * 800.0, 897.0 * 900.0];
    assert_eq!(planned.values[..3], expected);
}

/// Norm, product, sum and picked rows on two backends, of which the first refuses a node.
fn split(refuses: fn(&Node) -> bool) -> Planned {
    let mut first = fusing();
    first.refuses = refuses;
    let build = |b: &mut GraphBuilder<'_>, x, r| {
        let x = b.rms_norm(x, "norm", EPS)?;
        let y = picked(b, x, r)?;
        b.output(y)
    };
    let both = vec![first, fusing()];
    plan_on(executor(both), Fusion::default(), build, |_| {})
}

#[test]
fn what_is_on_another_backend_stays() {
    let all = split(|_| false).values;
    let of = |refuses| {
        let planned = split(refuses);
        assert_eq!(planned.values, all);
        planned.nodes().join(", ")
    };
    let norm = of(|node| node.name == "norm");
    assert_eq!(
        norm,
        "RmsNorm norm(activations.0), FusedMatMul sum(norm activations.1 output_rows)"
    );
    let rows = of(|node| node.op == Op::GetRows && node.width == 3);
    assert_eq!(
        rows,
        "RmsNorm norm(activations.0), GetRows activations.1.rows(activations.1 output_rows), \
         GetRows norm.rows(norm output_rows), FusedMatMul sum(norm.rows activations.1.rows)"
    );
    for product in [
        of(|node| node.name == "w"),
        of(|node| node.name == "w.bias"),
    ] {
        assert!(product.contains("Add sum("), "{product}");
    }
}

#[test]
fn each_rewrite_has_its_switch() {
    let nodes = |fusion| {
        let build = |b: &mut GraphBuilder<'_>, x, r| {
            let x = b.rms_norm(x, "norm", EPS)?;
            let y = b.matmul(x, "w")?;
            let y = b.add(y, r, "sum")?;
            b.output(y)
        };
        plan_on(executor(vec![fusing()]), fusion, build, |_| {}).nodes()
    };
    let (norm, residual) = (true, true);
    assert_eq!(
        nodes(Fusion {
            residual,
            ..Fusion::NONE
        }),
        [
            "RmsNorm norm(activations.0)",
            "FusedMatMul sum(norm activations.1)"
        ]
    );
    assert_eq!(
        nodes(Fusion {
            norm,
            ..Fusion::NONE
        }),
        ["FusedMatMul w(activations.0)", "Add sum(w activations.1)"]
    );
}

#[test]
fn a_device_may_fuse_for_generated_rows_alone() {
    let mut mock = Mock::new("a");
    mock.fuses = |_, params| params.generated_only;
    let mut executor = executor(vec![mock]);
    let (catalog, layout) = (executor.catalog().clone(), KvLayout::default());
    let mut sum = |generated_only| {
        let params = GraphParams {
            generated_only,
            ..params(3)
        };
        let build = |params: &GraphParams| {
            let mut b = GraphBuilder::new(&catalog, *params, &layout);
            let x = b.activations(0, 2, Rows::Tokens)?;
            let r = b.activations(1, 3, Rows::Tokens)?;
            let y = b.matmul(x, "w")?;
            let y = b.add(y, r, "sum")?;
            b.output(y)?;
            Ok::<_, GraphError>(b.finish())
        };
        executor.prepare(&params, build).unwrap();
        let step = StepInputs {
            rows: rows(generated(3), RowCount::default()),
            activations: &[&X, &R],
            ..StepInputs::default()
        };
        let values = executor.run(&params, &step).unwrap().values(0).to_vec();
        let dump = executor.dump(&params).unwrap();
        (dump.graph().nodes.last().unwrap().op.name(), values)
    };
    let (unfused, fused) = (sum(false), sum(true));
    assert_eq!([unfused.0, fused.0], ["Add", "FusedMatMul"]);
    assert_eq!(unfused.1, fused.1);
}
