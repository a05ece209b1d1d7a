//! Memory that layers need on a device.

use std::collections::BTreeSet;

use minfer_graph::{Graph, GraphError, GraphParams, Node, buffer_bytes};

use super::placement::takes;

/// Bytes of some layers on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Need {
    pub weights: u64,
    pub kv: u64,
    pub buffers: u64,
}

impl Need {
    pub fn total(self) -> u64 {
        let sum = self.weights.saturating_add(self.kv);
        sum.saturating_add(self.buffers)
    }
}

/// What a model's leading layers need on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    /// Bytes of weights, by the number of layers: none, one, and so on to all with the rest of the model.
    pub weights: Vec<u64>,
    /// Bytes of a cell's key and value in one layer.
    pub cell: u64,
    /// Bytes of the activations where all layers are on the device, and of what lies between kernels.
    pub buffers: u64,
    /// The same of fewer layers, at most: what comes from the CPU has a buffer throughout a step.
    pub partial_buffers: u64,
}

impl Demand {
    /// That of a model of `layers` layers, which runs the plans of `graphs` with `scratch` bytes between kernels.
    pub fn new(
        layers: usize,
        cell: u64,
        scratch: u64,
        graphs: &[(GraphParams, Graph)],
        tensor_bytes: impl Fn(&str) -> u64,
    ) -> Result<Self, GraphError> {
        let weights = |count| {
            let graph = graphs.first().map(|(_, graph)| graph);
            let takes = |node: &Node| takes(count, layers, &node.name);
            let named = graph.map(|graph| weights_of(graph, takes));
            named.into_iter().flatten().map(&tensor_bytes).sum()
        };
        let buffers = |count| {
            let elsewhere = |node: &Node| usize::from(!takes(count, layers, &node.name));
            let bytes = buffer_bytes(graphs, 2, elsewhere)?;
            let bytes = bytes.first().copied().unwrap_or(0);
            Ok::<_, GraphError>(bytes.saturating_add(scratch))
        };
        Ok(Demand {
            weights: (0..=layers).map(weights).collect(),
            cell,
            buffers: buffers(layers)?,
            partial_buffers: buffers(layers.saturating_sub(1))?,
        })
    }

    pub fn need(&self, layers: usize, cells: usize) -> Need {
        if layers == 0 {
            return Need::default();
        }
        let rows = (layers as u64).saturating_mul(cells as u64);
        Need {
            weights: self.weights.get(layers).copied().unwrap_or(u64::MAX),
            kv: rows.saturating_mul(self.cell),
            buffers: match layers + 1 < self.weights.len() {
                true => self.partial_buffers,
                false => self.buffers,
            },
        }
    }

    pub fn fits(&self, layers: usize, cells: usize, available: Option<u64>) -> bool {
        available.is_none_or(|available| self.need(layers, cells).total() <= available)
    }

    /// The most leading layers that fit.
    pub fn largest(&self, cells: usize, available: Option<u64>) -> usize {
        let counts = (0..self.weights.len()).rev();
        let mut fitting = counts.filter(|&layers| self.fits(layers, cells, available));
        fitting.next().unwrap_or(0)
    }

    /// The most cells with which `layers` layers, at least one, fit.
    pub fn most_cells(&self, layers: usize, available: Option<u64>) -> usize {
        let Some(available) = available else {
            return usize::MAX;
        };
        let room = available.saturating_sub(self.need(layers, 0).total());
        let per_cell = self.cell.saturating_mul(layers as u64).max(1);
        usize::try_from(room / per_cell).unwrap_or(usize::MAX)
    }
}

/// Names of the weights of some nodes.
pub(crate) fn weights_of(graph: &Graph, takes: impl Fn(&Node) -> bool) -> BTreeSet<&str> {
    let nodes = graph.nodes.iter().filter(|node| takes(node));
    let ids = nodes.flat_map(|node| node.op.weights());
    ids.map(|id| graph.weight_name(id)).collect()
}

#[cfg(test)]
mod tests {
    use minfer_gguf::TensorType;
    use minfer_graph::{
        Fusion, GraphBuilder, Input, KvFormat, KvLayout, WeightCatalog, WindowLayout,
    };

    use super::*;

    /// Three layers of 100 bytes, 1000 bytes of embedding and head, 2 bytes per cell and layer.
    fn demand() -> Demand {
        Demand {
            weights: vec![0, 100, 200, 1300],
            cell: 2,
            buffers: 50,
            partial_buffers: 50,
        }
    }

    const PARAMS: GraphParams = GraphParams {
        max_tokens: 64,
        max_outputs: 1,
        window: WindowLayout::Causal,
        kv_format: KvFormat::F32,
        generated_only: false,
        fusion: Fusion::NONE,
    };

    /// Three layers of a norm, a product and a sum, with few logits.
    fn graph() -> Graph {
        let mut catalog = WeightCatalog::default();
        let mut add = |name: &str, shape: &[usize]| catalog.insert(name, TensorType::F32, shape);
        add("token_embd.weight", &[1024, 8]);
        for layer in 0..3 {
            add(&format!("blk.{layer}.norm.weight"), &[1024]);
            add(&format!("blk.{layer}.up.weight"), &[1024, 1024]);
        }
        let kv = KvLayout::default();
        let mut builder = GraphBuilder::new(&catalog, PARAMS, &kv);
        let tokens = builder.input(Input::Tokens).expect("tokens");
        let mut x = builder.embed(tokens, "token_embd").expect("embedded");
        for layer in 0..3 {
            let mut layer = builder.layer(layer);
            let normed = layer.rms_norm(x, "norm", 1e-5).expect("a norm");
            let product = layer.matmul(normed, "up").expect("a product");
            x = layer.add(product, x, "residual").expect("a sum");
        }
        let rows = builder.input(Input::OutputRows).expect("rows");
        let x = builder.get_rows(x, rows).expect("picked");
        let named = builder.matmul_named(x, "token_embd", "output");
        builder.output(named.expect("logits")).expect("an output");
        builder.finish()
    }

    #[test]
    fn an_embedding_from_the_cpu_needs_a_buffer_of_its_own() {
        let demand = Demand::new(3, 0, 7, &[(PARAMS, graph())], |_| 0).expect("small");
        let buffers = |layers| demand.need(layers, 0).buffers;
        let value = 1024 * 64 * 4;
        // A sum, a norm and a product; row numbers, tokens, the row that is picked and its logits.
        assert_eq!(buffers(3), 3 * value + 2 * 256 + 4096 + 256 + 7);
        // The embedding beside them; the rest is on the CPU.
        assert_eq!(buffers(2), 4 * value + 7);
        assert_eq!(buffers(1), 4 * value + 7);
    }

    #[test]
    fn the_largest_prefix_that_fits_is_chosen() {
        let largest = |available| demand().largest(10, Some(available));
        // A layer with its cells takes 120 bytes, and buffers come once.
        assert_eq!(largest(0), 0);
        assert_eq!(largest(169), 0);
        assert_eq!(largest(170), 1);
        assert_eq!(largest(289), 1);
        assert_eq!(largest(290), 2);
        // The last layer comes with the rest of the model: 1300 + 60 + 50.
        assert_eq!(largest(1409), 2);
        assert_eq!(largest(1410), 3);
        assert_eq!(demand().largest(10, None), 3);
        assert_eq!(demand().largest(1 << 40, None), 3);
        assert_eq!(demand().largest(usize::MAX, Some(u64::MAX - 1)), 0);
    }

    #[test]
    fn cells_take_what_weights_and_buffers_leave() {
        assert_eq!(demand().most_cells(3, Some(1350)), 0);
        assert_eq!(demand().most_cells(3, Some(1361)), 1);
        assert_eq!(demand().most_cells(3, Some(1362)), 2);
        assert_eq!(demand().most_cells(1, Some(1362)), 606);
        assert_eq!(demand().most_cells(3, Some(0)), 0);
        assert_eq!(demand().most_cells(3, None), usize::MAX);
    }

    #[test]
    fn nothing_on_the_device_needs_nothing() {
        assert_eq!(demand().need(0, 1000), Need::default());
        let need = demand().need(2, 10);
        assert_eq!((need.weights, need.kv, need.buffers), (200, 40, 50));
        assert_eq!(need.total(), 290);
    }
}
