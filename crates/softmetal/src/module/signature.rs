//! Rules for kernel parameters that Metal's compiler enforces (specification, sections 5.2.1 and 5.2.3.6).

use minfer_metal::device::check::MAX_INDEX;

use super::{Kernel, Slot};

/// Builtins that must agree on their number of components where they are vectors, by place in `BUILTINS`.
const POSITIONS: [u32; 7] = [0, 1, 5, 6, 7, 8, 11];

/// What Metal would refuse, if anything.
pub(super) fn check(kernel: &Kernel) -> Result<(), String> {
    let mut components = None;
    for (at, parameter) in kernel.parameters.iter().enumerate() {
        let name = &parameter.name;
        let refused = |message: String| {
            Err(format!(
                "kernel `{}`, parameter `{name}`: {message}",
                kernel.name
            ))
        };
        match parameter.slot {
            Slot::Buffer(index) | Slot::Threadgroup(index) if index > MAX_INDEX => {
                return refused(format!("index {index} is more than {MAX_INDEX}"));
            }
            Slot::Builtin {
                index,
                components: 2..,
            } if !POSITIONS.contains(&index) => {
                return refused("this attribute needs a scalar".into());
            }
            Slot::Builtin {
                index,
                components: count @ 2..,
            } if POSITIONS.contains(&index) => {
                if components.is_some_and(|known| known != count) {
                    return refused(
                        "positions and extents need the same number of components".into(),
                    );
                }
                components = Some(count);
            }
            _ => {}
        }
        let same = |other: &super::Parameter| other.slot == parameter.slot;
        if let Some(other) = kernel.parameters[..at].iter().find(|other| same(other)) {
            return refused(format!("`{}` has the same attribute", other.name));
        }
    }
    Ok(())
}
