//! Files built field by field, so that any field can be wrong.

/// What a field of the header is, for the error expected when the file ends inside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field {
    Magic,
    Fixed,
    Text,
    Elements,
    Padding,
}

/// A metadata entry. `None` stands for the right length.
#[derive(Clone)]
pub struct RawEntry {
    pub key: Vec<u8>,
    pub key_len: Option<u64>,
    pub ty: u32,
    pub value: Vec<u8>,
}

/// A tensor entry. `None` stands for the right length or count.
#[derive(Clone)]
pub struct RawTensor {
    pub name: Vec<u8>,
    pub name_len: Option<u64>,
    pub dimension_count: Option<u32>,
    pub dimensions: Vec<u64>,
    pub ty: u32,
    pub offset: u64,
}

/// A file. `None` stands for the right count.
#[derive(Clone)]
pub struct RawFile {
    pub magic: [u8; 4],
    pub version: u32,
    pub tensor_count: Option<u64>,
    pub entry_count: Option<u64>,
    pub entries: Vec<RawEntry>,
    pub tensors: Vec<RawTensor>,
    pub data_len: usize,
}

pub const U8: u32 = 0;
pub const U32: u32 = 4;
pub const I32: u32 = 5;
pub const F32: u32 = 6;
pub const BOOL: u32 = 7;
pub const STRING: u32 = 8;
pub const ARRAY: u32 = 9;
pub const U64: u32 = 10;

/// Type code of each scalar and its size in bytes.
pub const SCALARS: [(u32, usize); 11] = [
    (U8, 1),
    (1, 1),
    (2, 2),
    (3, 2),
    (U32, 4),
    (I32, 4),
    (F32, 4),
    (BOOL, 1),
    (U64, 8),
    (11, 8),
    (12, 8),
];

pub fn string(text: &[u8]) -> Vec<u8> {
    string_of_len(text.len() as u64, text)
}

pub fn string_of_len(len: u64, text: &[u8]) -> Vec<u8> {
    [&len.to_le_bytes(), text].concat()
}

pub fn array(element: u32, len: u64, elements: &[u8]) -> Vec<u8> {
    [&element.to_le_bytes()[..], &len.to_le_bytes(), elements].concat()
}

pub fn entry(key: &str, ty: u32, value: impl Into<Vec<u8>>) -> RawEntry {
    RawEntry {
        key: key.into(),
        key_len: None,
        ty,
        value: value.into(),
    }
}

pub fn tensor(name: &str, dimensions: &[u64], ty: u32, offset: u64) -> RawTensor {
    RawTensor {
        name: name.into(),
        name_len: None,
        dimension_count: None,
        dimensions: dimensions.to_vec(),
        ty,
        offset,
    }
}

impl RawFile {
    /// A valid file with every kind of metadata value and four tensors.
    pub fn valid() -> Self {
        let mut entries: Vec<RawEntry> = SCALARS
            .iter()
            .map(|&(ty, size)| entry(&format!("scalar.{ty}"), ty, vec![0; size]))
            .collect();
        entries.extend(
            SCALARS
                .iter()
                .map(|&(ty, size)| (format!("array.{ty}"), array(ty, 3, &vec![0; 3 * size])))
                .map(|(key, value)| entry(&key, ARRAY, value)),
        );
        let strings = [string(b"one"), string("zwölf".as_bytes())].concat();
        let inner = array(U32, 1, &[1, 0, 0, 0]);
        entries.extend([
            entry("string", STRING, string(b"text")),
            entry("strings", ARRAY, array(STRING, 2, &strings)),
            entry("nested", ARRAY, array(ARRAY, 1, &inner)),
        ]);
        RawFile {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            entry_count: None,
            entries,
            tensors: vec![
                tensor("vector", &[8], 0, 0),
                tensor("matrix", &[32, 2], 2, 32),
                tensor("cube", &[4, 2, 2], 1, 96),
                tensor("k-quant", &[256, 1, 1, 1], 12, 128),
            ],
            data_len: 128 + 144,
        }
    }

    pub fn with_entry(mut self, entry: RawEntry) -> Self {
        self.entries.push(entry);
        self
    }

    pub fn with_tensor(mut self, tensor: RawTensor) -> Self {
        self.tensors.push(tensor);
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.encode().0
    }

    /// The file, and each field of the header with its first byte, the padding last.
    pub fn encode(&self) -> (Vec<u8>, Vec<(usize, Field)>) {
        let mut out = Vec::new();
        let mut fields = Vec::new();
        let mut put = |field, bytes: &[u8]| {
            fields.push((out.len(), field));
            out.extend_from_slice(bytes);
        };
        let count = |given: Option<u64>, len: usize| given.unwrap_or(len as u64).to_le_bytes();
        put(Field::Magic, &self.magic);
        put(Field::Fixed, &self.version.to_le_bytes());
        put(Field::Fixed, &count(self.tensor_count, self.tensors.len()));
        put(Field::Fixed, &count(self.entry_count, self.entries.len()));
        for entry in &self.entries {
            put(Field::Fixed, &count(entry.key_len, entry.key.len()));
            put(Field::Text, &entry.key);
            put(Field::Fixed, &entry.ty.to_le_bytes());
            match entry.ty {
                STRING => {
                    put(Field::Fixed, &entry.value[..8]);
                    put(Field::Text, &entry.value[8..]);
                }
                ARRAY if entry.value.len() >= 12 => {
                    put(Field::Fixed, &entry.value[..4]);
                    put(Field::Fixed, &entry.value[4..12]);
                    put(Field::Elements, &entry.value[12..]);
                }
                _ => put(Field::Fixed, &entry.value),
            }
        }
        for tensor in &self.tensors {
            put(Field::Fixed, &count(tensor.name_len, tensor.name.len()));
            put(Field::Text, &tensor.name);
            let dimensions = tensor
                .dimension_count
                .unwrap_or(tensor.dimensions.len() as u32);
            put(Field::Fixed, &dimensions.to_le_bytes());
            for dimension in &tensor.dimensions {
                put(Field::Fixed, &dimension.to_le_bytes());
            }
            put(Field::Fixed, &tensor.ty.to_le_bytes());
            put(Field::Fixed, &tensor.offset.to_le_bytes());
        }
        fields.push((out.len(), Field::Padding));
        let data_start = out.len().next_multiple_of(32);
        out.resize(data_start + self.data_len, 0);
        (out, fields)
    }
}
