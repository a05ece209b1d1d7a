//! Whether a device has kernels for a model.

use minfer_graph::{Backend, Graph, GraphParams, Op};
use minfer_metal::backend::reads_weight;
use minfer_model::Model;

use super::{OffloadError, Placement};

/// The first weight that `graph` names and no kernel reads.
pub(super) fn refused_weight(
    device: &'static str,
    model: &Model,
    graph: &Graph,
) -> Option<OffloadError> {
    graph.weights.iter().find_map(|name| {
        let info = model.catalog().get(name)?;
        (!reads_weight(info.ty, &info.shape)).then(|| OffloadError::Weight {
            device,
            tensor: name.clone(),
            ty: info.ty,
            shape: info.shape.clone(),
        })
    })
}

/// The first node that `placement` gives to the device and `backend`, with its weights registered, cannot run.
pub(crate) fn refused_node(
    placement: &Placement,
    backend: &dyn Backend,
    params: &GraphParams,
    graph: &Graph,
) -> Option<OffloadError> {
    let refused = |node: &str, op: &'static str, reason| OffloadError::Node {
        device: placement.device.name(),
        node: node.to_owned(),
        op,
        reason,
    };
    for node in graph
        .nodes
        .iter()
        .filter(|node| placement.takes(&node.name))
    {
        if matches!(node.op, Op::Input(_) | Op::View { .. }) {
            continue;
        }
        let op = node.op.name();
        if !backend.supports(graph, node) {
            return Some(refused(&node.name, op, backend.refusal(graph, node)));
        }
        if node.op.kv_layer().is_some() && !backend.reads_kv(params.kv_format) {
            let reason = format!("it cannot read {:?} keys and values", params.kv_format);
            return Some(refused(&node.name, op, reason));
        }
        if matches!(node.op, Op::Attention(_)) && !backend.reads_window(params.window) {
            let reason = format!("it cannot read {:?} windows", params.window);
            return Some(refused(&node.name, op, reason));
        }
    }
    None
}
