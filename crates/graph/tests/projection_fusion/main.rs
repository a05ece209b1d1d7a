//! Projections with the norm before them and the sums after them in one node.

mod kept;
mod made;
#[path = "../support/mod.rs"]
mod support;

use minfer_graph::{
    Executor, Fusion, Graph, GraphBuilder, GraphError, GraphParams, Input, KvLayout, Node, NodeId,
    Op, Rows, StepInputs,
};
use support::*;

type Built = Result<NodeId, GraphError>;

/// Mean squares are 9 in each row, 25 with this epsilon.
const X: [f32; 6] = [3.0, 3.0, -3.0, 3.0, 3.0, -3.0];
const EPS: f32 = 16.0;
/// Added to the projections.
const R: [f32; 9] = [
    100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0,
];
/// Rows of `X` and `R`, picked for the outputs.
const PICKED: [i32; 2] = [2, 0];

/// Projections `[[1, 2], [3, 4], [5, 6]]` and `[[0, 1], [1, 0], [1, 1]]` with the bias 10, 20, 30; a gain of
/// 10 and 5.
fn executor(backends: Vec<Mock>) -> Executor {
    let backends = backends.into_iter().map(Mock::boxed).collect();
    let mut executor = Executor::new(backends, KvLayout::default());
    for tensor in [
        tensor("w.weight", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        tensor("v.weight", &[2, 3], &[0.0, 1.0, 1.0, 0.0, 1.0, 1.0]),
        tensor("square.weight", &[2, 2], &[1.0, 1.0, 1.0, 0.0]),
        tensor("w.bias", &[3], &[10.0, 20.0, 30.0]),
        tensor("norm.weight", &[2], &[10.0, 5.0]),
    ] {
        executor.register_weight(&tensor, None).unwrap();
    }
    executor
}

fn fusing() -> Mock {
    let mut mock = Mock::new("a");
    mock.fuses = |_, _| true;
    mock
}

/// What became of a graph, and its first output.
struct Planned {
    graph: Graph,
    values: Vec<f32>,
}

impl Planned {
    /// `op name(inputs)` for all nodes but the caller's inputs.
    fn nodes(&self) -> Vec<String> {
        let name = |id: &NodeId| self.graph.node(*id).name.as_str();
        let is_input = |node: &&Node| matches!(node.op, Op::Input(_));
        let nodes = self.graph.nodes.iter().filter(|node| !is_input(node));
        nodes
            .map(|node| {
                let inputs: Vec<_> = node.inputs.iter().map(name).collect();
                format!("{} {}({})", node.op.name(), node.name, inputs.join(" "))
            })
            .collect()
    }

    fn weights(&self, name: &str) -> Vec<&str> {
        let mut nodes = self.graph.nodes.iter();
        let node = nodes.find(|node| node.name == name).unwrap();
        let ids = node.op.weights().into_iter();
        ids.map(|id| self.graph.weight_name(id)).collect()
    }
}

/// `build` makes the output of `x` and the residual.
fn plan(build: impl Fn(&mut GraphBuilder<'_>, NodeId, NodeId) -> Built) -> Planned {
    let whole = |b: &mut GraphBuilder<'_>, x, r| {
        let y = build(b, x, r)?;
        b.output(y)
    };
    plan_on(executor(vec![fusing()]), Fusion::default(), whole, |_| {})
}

fn plan_on(
    mut executor: Executor,
    fusion: Fusion,
    build: impl Fn(&mut GraphBuilder<'_>, NodeId, NodeId) -> Result<(), GraphError>,
    edit: impl Fn(&mut Graph),
) -> Planned {
    let params = GraphParams {
        fusion,
        ..params(3)
    };
    let (catalog, layout) = (executor.catalog().clone(), KvLayout::default());
    let build = |params: &GraphParams| {
        let mut b = GraphBuilder::new(&catalog, *params, &layout);
        let x = b.activations(0, 2, Rows::Tokens)?;
        let r = b.activations(1, 3, Rows::Tokens)?;
        build(&mut b, x, r)?;
        let mut graph = b.finish();
        edit(&mut graph);
        Ok::<_, GraphError>(graph)
    };
    executor.prepare(&params, build).unwrap();
    let step = StepInputs {
        rows: rows(generated(3), generated(2)),
        activations: &[&X, &R],
        output_rows: &PICKED,
        ..StepInputs::default()
    };
    let values = executor.run(&params, &step).unwrap().values(0).to_vec();
    let graph = executor.dump(&params).unwrap().graph().clone();
    Planned { graph, values }
}

/// Picks rows of both, multiplies and adds.
fn picked(b: &mut GraphBuilder<'_>, x: NodeId, r: NodeId) -> Built {
    let numbers = b.input(Input::OutputRows)?;
    let r = b.get_rows(r, numbers)?;
    let x = b.get_rows(x, numbers)?;
    let y = b.matmul(x, "w")?;
    let y = b.add_bias(y, "w")?;
    b.add(y, r, "sum")
}
