//! The JSON files of a bundle.

use serde::{Deserialize, Serialize};

use crate::device::{Access, ConstantValue, Grid, Size};

/// Version of the format that is written, and the only one that is read.
pub const FORMAT: u32 = 1;

/// `bundle.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// [`FORMAT`].
    pub format: u32,
    /// Name of the device that ran the dispatches.
    pub device: String,
    /// Files of the descriptions, in the order of their first occurrence.
    pub dispatches: Vec<String>,
}

/// A dispatch: what was launched, and the memory it was launched on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Name of the first dispatch of this kind, such as the graph node's.
    pub label: String,
    /// How often a dispatch of this kind came up; the contents are those of the first one.
    pub occurrences: u64,
    /// What was launched.
    pub launch: Launch,
    /// Memory that the buffers lie in.
    pub memory: Vec<Memory>,
}

/// Everything about a dispatch but the contents of its memory. Dispatches that agree here are one kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Name of the kernel.
    pub kernel: String,
    /// File of its source, headers in place.
    pub source: String,
    /// Function constants.
    pub constants: Vec<Constant>,
    /// What `grid` counts.
    pub grid_unit: GridUnit,
    /// Extents of the grid.
    pub grid: [u32; 3],
    /// Threads per threadgroup.
    pub threadgroup: [u32; 3],
    /// Memory shared by a threadgroup, by `[[threadgroup(index)]]`.
    pub threadgroup_memory: Vec<ThreadgroupMemory>,
    /// Values bound by copy, by `[[buffer(index)]]`.
    pub values: Vec<InlineValue>,
    /// Ranges bound, by `[[buffer(index)]]`.
    pub buffers: Vec<Binding>,
}

/// What a grid counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GridUnit {
    /// Threads; threadgroups at the upper edges are smaller (`dispatchThreads`).
    Threads,
    /// Full threadgroups (`dispatchThreadgroups`).
    Threadgroups,
}

/// A function constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// `[[function_constant(index)]]`.
    pub index: u32,
    /// Its type in MSL.
    #[serde(rename = "type")]
    pub ty: ConstantType,
    /// Its value, little endian.
    pub bytes: HexBytes,
}

/// Type of a function constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConstantType {
    /// One byte, 0 or 1.
    Bool,
    /// 4 bytes.
    Int,
    /// 4 bytes.
    Uint,
    /// 2 bytes.
    Ushort,
    /// 4 bytes.
    Float,
}

/// Size of a `[[threadgroup(index)]]` parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadgroupMemory {
    /// Its index.
    pub index: u32,
    /// Its size.
    pub bytes: usize,
}

/// A value bound by copy (`setBytes`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InlineValue {
    /// Its index.
    pub index: u32,
    /// The value as in memory, little endian.
    pub bytes: HexBytes,
}

/// A range of memory bound to an index.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// Its index.
    pub index: u32,
    /// Place in [`Description::memory`]. Two bindings of one memory alias.
    pub memory: usize,
    /// First byte in that memory.
    pub offset: usize,
    /// Bytes that the kernel may touch.
    pub bytes: usize,
    /// What it does with them.
    pub role: Role,
}

/// Whether a range is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Only read.
    Read,
    /// Written, perhaps after reading.
    Write,
}

/// Part of a buffer of the recorded run, and its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Label of that buffer.
    pub label: String,
    /// Where the part starts in it, a multiple of 16.
    pub offset: usize,
    /// Size of the part, and of both files.
    pub bytes: usize,
    /// File of the contents before the dispatch.
    pub before: String,
    /// File of the contents after it; none for memory that is only read.
    pub after: Option<String>,
}

/// Bytes, in JSON as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HexBytes(pub Vec<u8>);

impl Serialize for HexBytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&to_hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for HexBytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let bytes = from_hex(&digits)
            .ok_or_else(|| serde::de::Error::custom(format!("`{digits}` is not hexadecimal")))?;
        Ok(HexBytes(bytes))
    }
}

/// Two lower-case digits per byte.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |ascii: u8| char::from(ascii).to_digit(16);
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| match *pair {
            [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
            _ => None,
        })
        .collect()
}

impl Constant {
    pub(super) fn new(index: u32, value: ConstantValue) -> Self {
        let (ty, bytes) = match value {
            ConstantValue::Bool(value) => (ConstantType::Bool, vec![u8::from(value)]),
            ConstantValue::I32(value) => (ConstantType::Int, value.to_le_bytes().to_vec()),
            ConstantValue::U32(value) => (ConstantType::Uint, value.to_le_bytes().to_vec()),
            ConstantValue::U16(value) => (ConstantType::Ushort, value.to_le_bytes().to_vec()),
            ConstantValue::F32(value) => (ConstantType::Float, value.to_le_bytes().to_vec()),
        };
        Constant {
            index,
            ty,
            bytes: HexBytes(bytes),
        }
    }

    /// The value; `None` when the bytes are none of its type.
    pub fn value(&self) -> Option<ConstantValue> {
        let bytes = self.bytes.0.as_slice();
        Some(match self.ty {
            ConstantType::Bool => match bytes {
                [0] => ConstantValue::Bool(false),
                [1] => ConstantValue::Bool(true),
                _ => return None,
            },
            ConstantType::Int => ConstantValue::I32(i32::from_le_bytes(bytes.try_into().ok()?)),
            ConstantType::Uint => ConstantValue::U32(u32::from_le_bytes(bytes.try_into().ok()?)),
            ConstantType::Ushort => ConstantValue::U16(u16::from_le_bytes(bytes.try_into().ok()?)),
            ConstantType::Float => ConstantValue::F32(f32::from_le_bytes(bytes.try_into().ok()?)),
        })
    }
}

impl Launch {
    /// The grid.
    pub fn grid(&self) -> Grid {
        match self.grid_unit {
            GridUnit::Threads => Grid::Threads(Size(self.grid)),
            GridUnit::Threadgroups => Grid::Threadgroups(Size(self.grid)),
        }
    }
}

impl From<Grid> for (GridUnit, [u32; 3]) {
    fn from(grid: Grid) -> Self {
        match grid {
            Grid::Threads(Size(extents)) => (GridUnit::Threads, extents),
            Grid::Threadgroups(Size(extents)) => (GridUnit::Threadgroups, extents),
        }
    }
}

impl From<Access> for Role {
    fn from(access: Access) -> Self {
        match access {
            Access::Read => Role::Read,
            Access::Write => Role::Write,
        }
    }
}

impl From<Role> for Access {
    fn from(role: Role) -> Self {
        match role {
            Role::Read => Access::Read,
            Role::Write => Access::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_keep_their_bits() {
        let values = [
            (ConstantValue::Bool(true), "01"),
            (ConstantValue::I32(-2), "feffffff"),
            (ConstantValue::U32(0x0102_0304), "04030201"),
            (ConstantValue::U16(258), "0201"),
            (ConstantValue::F32(-0.5), "000000bf"),
        ];
        for (value, hex) in values {
            let constant = Constant::new(3, value);
            assert_eq!(to_hex(&constant.bytes.0), hex);
            assert_eq!(constant.value(), Some(value));
        }
    }

    #[test]
    fn bytes_that_are_no_value_of_the_type_are_refused() {
        for (ty, hex) in [
            (ConstantType::Bool, "02"),
            (ConstantType::Bool, ""),
            (ConstantType::Int, "010203"),
            (ConstantType::Ushort, "01020304"),
        ] {
            let bytes = HexBytes(from_hex(hex).unwrap());
            assert_eq!(
                Constant {
                    index: 0,
                    ty,
                    bytes
                }
                .value(),
                None
            );
        }
        for digits in ["0", "0g", "é"] {
            assert_eq!(from_hex(digits), None, "{digits}");
        }
    }
}
