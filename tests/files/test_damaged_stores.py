"""Every kind of saved data against files that were damaged at every place: the error names the file."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_r1_envs.alfworld.official.store import open_store as open_games
from agent_r1_envs.alfworld.tasks import StoredTask
from agent_r1_envs.cache import clear_cache
from agent_r1_envs.errors import DataError
from agent_r1_envs.paper_search import Corpus, load_corpus
from agent_r1_envs.retrieval import OkapiRetriever, Passage
from agent_r1_envs.webshop.catalogue.build import Rows
from agent_r1_envs.webshop.catalogue.files import find_sources
from agent_r1_envs.webshop.catalogue.opening import build_in_folder
from agent_r1_envs.webshop.catalogue.store import open_store
from tests.helpers.papers import small_backend
from tests.helpers.webshop_files import product, write

Open = Callable[[Path], object]


def make_index(folder: Path) -> list[Open]:
    OkapiRetriever([Passage("a", "Lorin", "A town."), Passage("b", "", "A river.")]).save(folder)
    return [OkapiRetriever.open, lambda place: OkapiRetriever.open(place, verify=False)]


def make_corpus(folder: Path) -> list[Open]:
    small_backend().corpus.save(folder)
    return [load_corpus, lambda place: Corpus.open(place, verify=False)]


def make_shop(folder: Path) -> list[Open]:
    options = {"nouns": "fallback", "strict": True, "limit": None}
    sources = find_sources(write(folder.with_name("files"), [product()]), None)
    build_in_folder(Rows.of(sources), folder, more_facts={}, **options)
    return [open_store, lambda place: open_store(place, verify=True)]


@pytest.mark.parametrize("make", [make_index, make_corpus, make_shop])
def test_a_damaged_store_names_its_file(tmp_path: Path, make: Callable[[Path], list[Open]]) -> None:
    ways = make(tmp_path / "store")
    rng = random.Random(0)
    files = sorted(path for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert len(files) > 6
    for file in files:
        whole = file.read_bytes()
        damages = [
            b"",
            whole[:-3],
            whole[: len(whole) // 2],
            b"\0" * len(whole),
            rng.randbytes(len(whole)),
            b"[]",
            b"\xff",
        ]
        for _ in range(4):  # most of a small array is its header
            place = rng.randrange(min(len(whole), 140) or 1)
            damages.append(whole[:place] + rng.randbytes(1) + whole[place + 1 :])
        for damaged in damages:
            file.write_bytes(damaged)
            for way in ways:
                try:
                    way(tmp_path / "store")
                except DataError as error:
                    assert str(tmp_path) in str(error) and "\n" not in str(error)
        file.write_bytes(whole)
        for way in ways:
            way(tmp_path / "store")


@pytest.mark.parametrize("make", [make_index, make_corpus])
@pytest.mark.parametrize("damage", ["header", "kind", "size"])
def test_an_array_that_is_none_any_more_is_named_without_reading_it_all(
    tmp_path: Path, make: Callable[[Path], list[Open]], damage: str
) -> None:
    _, quick = make(tmp_path / "store")
    [file] = (
        (tmp_path / "store").glob("*starts-*.npy")
        if make is make_index
        else (tmp_path / "store").glob("ref*starts-*.npy")
    )
    whole = file.read_bytes()
    other = {
        "header": b"XXXXXX" + whole[6:],
        "kind": whole.replace(b"<i8", b"<f8"),
        "size": whole.replace(b"'shape': (", b"'shape': (0", 1).replace(b" \n", b"\n", 1),
    }[damage]
    assert other != whole and len(other) == len(whole)
    file.write_bytes(other)
    with pytest.raises(DataError, match=rf"{file.name}: .* is damaged: "):
        quick(tmp_path / "store")


def test_damaged_games_are_named(tmp_path: Path) -> None:
    from agent_r1_envs.alfworld.embedded import load_panel
    from agent_r1_envs.alfworld.official.store import Record, StoreWriter

    clear_cache()
    writer = StoreWriter()
    for task in load_panel("valid_seen", games=2):
        writer.add(task.id, Record(task.load().game))
    file = tmp_path / "x.games"
    writer.save(file, [1])
    whole, rng = file.read_bytes(), random.Random(0)
    for _ in range(100):
        place = rng.randrange(len(whole))
        file.write_bytes(whole[:place] + rng.randbytes(1) + whole[place + 1 :])
        try:
            store = open_games(file)
            for row in store.rows:
                StoredTask(store, row).load()
        except DataError as error:
            assert str(file) in str(error) and "\n" not in str(error)
