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
    /// Bytes of the activations.
    pub buffers: u64,
}

impl Demand {
    /// That of a model of `layers` layers, which runs the plans of `graphs`.
    pub fn new(
        layers: usize,
        cell: u64,
        graphs: &[(GraphParams, Graph)],
        tensor_bytes: impl Fn(&str) -> u64,
    ) -> Result<Self, GraphError> {
        let weights = |count| {
            let graph = graphs.first().map(|(_, graph)| graph);
            let takes = |node: &Node| takes(count, layers, &node.name);
            let named = graph.map(|graph| weights_of(graph, takes));
            named.into_iter().flatten().map(&tensor_bytes).sum()
        };
        let buffers = buffer_bytes(graphs, 1, |_| 0)?;
        Ok(Demand {
            weights: (0..=layers).map(weights).collect(),
            cell,
            buffers: buffers.iter().sum(),
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
            buffers: self.buffers,
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
    use super::*;

    /// Three layers of 100 bytes, 1000 bytes of embedding and head, 2 bytes per cell and layer.
    fn demand() -> Demand {
        Demand {
            weights: vec![0, 100, 200, 1300],
            cell: 2,
            buffers: 50,
        }
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
