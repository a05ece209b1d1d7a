//! Products for prompt rows: `cargo bench -p minfer-cpu --bench prefill [-- FILTER]`.
//!
//! Throughput is in multiplications with addition (`Gelem/s`). Shapes are those of a 0.5B and a 135M
//! model; names read `WEIGHT INxOUT ROWS/ISA/THREADS`.

use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use minfer_cpu::{CpuBackend, CpuOptions, Isa, Pool};
use minfer_gguf::{Tensor, TensorBytes, TensorType};
use minfer_graph::{
    Backend, DType, Graph, Node, NodeId, Op, Operand, RowCount, Rows, Task, WeightId,
};

/// Element type, elements of a row, output rows, prompt rows.
const PRODUCTS: [(TensorType, usize, usize, usize); 14] = [
    (TensorType::Q5_0, 896, 896, 512),
    (TensorType::Q8_0, 896, 128, 512),
    (TensorType::Q5_0, 896, 4864, 512),
    (TensorType::Q4_K, 4864, 896, 512),
    (TensorType::Q6_K, 4864, 896, 512),
    (TensorType::Q8_0, 896, 151_936, 1),
    (TensorType::Q4_1, 576, 576, 512),
    (TensorType::Q4_1, 576, 192, 512),
    (TensorType::Q4_1, 576, 1536, 512),
    (TensorType::Q4_1, 1536, 576, 512),
    (TensorType::Q4_1, 576, 1536, 1),
    (TensorType::Q4_1, 576, 1536, 16),
    (TensorType::Q4_1, 576, 1536, 32),
    (TensorType::F16, 896, 896, 512),
];

/// A backend with one weight, and the node that multiplies by it.
struct Setup {
    backend: CpuBackend,
    graph: Graph,
    x: Operand,
    y: Operand,
}

impl Setup {
    fn new(isa: Isa, threads: usize, ty: TensorType, [width, outputs, rows]: [usize; 3]) -> Self {
        let pool = Arc::new(Pool::new(threads).expect("threads"));
        let options = CpuOptions {
            isa: Some(isa),
            ..CpuOptions::default()
        };
        let mut backend = CpuBackend::new(pool, options).expect("an available level");
        let bytes = outputs * ty.row_bytes(width).expect("whole blocks");
        let weight = Tensor {
            name: "w".to_owned(),
            ty,
            shape: vec![width, outputs],
            bytes: TensorBytes::from_vec(vec![0x11; bytes]),
        };
        backend.register_weight(&weight).expect("a known type");
        let x = operand(&mut backend, width, rows);
        let y = operand(&mut backend, outputs, rows);
        let ones = 1_f32.to_le_bytes().repeat(width * rows);
        backend.write(x.buffer, 0, &ones).expect("activations");
        Setup {
            backend,
            graph: graph(width, outputs),
            x,
            y,
        }
    }

    fn run(&mut self) {
        let task = Task {
            graph: &self.graph,
            node: self.graph.node(NodeId(1)),
            output: self.y,
            inputs: &[self.x],
            kv: None,
        };
        self.backend.execute(task).expect("a product");
    }
}

fn operand(backend: &mut CpuBackend, width: usize, rows: usize) -> Operand {
    Operand {
        buffer: backend.alloc(4 * width * rows).expect("memory"),
        offset: 0,
        width,
        stride: width,
        rows: RowCount {
            prompt: rows,
            generated: 0,
        },
    }
}

fn graph(width: usize, outputs: usize) -> Graph {
    let node = |op, inputs, width, name: &str| Node {
        op,
        inputs,
        width,
        rows: Rows::Tokens,
        dtype: DType::F32,
        name: name.to_owned(),
    };
    let weight = WeightId(0);
    Graph {
        nodes: vec![
            node(Op::Silu, vec![], width, "x"),
            node(Op::MatMul { weight }, vec![NodeId(0)], outputs, "y"),
        ],
        weights: vec!["w".to_owned()],
        outputs: vec![NodeId(1)],
    }
}

fn products(criterion: &mut Criterion) {
    for (ty, width, outputs, rows) in PRODUCTS {
        let mut group = criterion.benchmark_group(format!("{ty} {width}x{outputs} {rows}"));
        group.throughput(Throughput::Elements((width * outputs * rows) as u64));
        group.sample_size(10);
        group.warm_up_time(Duration::from_millis(200));
        group.measurement_time(Duration::from_secs(1));
        for isa in Isa::available() {
            for threads in [1, Pool::default_threads()] {
                let mut setup = Setup::new(isa, threads, ty, [width, outputs, rows]);
                let id = BenchmarkId::new(isa.name(), threads);
                group.bench_function(id, |bencher| bencher.iter(|| setup.run()));
            }
        }
        group.finish();
    }
}

criterion_group!(benches, products);
criterion_main!(benches);
