import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agent_r1_envs.cache import clear_cache
from agent_r1_envs.errors import DataError
from agent_r1_envs.webshop.catalogue.catalogue import Catalogue
from agent_r1_envs.webshop.catalogue.opening import open_catalogue
from agent_r1_envs.webshop.catalogue.store import MANIFEST, content_hash, open_store
from tests.helpers.webshop_files import product, write, write_generated


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_generated(tmp_path_factory.mktemp("data"), 60)


def everything(catalogue: Catalogue) -> list[object]:
    places = range(len(catalogue))
    return [
        [(catalogue.product(place), catalogue.nouns(place), catalogue.hidden_price(place)) for place in places],
        [list(catalogue.goals(kind)) for kind in ("human", "synthetic")],
        [catalogue.search(query.split()) for query in ("red table lamp", "free", "", "zzz")],
        catalogue.protocol(),
    ]


def test_a_stored_catalogue_is_the_one_in_memory(data: str, tmp_path: Path) -> None:
    in_memory = open_catalogue(data, store="memory", nouns="fallback")
    stored = open_catalogue(data, store=tmp_path / "store", nouns="fallback")
    clear_cache()
    opened = open_catalogue(tmp_path / "store")
    assert everything(in_memory) == everything(stored) == everything(opened)
    arrays, facts = open_store(tmp_path / "store", verify=True)
    assert content_hash(arrays) == facts["content_hash"] == in_memory.content_hash
    assert all(len(digest) == 64 for digest in facts["sources"].values())
    for late in ({"nouns": "fallback"}, {"limit": 5}, {"store": tmp_path / "other"}):
        with pytest.raises(ValueError, match="is one already"):
            open_catalogue(tmp_path / "store", **late)


def test_a_catalogue_is_opened_once_a_process(data: str) -> None:
    assert open_catalogue(data, store="memory") is open_catalogue(data, store="memory")
    assert open_catalogue(data, store="memory") is not open_catalogue(data, store="memory", catalogue_seed=1)


def test_a_change_of_the_files_or_of_what_was_asked_builds_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_R1_CACHE", str(tmp_path / "cache"))
    folder = write(tmp_path / "data", [product(), product("B000000002")])
    assert len(open_catalogue(folder, nouns="fallback")) == 2
    assert len(open_catalogue(folder, nouns="fallback", limit=1)) == 1
    write(tmp_path / "data", [product("B000000003")])
    assert open_catalogue(folder, nouns="fallback").product(0).asin == "B000000003"
    assert len(list((tmp_path / "cache").glob("webshop-*/"))) == 3
    given = tmp_path / "store"
    assert len(open_catalogue(folder, nouns="fallback", store=given)) == 1
    write(tmp_path / "data", [product("B000000004"), product("B000000005")])
    assert len(open_catalogue(folder, nouns="fallback", store=given)) == 2  # a folder of one's own is replaced


def test_damage_is_found_and_named(data: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    open_catalogue(data, store=store, nouns="fallback")
    clear_cache()
    blob = store / "products_blob.bin"
    content = blob.read_bytes()
    blob.write_bytes(b"X" + content[1:])
    with pytest.raises(DataError, match="products_blob.bin.*SHA-256"):
        open_store(store, verify=True)
    blob.write_bytes(content[:-1])
    with pytest.raises(DataError, match=f"products_blob.bin.*expected {len(content)} bytes, found {len(content) - 1}"):
        open_catalogue(store)
    blob.unlink()
    with pytest.raises(DataError, match="products_blob.bin"):
        open_catalogue(store)
    assert len(open_catalogue(data, store=store, nouns="fallback")) == 60  # with the data at hand it is built again
    for change, complaint in (({"version": 0}, "version"), ({"format": "x"}, "format")):
        manifest = json.loads((store / MANIFEST).read_text())
        (tmp_path / "bad").mkdir(exist_ok=True)
        (tmp_path / "bad" / MANIFEST).write_text(json.dumps(manifest | change))
        with pytest.raises(DataError, match=complaint):
            open_catalogue(tmp_path / "bad")


def test_a_folder_with_other_things_is_not_touched(data: str, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(DataError, match="expected a store or an empty folder"):
        open_catalogue(data, store=tmp_path, nouns="fallback")
    assert (tmp_path / "thesis.txt").exists()


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", [product(), product("B000000002", pricing="abc")])
    with pytest.raises(DataError):
        open_catalogue(folder, store=tmp_path / "stores" / "mine", nouns="fallback")
    assert [path.name for path in (tmp_path / "stores").iterdir()] == ["mine.lock"]


def test_processes_that_start_together_build_one_store(data: str, tmp_path: Path) -> None:
    code = (
        "import sys; from agent_r1_envs.webshop.catalogue.opening import open_catalogue; "
        "print(len(open_catalogue(sys.argv[1], store=sys.argv[2], nouns='fallback')))"
    )
    command = [sys.executable, "-c", code, data, str(tmp_path / "store")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0].strip() for process in running] == ["60", "60"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "store.lock"]
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "store").stat().st_mode == (tmp_path / "plain").stat().st_mode  # other users may read it


def test_a_builder_that_was_killed_leaves_no_store_and_no_rubbish(data: str, tmp_path: Path) -> None:
    code = (
        "import os, sys; import agent_r1_envs.webshop.catalogue.opening as loading; "
        "loading.write_store = lambda *_: os.kill(os.getpid(), 9); "
        "loading.open_catalogue(sys.argv[1], store=sys.argv[2], nouns='fallback')"
    )
    store = tmp_path / "a [store]"
    killed = subprocess.run([sys.executable, "-c", code, data, str(store)], timeout=60, check=False)
    assert killed.returncode == -9 and not store.exists() and list(tmp_path.glob("*.tmp"))
    assert len(open_catalogue(data, store=store, nouns="fallback")) == 60
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a [store]", "a [store].lock"]


def test_a_store_that_is_there_is_opened_where_nothing_can_be_written(data: str, tmp_path: Path) -> None:
    built = open_catalogue(data, store=tmp_path / "store", nouns="fallback")
    clear_cache()
    (tmp_path / "store.lock").unlink()
    (tmp_path / "store.lock").mkdir()  # which keeps out root too, who may write everywhere else
    assert open_catalogue(data, store=tmp_path / "store", nouns="fallback").content_hash == built.content_hash
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "store", tmp_path / "other"):
        (tmp_path / "other.lock").mkdir(exist_ok=True)
        with pytest.raises(DataError, match=f"{place}: cannot build a store here.*'memory'"):
            open_catalogue(data, store=place, nouns="fallback")
    with pytest.raises(DataError, match="file: expected a store or an empty folder"):
        open_catalogue(data, store=tmp_path / "file", nouns="fallback")


def test_a_full_disk_leaves_nothing(data: str, tmp_path: Path) -> None:
    code = (
        "import resource, sys; from agent_r1_envs.webshop.catalogue.opening import open_catalogue; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2); "
        "open_catalogue(sys.argv[1], store=sys.argv[2], nouns='fallback')"
    )
    store = tmp_path / "store"
    for most in ("0", "5000"):  # bytes a file
        command = [sys.executable, "-c", code, data, str(store), most]
        full = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert f"DataError: {store}: cannot build a store here: [Errno" in full.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["store.lock"]


def test_every_damage_of_a_manifest_is_found(data: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    open_catalogue(data, store=store, nouns="fallback")
    manifest = json.loads((store / MANIFEST).read_text())
    arrays = manifest["arrays"]
    fields = ("dataset", "products", "documents", "labelled", "noun_source", "noun_model", "skipped", "arrays")
    damaged = [{name: value for name, value in manifest.items() if name != field} for field in fields]
    damaged += [{**manifest, field: value} for field in fields for value in (None, 7.5)]
    damaged += [{**manifest, "arrays": {name: entry for name, entry in arrays.items() if name != "prices"}}]
    damaged += [{**manifest, "arrays": {**arrays, "prices": entry}} for entry in (None, {}, {"dtype": "x"})]
    for facts in damaged:
        clear_cache()
        (store / MANIFEST).write_text(json.dumps(facts))
        with pytest.raises(DataError, match="manifest.json: the store is damaged: field"):
            open_catalogue(store)
    for text in ("", "[", "[]", "7", '{"format": "agent-r1-webshop"', "\udcff"):
        (store / MANIFEST).write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(DataError, match="manifest.json: the store is damaged"):
            open_catalogue(store)
    assert len(open_catalogue(data, store=store, nouns="fallback")) == 60


def test_products_by_place_and_id(data: str) -> None:
    catalogue = open_catalogue(data, store="memory", nouns="fallback")
    assert all(catalogue.position_of(catalogue.product(place).asin) == place for place in range(len(catalogue)))
    with pytest.raises(KeyError, match="nothing"):
        catalogue.product("nothing")
    with pytest.raises(IndexError, match="0 to 59"):
        catalogue.product(60)
    with pytest.raises(IndexError):
        catalogue.product(-1)
    everyone = [catalogue.product(place) for place in range(60)]
    for category in ("garden", "beauty", "nothing"):
        assert catalogue.by_category(category) == [p for p, one in enumerate(everyone) if one.category == category]
    query = everyone[5].query
    assert catalogue.by_query(query) == [p for p, one in enumerate(everyone) if one.query == query]
    assert np.all(np.diff(catalogue.by_query(query)) > 0)
