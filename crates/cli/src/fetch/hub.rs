//! Files of Hugging Face repositories, through the `hf-hub` client's defaults.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use hf_hub::api::sync::{Api, ApiBuilder, ApiRepo};
use serde::Deserialize;
use ureq::RequestBuilder;
use ureq::http::{StatusCode, header};
use ureq::typestate::WithoutBody;

use super::part::{AppendError, PartFile};
use super::progress::Transfer;

/// Where the hub is out of reach, the next source must not wait long for that to be known.
const CONNECT: Duration = Duration::from_secs(5);
const RESPONSE: Duration = Duration::from_secs(20);
/// A connection on which nothing arrives for this long is broken.
const STALL: Duration = Duration::from_secs(30);
/// A download that breaks off is taken up again this often.
const RESUMES: usize = 5;

/// A client of the hub.
#[derive(Debug)]
pub struct Hub {
    api: Api,
}

/// A file in a repository.
#[derive(Debug, Clone)]
pub struct HubFile {
    /// Path within the repository.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 in lower-case hexadecimal; large files have one.
    pub sha256: Option<String>,
}

#[derive(Deserialize)]
struct Listing {
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<LargeFile>,
}

#[derive(Deserialize)]
struct LargeFile {
    sha256: String,
    size: u64,
}

impl Hub {
    /// A client with the environment's settings and, if there is one, its access token.
    ///
    /// # Errors
    /// The TLS setup fails.
    pub fn new() -> Result<Self> {
        let mut builder = ApiBuilder::from_env().with_progress(false);
        if let Some(token) = std::env::var("HF_TOKEN")
            .ok()
            .filter(|token| !token.is_empty())
        {
            builder = builder.with_token(Some(token));
        }
        Ok(Self {
            api: builder.build()?,
        })
    }

    /// The files of a repository, with sizes and checksums.
    ///
    /// # Errors
    /// The hub is out of reach, or refuses: the repository is missing, private or gated.
    pub fn files(&self, repo: &str) -> Result<Vec<HubFile>> {
        let request = self.repository(repo).info_request().query("blobs", "true");
        let mut response = with_timeouts(request)
            .call()
            .map_err(|error| refusal(repo, error))?;
        let listing: Listing = response
            .body_mut()
            .read_json()
            .with_context(|| format!("the hub's answer about {repo} is not understood"))?;
        Ok(listing.siblings.into_iter().filter_map(hub_file).collect())
    }

    /// Appends what `part` lacks of a file.
    ///
    /// # Errors
    /// The hub refuses, or the transfer keeps breaking off.
    pub fn download(
        &self,
        repo: &str,
        file: &str,
        part: &mut PartFile,
        transfer: &Transfer,
    ) -> Result<()> {
        let mut resumes = 0;
        while part.len() < part.size() {
            let before = part.len();
            match self.download_once(repo, file, part, transfer)? {
                None if part.len() > before => {}
                None => bail!("the transfer of {file} ended after {} bytes", part.len()),
                Some(broken) => {
                    resumes += 1;
                    ensure!(resumes <= RESUMES, "{file}: {broken}");
                    transfer.note(&format!("{broken}; continuing at {} bytes", part.len()));
                }
            }
        }
        Ok(())
    }

    /// One request. `Some` is a break after which another request can continue.
    fn download_once(
        &self,
        repo: &str,
        file: &str,
        part: &mut PartFile,
        transfer: &Transfer,
    ) -> Result<Option<AppendError>> {
        let repository = self.repository(repo);
        let request = repository
            .info_request()
            .uri(repository.url(file))
            // A compressed body would make the range and the size meaningless.
            .header(header::ACCEPT_ENCODING, "identity")
            .header(header::RANGE, format!("bytes={}-", part.len()));
        let response = with_timeouts(request)
            .call()
            .map_err(|error| refusal(repo, error))?;
        if part.len() > 0 && response.status() != StatusCode::PARTIAL_CONTENT {
            part.restart()?;
        }
        let mut body = response
            .into_body()
            .into_with_config()
            .limit(u64::MAX)
            .reader();
        match part.append(&mut body, transfer) {
            Ok(()) => Ok(None),
            Err(broken @ AppendError::Source(_)) => Ok(Some(broken)),
            Err(error) => Err(error.into()),
        }
    }

    fn repository(&self, repo: &str) -> ApiRepo {
        self.api.model(repo.to_owned())
    }
}

fn hub_file(sibling: Sibling) -> Option<HubFile> {
    let (size, sha256) = match sibling.lfs {
        Some(lfs) => (lfs.size, Some(lfs.sha256)),
        None => (sibling.size?, None),
    };
    Some(HubFile {
        path: sibling.rfilename,
        size,
        sha256,
    })
}

fn with_timeouts(request: RequestBuilder<WithoutBody>) -> RequestBuilder<WithoutBody> {
    request
        .config()
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(RESPONSE))
        .timeout_per_read(Some(STALL))
        .build()
}

/// The hub answers 401 for a repository that does not exist as well as for a private one.
fn refusal(repo: &str, error: ureq::Error) -> anyhow::Error {
    match error {
        ureq::Error::StatusCode(status @ (401 | 403 | 404)) => anyhow!(
            "the hub shows nothing at {repo} (status {status}): check the spelling, \
             or set HF_TOKEN if the repository is private or gated"
        ),
        ureq::Error::StatusCode(status) => anyhow!("the hub answered status {status} for {repo}"),
        error => anyhow!("the hub cannot be reached ({error})"),
    }
}
