"""Opens catalogues: builds a store when a catalogue is opened for the first time, and maps it from then on.

The embedded catalogue, a few thousand synthetic products, is made when first used and shared by the process.
"""

import contextlib
import glob
import io
import secrets
import shutil
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agent_r1_envs.cache import make_once
from agent_r1_envs.errors import DataError
from agent_r1_envs.files import cache_folder, expand, resolve
from agent_r1_envs.webshop.catalogue.build import Rows, build_store
from agent_r1_envs.webshop.catalogue.catalogue import Catalogue
from agent_r1_envs.webshop.catalogue.files import ByAsin, Sources, find_sources
from agent_r1_envs.webshop.catalogue.nouns import find_tagger
from agent_r1_envs.webshop.catalogue.store import MANIFEST, VERSION, Facts, content_hash, open_store, write_store
from agent_r1_envs.webshop.generator.generator import PANEL, Item, generate

DEFAULT_SEED: Final = 233
"""The seed of hidden prices and price caps, unless another one is given."""
_Store = tuple[dict[str, npt.NDArray[Any]], Facts]


def open_catalogue(
    data: str | Path | Mapping[str, str] | None = None,
    *,
    catalogue_seed: int = DEFAULT_SEED,
    nouns: str | Path = "auto",
    strict: bool = True,
    limit: int | None = None,
    store: str | Path | None = None,
) -> Catalogue:
    """Open a catalogue, once per process.

    Args:
        data: A folder with the official files, or the path of each (see
            :func:`~agent_r1_envs.webshop.catalogue.files.find_sources`); or a store's own folder; None for the embedded
            catalogue. A relative path that is not found from here is looked up in ``AGENT_R1_DATA``.
        catalogue_seed: Decides hidden prices and price caps. They are those of the original after
            ``random.seed(catalogue_seed)``.
        nouns: How the nouns of titles are found: ``auto`` is spaCy if it is installed, else the fallback; ``spacy``;
            ``fallback``; or the path of a JSON object of lists by asin.
        strict: Whether a damaged row is an error; otherwise it is left out and named in ``Catalogue.skipped``.
        limit: How many rows of products to read; None for all.
        store: The folder to build the store in; ``"memory"`` builds it in memory and keeps nothing; None is a folder
            below ``AGENT_R1_CACHE``, by default the user's cache.

    Raises:
        DataError: A file is missing or damaged.
        ImportError: ``nouns="spacy"`` and spaCy is not installed.
        ValueError: An argument is unknown.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    key, arrays, facts = _open(data, str(nouns), strict, limit, store)
    identity = ("webshop catalogue", key, catalogue_seed)
    return make_once(identity, lambda: Catalogue(arrays, facts, catalogue_seed))


def build_in_memory(rows: Rows, **options: Any) -> _Store:
    """Build a store that is only in memory; see :func:`~agent_r1_envs.webshop.catalogue.build.build_store`."""
    products = io.BytesIO()
    arrays, facts = build_store(rows, products, **options)
    arrays["products_blob"] = np.frombuffer(products.getvalue(), dtype=np.uint8)
    return arrays, {**facts, "content_hash": content_hash(arrays)}


def build_in_folder(rows: Rows, folder: Path, *, more_facts: Facts, **options: Any) -> None:
    """Build a store in a folder, which appears in one step when it is complete; one that exists is replaced.

    Args:
        rows: What from.
        folder: Where.
        more_facts: JSON data for the manifest.
        options: See :func:`~agent_r1_envs.webshop.catalogue.build.build_store`.
    """
    scratch = folder.parent / f"{folder.name}.{secrets.token_hex(8)}.tmp"
    scratch.mkdir(parents=True)  # not by tempfile, whose folders no other user can open
    try:
        with (scratch / "products_blob.bin").open("wb") as products:
            arrays, facts = build_store(rows, products, **options)
        write_store(scratch, arrays, {**facts, **more_facts})
        if folder.exists():
            shutil.rmtree(folder)
        scratch.replace(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _open(
    data: str | Path | Mapping[str, str] | None, nouns: str, strict: bool, limit: int | None, store: str | Path | None
) -> tuple[str, dict[str, npt.NDArray[Any]], Facts]:
    if data is None:
        if nouns not in ("auto", "given") or limit is not None or store is not None:
            raise ValueError("nouns, limit and store need data=, a path; the embedded catalogue is made in memory")
        return "embedded", *make_once("webshop embedded store", embedded_store)
    if not isinstance(data, Mapping):
        folder = resolve(data)
        if (folder / MANIFEST).is_file():
            if nouns != "auto" or limit is not None or store is not None:
                raise ValueError(f"nouns, limit and store decide how a store is built; {data} is one already")
            key = f"{folder.resolve()} {(folder / MANIFEST).stat().st_mtime_ns}"
            return key, *make_once(("webshop store", key), lambda: open_store(folder))
    choice = nouns if nouns in ("auto", "spacy", "fallback") else None
    sources = find_sources(data, None if choice else nouns)
    model = find_tagger() if choice in ("auto", "spacy") else None
    identity = f"{VERSION} {sources.signature()} {choice} {model} {strict} {limit}"
    key = sha256(identity.encode()).hexdigest()
    options = {"nouns": choice or "auto", "strict": strict, "limit": limit}
    if store == "memory":
        build = lambda: build_in_memory(Rows.of(sources), **options)  # noqa: E731
    else:
        folder = cache_folder() / f"webshop-{key[:32]}" if store is None else expand(store)
        build = lambda: _built(sources, folder, key, options)  # noqa: E731
        key = f"{key} {folder}"
    return key, *make_once(("webshop store", key), build)


def _built(sources: Sources, folder: Path, key: str, options: dict[str, Any]) -> _Store:
    """Open the store in a folder, after building it if it is not there yet or of other files."""
    store = _current(folder, key)  # no lock to open one, so that a folder that may only be read will do
    if store is not None:
        return store
    if folder.exists() and not (folder / MANIFEST).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: expected a store or an empty folder; give store= a folder of its own")
    try:
        with _locked(folder):
            store = _current(folder, key)
            if store is None:
                facts = {"key": key, "sources": sources.hashes()}
                build_in_folder(Rows.of(sources), folder, more_facts=facts, **options)
                store = open_store(folder)
            return store
    except OSError as error:
        raise DataError(
            f"{folder}: cannot build a store here: {error}; store= can name another folder, or be 'memory'"
        ) from error


def _current(folder: Path, key: str) -> _Store | None:
    """Open the store in a folder if it is whole and has this key."""
    try:
        arrays, facts = open_store(folder)
    except DataError:
        return None
    return (arrays, facts) if facts.get("key") == key else None


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time build a store; the others find it when they get here."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as file:
        try:
            import fcntl
        except ImportError:  # not on Windows: two builders do the work twice, and the last one stays
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        for left in folder.parent.glob(f"{glob.escape(folder.name)}.*.tmp"):
            shutil.rmtree(left, ignore_errors=True)  # by a builder that was killed: there is no other one now
        yield


def embedded_store() -> tuple[dict[str, npt.NDArray[Any]], Facts]:
    """Build the embedded catalogue's store in memory."""
    products, seed = PANEL
    return build_in_memory(rows_of(generate(products, seed=seed), dataset="synthetic"))


def rows_of(items: list[Item], *, dataset: str) -> Rows:
    """Return generated products as what a store is built from."""
    return Rows(
        Path("(generated)"),
        enumerate(item.row for item in items),
        ByAsin(None, {item.asin: item.attributes for item in items}),
        ByAsin(None, {item.asin: item.human for item in items}),
        ByAsin(None, {item.asin: item.nouns for item in items}),
        dataset,
    )
