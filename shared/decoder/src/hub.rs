//! Downloads models from the Hugging Face hub into the cache that other software uses too.
//!
//! [`Hub::fetch`] returns a folder with `config.json`, the tokenizer and the weights of one commit. What is complete in the
//! cache is used as it is, without asking the network.

use crate::error::{Error, Result};
use crate::source::{is_hub_id, is_name};
use crate::weights::folder::files::{self, Files};
use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const CONFIG: &str = "config.json";
/// Taken along if the repository has them.
const OPTIONAL: [&str; 2] = ["generation_config.json", "tokenizer.json"];

/// The cache locks each file it writes and does not wait for long: threads that want the same model take turns here.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How to reach the hub, and where its files are kept.
#[derive(Clone)]
pub struct Hub {
    /// Address, `https://huggingface.co` unless it is a mirror.
    pub endpoint: String,
    /// Access token for models that need one.
    pub token: Option<String>,
    /// The cache (`HF_HOME/hub`).
    pub cache: PathBuf,
    /// Whether only the cache is used.
    pub offline: bool,
    /// Whether progress is shown on stderr, if that is a terminal.
    pub progress: bool,
}

/// Says whether there is a token, not which.
impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("endpoint", &self.endpoint)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("cache", &self.cache)
            .field("offline", &self.offline)
            .finish_non_exhaustive()
    }
}

impl Hub {
    /// As the environment says: `HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`.
    ///
    /// # Errors
    /// A variable has a value that makes no sense, or there is neither `HF_HOME` nor a home directory.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// As [`Self::from_env`], with the variables from elsewhere.
    ///
    /// # Errors
    /// As [`Self::from_env`].
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let variable = |name: &str| variable(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let setting = |name, found: String, expected: &str| Error::Setting { name, found, expected: expected.into() };

        let home = match variable("HF_HOME") {
            Some(home) => PathBuf::from(home),
            None => std::env::home_dir()
                .map(|home| home.join(".cache/huggingface"))
                .ok_or_else(|| setting("HF_HOME", "absent".into(), "a directory; there is no home directory either"))?,
        };
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into());
        if !(endpoint.starts_with("https://") || endpoint.starts_with("http://")) {
            return Err(setting("HF_ENDPOINT", endpoint, "an address that begins with https://"));
        }
        let stored = || std::fs::read_to_string(home.join("token")).ok().map(|token| token.trim().to_owned());
        let token = variable("HF_TOKEN").or_else(stored).filter(|token| !token.is_empty());
        if token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(setting("HF_TOKEN", "a text that is no token".into(), "one word of letters and digits"));
        }
        let offline = match variable("HF_HUB_OFFLINE").map(|text| text.to_ascii_lowercase()).as_deref() {
            None | Some("0" | "false" | "no" | "off") => false,
            Some("1" | "true" | "yes" | "on") => true,
            Some(other) => return Err(setting("HF_HUB_OFFLINE", other.into(), "0 or 1")),
        };
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        Ok(Self { endpoint, token, cache: home.join("hub"), offline, progress: true })
    }

    /// The folder with the files of model `id` (`owner/name`) at `revision` (a branch, tag or commit; `main` if none).
    ///
    /// # Errors
    /// The id or revision is malformed, the model does not exist, needs a token or has no safetensors, the network fails, or
    /// the model is not in the cache while offline.
    pub fn fetch(&self, id: &str, revision: Option<&str>) -> Result<PathBuf> {
        let revision = revision.unwrap_or("main");
        if !is_hub_id(id) {
            return Err(fault(id, "is not a hub id; an id has the form owner/name".into()));
        }
        if !revision.split('/').all(is_name) {
            return Err(fault(id, format!("{revision:?} is not a revision; give a branch, a tag or a commit")));
        }
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let repository = Cache::new(self.cache.clone()).repo(repo(id, revision));
        match (self.cached(&repository, id, revision), self.offline) {
            (Ok(folder), _) => Ok(folder),
            (Err(missing), true) => Err(fault(
                id,
                format!(
                    "{missing} in {}, and HF_HUB_OFFLINE is set; unset it to download, or pass a folder",
                    self.cache.display()
                ),
            )),
            (Err(_), false) => self.download(&repository, id, revision),
        }
    }

    /// The folder in the cache if all files are there, else what is missing.
    fn cached(&self, repository: &CacheRepo, id: &str, revision: &str) -> Result<PathBuf, String> {
        let root = self.cache.join(repo(id, revision).folder_name());
        // A revision that is a commit already has no entry under refs in caches that other software filled.
        let commit = std::fs::read_to_string(root.join("refs").join(revision)).unwrap_or_else(|_| revision.into());
        let folder = repository.pointer_path(commit.trim());
        if !folder.join(CONFIG).exists() {
            return Err(format!("revision {revision} is not"));
        }
        Files::find(&folder).map_err(|_| format!("the weights of revision {revision} are not complete"))?;
        let known = |name: &&&str| folder.join(name).exists() || absent(&root, commit.trim(), name).exists();
        // Offline, an optional file that nobody asked for yet counts as absent.
        match OPTIONAL.iter().find(|name| !known(name)) {
            Some(name) if !self.offline => Err(format!("{name} is not")),
            _ => Ok(folder),
        }
    }

    fn download(&self, repository: &CacheRepo, id: &str, revision: &str) -> Result<PathBuf> {
        let api = self.api(id)?;
        let reach = |what: &str, error: ApiError| fault(id, self.explain(what, &error));
        let info =
            api.repo(repo(id, revision)).info().map_err(|error| reach(&format!("revision {revision}"), error))?;
        let commit = info.sha;
        if commit.is_empty() || !commit.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(fault(id, format!("{} answered with the commit {commit:?}", self.endpoint)));
        }
        let present: BTreeSet<String> = info.siblings.into_iter().map(|file| file.rfilename).collect();
        // By commit, so that all files belong together even if the branch moves meanwhile.
        let files = api.repo(repo(id, &commit));
        let get = |name: &str| files.get(name).map_err(|error| reach(name, error));

        if !present.contains(CONFIG) {
            return Err(fault(id, format!("has no {CONFIG}; it is not a model that can be loaded")));
        }
        let config = get(CONFIG)?;
        let folder = config.parent().map(Path::to_owned).unwrap_or_default();
        let root = self.cache.join(repo(id, revision).folder_name());
        for name in OPTIONAL {
            if present.contains(name) {
                get(name)?;
            } else {
                mark_absent(&absent(&root, &commit, name))?;
            }
        }
        self.download_weights(&present, &files, id)?;
        repository.create_ref(&commit).map_err(Error::file("write", &root.join("refs").join(revision)))?;
        Ok(folder)
    }

    fn download_weights(&self, present: &BTreeSet<String>, files: &ApiRepo, id: &str) -> Result<()> {
        let get = |name: &str| files.get(name).map_err(|error| fault(id, self.explain(name, &error)));
        if present.contains(files::SINGLE) {
            return get(files::SINGLE).map(drop);
        }
        if !present.contains(files::INDEX) {
            let present: Vec<String> = present.iter().cloned().collect();
            return Err(fault(id, files::nothing_usable(&present)));
        }
        for shard in Files::from_index(&get(files::INDEX)?)?.names {
            if !present.contains(&shard) {
                return Err(fault(id, format!("its index names {shard}, which the repository does not have")));
            }
            get(&shard)?;
        }
        Ok(())
    }

    fn api(&self, id: &str) -> Result<Api> {
        ApiBuilder::from_cache(Cache::new(self.cache.clone()))
            .with_endpoint(self.endpoint.clone())
            .with_token(self.token.clone())
            .with_progress(self.progress)
            .build()
            .map_err(|error| fault(id, error.to_string()))
    }

    /// What went wrong with `what`, and what to do.
    fn explain(&self, what: &str, error: &ApiError) -> String {
        let endpoint = &self.endpoint;
        let text = error.to_string();
        let status = text.rsplit_once("http status: ").and_then(|(_, status)| status.parse::<u16>().ok());
        match (status, &self.token) {
            (Some(404), _) => format!("{what} does not exist on {endpoint}; check the spelling"),
            (Some(401 | 403), None) => format!(
                "{what} does not exist on {endpoint} or needs a token; check the spelling, accept the model's terms there, set HF_TOKEN"
            ),
            (Some(401 | 403), Some(_)) => {
                format!(
                    "{endpoint} refuses {what} to this HF_TOKEN; accept the model's terms there, or renew the token"
                )
            }
            (Some(status), _) => format!("{endpoint} answered {what} with status {status}; try again later"),
            (None, _) => {
                format!("cannot download {what} from {endpoint}: {text}; pass a folder to work without the network")
            }
        }
    }
}

fn repo(id: &str, revision: &str) -> Repo {
    Repo::with_revision(id.into(), RepoType::Model, revision.into())
}

/// The cache's note that a commit has no file of this name.
fn absent(root: &Path, commit: &str, name: &str) -> PathBuf {
    root.join(".no_exist").join(commit).join(name)
}

fn mark_absent(path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    }
    std::fs::write(path, "").map_err(Error::file("write", path))
}

fn fault(id: &str, problem: String) -> Error {
    Error::Hub { id: id.into(), problem }
}
