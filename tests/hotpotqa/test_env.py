"""What the environment shows, rewards and refuses."""

import json
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import agent_r1_envs  # noqa: F401  (registers the id)
from agent_r1_envs.errors import DataError, ResetNeeded
from agent_r1_envs.hotpotqa import HotpotQAEnv
from agent_r1_envs.retrieval import Hit, OkapiRetriever, Passage

CHAIN = "test-0-00001-director-birthplace"


def chain_env(**arguments: Any) -> HotpotQAEnv:
    env = HotpotQAEnv("test", **arguments)
    env.reset(options={"task": CHAIN})
    return env


def write(path: Path, **changes: Any) -> str:
    row = {
        "_id": "q",
        "question": "Who wrote the book of the film Zed?",
        "answer": "Ann Lee",
        "supporting_facts": [["Zed", 0], ["Zod &amp; Co", 0]],
        "context": [
            ["Zed", ["Zed is a film after Zod & Co."]],
            ["Zod &amp; Co", ["Zod & Co is a book by Ann Lee.", "It has pages. " * 200]],
            ["Zit", ["Zit is a rash. ", "Nobody likes Zit.", " A Zit goes away!"]],
        ],
        **changes,
    }
    path.write_text(json.dumps([row]), encoding="utf-8")
    return str(path)


def test_check_env_is_silent() -> None:
    env = gymnasium.make("AgentR1/HotpotQA-v0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)


def test_an_episode_as_it_is_shown() -> None:
    env = HotpotQAEnv("test")
    observation, info = env.reset(options={"task": CHAIN})
    assert observation == (
        "Question: In which town was the director of the film Timid Mountain born?\nSearch, then answer."
    )
    assert info["instruction"] == "In which town was the director of the film Timid Mountain born?"
    assert [tool["function"]["name"] for tool in info["tools"]] == ["search", "answer"]
    assert (info["dataset"], info["split"], info["turn"], info["calls"]) == ("synthetic", "test", 0, [])
    observation, reward, terminated, truncated, info = env.step("search[Timid Mountain]")
    assert observation == (
        "[1] Timid Mountain: Timid Mountain is a 1959 film directed by Nadia Abbott. It is based on the novel Kindly "
        "Sailor.\n"
        "[2] Timid Dream: Timid Dream is a 1981 film directed by Tessa Dalton. It is based on the novel Crimson "
        "Desert.\n"
        "[3] Lonely Mountain: Lonely Mountain is a 1986 film directed by Hugo Osborne. It is based on the novel "
        "Frozen Promise."
    )
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["reward_info"] == {"em": 0.0, "f1": 0.0, "cover_em": 0.0, "support_recall": 0.5}
    assert info["queries"] == ["Timid Mountain"]
    assert [passage["title"] for passage in info["passages"]] == ["Timid Mountain", "Timid Dream", "Lonely Mountain"]
    observation, *_, info = env.step("search[Nadia Abbott]")
    assert observation.startswith("[4] Nadia Abbott: Nadia Abbott is a director born in Marten Hollow in 1951.")
    assert "\n[1] Timid Mountain (seen)\n" in observation
    assert info["reward_info"]["support_recall"] == 1.0
    observation, reward, terminated, truncated, info = env.step("finish[the Marten Hollow.]")
    assert (observation, reward, terminated) == ("Answer: the Marten Hollow.", 1.0, True)
    assert info["success"] is True and info["score"] == 1.0 and info["turn"] == 3
    assert info["calls"][0]["name"] == "answer" and info["calls"][0]["reward"] == 1.0
    with pytest.raises(ResetNeeded):
        env.step("search[x]")


def test_parallel_searches_stand_under_their_commands() -> None:
    env = chain_env()
    observation, *_, info = env.step("search[Timid Mountain]\nsearch[]\nsearch[zzz]\nsearch[Timid Mountain]")
    blocks = observation.split("\n\n")
    assert blocks[0].startswith("search[Timid Mountain]\n[1] Timid Mountain: ")
    assert blocks[1] == "search[]\nError: the query is empty"
    assert blocks[2] == "search[zzz]\nNo passage matches."
    assert blocks[3] == "search[Timid Mountain]\n" + "\n".join(
        f"[{n}] {title} (seen)" for n, title in enumerate(["Timid Mountain", "Timid Dream", "Lonely Mountain"], start=1)
    )
    assert [call["ok"] for call in info["calls"]] == [True, False, True, True]
    assert "invalid_action" not in info


@pytest.mark.parametrize(
    "action",
    [
        "I think it is Marten Hollow",
        "",
        "search[a]\nanswer[b]",
        "\n".join(["search[a]"] * 5),
        "answer[ ]",
        "lookup[Timid]",
        '{"name": "search", "arguments": {"query": 3, "more": 1}}',
    ],
)
def test_an_invalid_action_costs_a_turn_and_changes_nothing(action: str) -> None:
    env = chain_env()
    env.step("search[Timid Mountain]")
    before = env.get_state()
    observation, reward, terminated, _, info = env.step(action)
    after = env.get_state()
    assert info["invalid_action"] and (reward, terminated) == (0.0, False)
    assert (before.pop("turn"), after.pop("turn")) == (1, 2)
    before.pop("observation", None), after.pop("observation", None)
    assert before == after


@pytest.mark.parametrize(("metric", "reward"), [("em", 0.0), ("f1", 0.8), ("cover_em", 1.0)])
def test_the_metric_is_reward_and_score_and_success_is_exact(metric: Any, reward: float) -> None:
    env = chain_env(metric=metric)
    *_, info = env.step("search[Timid Mountain]")
    assert info["score"] == 0.0
    _, got, terminated, _, info = env.step("answer[near Marten Hollow]")
    assert got == pytest.approx(reward) and info["score"] == got and terminated
    assert info["success"] is False
    expected = {"em": 0.0, "f1": pytest.approx(0.8), "cover_em": 1.0, "support_recall": 0.5}
    assert info["reward_info"] == expected


def test_force_first_search_shows_passages_before_the_first_turn() -> None:
    env = HotpotQAEnv("test", force_first_search=True)
    observation, info = env.reset(options={"task": CHAIN})
    assert observation.split("\n")[0].startswith("Question: In which town")
    assert observation.split("\n")[1].startswith("[1] ") and observation.count("\n") == 3
    assert info["queries"] == [info["instruction"]] and len(info["passages"]) == 3
    assert info["turn"] == 0
    assert "(seen)" in env.step("search[Timid Mountain]")[0]


def test_lookup_walks_through_the_sentences(tmp_path: Path) -> None:
    env = HotpotQAEnv("train", data=write(tmp_path / "d.json"), lookup=True)
    _, info = env.reset()
    assert [tool["function"]["name"] for tool in info["tools"]] == ["search", "lookup", "answer"]
    assert env.step("lookup[zit]")[0] == "No shown passage holds it."
    env.step("search[rash]")
    said = [env.step("lookup[zit]")[0] for _ in range(4)]
    assert said == [
        "(Result 1 / 3) [1] Zit: Zit is a rash.",
        "(Result 2 / 3) [1] Zit: Nobody likes Zit.",
        "(Result 3 / 3) [1] Zit: A Zit goes away!",
        "No more results.",
    ]
    assert env.step("lookup[rash]\nlookup[zit]")[0].count("(Result 1") == 2


def test_passages_are_cut_to_the_budgets(tmp_path: Path) -> None:
    path = write(tmp_path / "d.json")
    env = HotpotQAEnv("train", data=path)
    env.reset()
    (line,) = [line for line in env.step("search[Zod]")[0].split("\n") if "Zod & Co:" in line]
    assert line.endswith("…") and len(line) == len("[1] Zod & Co: ") + 1200
    small = HotpotQAEnv("train", data=path, passage_chars=5000, observation_chars=1024)
    small.reset()
    observation, *_ = small.step("search[Zod]")
    assert 900 < len(observation) <= 1024 and "Zed is a film after Zod & Co." in observation
    assert len(small.step("\n".join(f"search[{word}]" for word in ("Zod", "Zed", "Zit", "pages")))[0]) <= 1024


def test_the_first_observation_holds_question_and_forced_search_within_the_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "d.json", question="Zod " * 150)
    observation, _ = HotpotQAEnv("train", data=path, force_first_search=True, observation_chars=1024).reset()
    assert 900 < len(observation) <= 1024 and "[2] " in observation


def test_titles_are_shown_without_entities_and_still_count(tmp_path: Path) -> None:
    env = HotpotQAEnv("train", data=write(tmp_path / "d.json"))
    env.reset()
    observation, *_, info = env.step("search[Zod]\nsearch[Zed]")
    assert "Zod & Co: " in observation and "&amp;" not in observation
    assert info["reward_info"]["support_recall"] == 1.0


def test_corpus_mode_searches_all_the_paragraphs_of_the_split() -> None:
    env = chain_env(retrieval="corpus", top_k=20)
    observation, *_ = env.step("search[Timid]")
    own = {paragraph.title for paragraph in env.task.paragraphs}
    titles = {line.split("] ")[1].split(":")[0] for line in observation.split("\n")}
    assert len(titles) > 5 and titles - own
    other = HotpotQAEnv("test", retrieval="corpus")
    other.reset()
    assert other._corpus is env._corpus  # built once per process


def test_a_corpus_file_is_searched(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"title": "Zed", "text": "Another text."}\n{"title": "X", "text": "zebra"}\n', encoding="utf-8")
    env = HotpotQAEnv("train", data=write(tmp_path / "d.json"), retrieval="corpus", corpus=str(corpus))
    _, info = env.reset()
    assert env.step("search[zebra]")[0] == "[1] X: zebra"
    observation, *_, info = env.step("search[Zed]")
    assert observation == "[2] Zed: Another text."
    assert info["reward_info"]["support_recall"] == 0.5  # by title, since a foreign corpus has other texts


def test_a_live_retriever_is_used_as_it_is_and_recorded() -> None:
    class Fixed:
        def search(self, query: str, k: int) -> list[Hit]:
            return [Hit(Passage("0", "", f"you asked {query} for {k}"), 1.0)]

        def search_batch(self, queries: Any, k: int) -> list[list[Hit]]:
            return [self.search(query, k) for query in queries]

    retriever = Fixed()
    env = gymnasium.make("AgentR1/HotpotQA-v0", retriever=retriever, retrieval="corpus", top_k=7)
    _, info = env.reset(seed=0)
    assert "Fixed" in info["protocol"]["retriever"]
    assert env.step("search[x]")[0] == "[1] you asked x for 7"
    assert env.step("search[x]")[0] == "[1] (seen)"
    assert env.spec is not None and env.spec.kwargs["retriever"] is retriever


def test_a_saved_index_is_searched(tmp_path: Path) -> None:
    OkapiRetriever([Passage("7", "Zed", "A film."), Passage("8", "Y", "z")]).save(tmp_path / "index")
    env = HotpotQAEnv("test", retrieval="corpus", retriever={"path": str(tmp_path / "index")})
    env.reset(seed=1)
    assert env.step("search[zed]")[0] == "[1] Zed: A film."


def test_questions_without_paragraphs_need_a_corpus(tmp_path: Path) -> None:
    row = {
        "prompt": [{"role": "user", "content": "Where is Zed?"}],
        "reward_model": {"ground_truth": "Here", "style": "rule"},
        "extra_info": {"question_id": "q", "answers": ["Here", "There"]},
    }
    data = tmp_path / "d.jsonl"
    data.write_text(json.dumps(row), encoding="utf-8")
    with pytest.raises(ValueError, match="come without paragraphs: pass retrieval='corpus' with corpus= or"):
        HotpotQAEnv("test", data=str(data))
    with pytest.raises(ValueError, match="come without paragraphs: pass corpus= or"):
        HotpotQAEnv("test", data=str(data), retrieval="corpus")
    corpus = tmp_path / "c.json"
    corpus.write_text('[{"title": "Zed", "text": "Zed is there."}]', encoding="utf-8")
    env = HotpotQAEnv("test", data=str(data), retrieval="corpus", corpus=str(corpus))
    _, info = env.reset()
    assert "support_recall" not in info["reward_info"]
    assert env.expert_action() == "search[Where is Zed?]"
    env.step("search[Where is Zed?]")
    assert env.expert_action() == "answer[Here]"
    assert env.step("answer[there]")[1] == 1.0


def test_a_task_without_paragraphs_among_others_finds_nothing(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "d.json"))
    (row,) = json.loads(path.read_text())
    path.write_text(json.dumps([row, {**row, "_id": "r", "context": [], "supporting_facts": []}]))
    env = HotpotQAEnv("train", data=str(path))
    env.reset(options={"task": "r"})
    assert env.step("search[Zed]")[0] == "No passage matches."


@pytest.mark.parametrize("where", [0, 1])
def test_a_task_whose_paragraphs_hold_no_word_finds_nothing(tmp_path: Path, where: int) -> None:
    path = Path(write(tmp_path / "d.json"))
    rows = json.loads(path.read_text())
    rows.insert(where, {**rows[0], "_id": "r", "context": [["!", ["?", "\u2014"]]], "supporting_facts": []})
    path.write_text(json.dumps(rows))
    env = HotpotQAEnv("train", data=str(path), force_first_search=True)
    assert env.reset(options={"task": "r"})[0].endswith("\nNo passage matches.")
    assert env.step("search[!]")[0] == "No passage matches."


def test_a_saved_index_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    OkapiRetriever([Passage("0", "Zed", "A film.")]).save(tmp_path / "index")
    monkeypatch.setenv("AGENT_R1_DATA", str(tmp_path))
    spec: dict[str, Any] = {"path": str(tmp_path / "index")}
    first, again, near, hasty = (
        HotpotQAEnv("test", retrieval="corpus", retriever=form)._corpus
        for form in (spec, dict(spec), {"path": "index"}, {**spec, "verify": False})
    )
    assert first is again is near is not hasty
    OkapiRetriever([Passage("0", "Zod", "A book.")]).save(tmp_path / "index")
    assert HotpotQAEnv("test", retrieval="corpus", retriever=spec)._corpus is not first


def test_odd_text_of_the_data_is_shown_as_valid_unicode(tmp_path: Path) -> None:
    context = [["Zed \ud83d", ["It\x00 was \udc00."]]]
    env = HotpotQAEnv(data=write(tmp_path / "d.json", context=context, question="Zed \ud800?"), force_first_search=True)
    observation, info = env.reset()
    text = json.dumps([observation, info], ensure_ascii=False)
    text.encode("utf-8")
    assert info["passages"] == [{"title": "Zed \ufffd", "text": "It\ufffd was \ufffd."}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "dev"}, "split must be one of train, validation, test; got 'dev'"),
        ({"metric": "bleu"}, "metric must be one of em, f1, cover_em; got 'bleu'"),
        ({"retrieval": "web"}, "retrieval must be 'distractor' or 'corpus'; got 'web'"),
        ({"retriever": "bm26"}, "unknown retriever 'bm26'"),
        ({"retriever": "bm26", "retrieval": "corpus"}, "unknown retriever 'bm26'"),
        ({"retriever": {"url": "http://127.0.0.1:1"}}, "searches a corpus of its own: pass retrieval='corpus'"),
        ({"retriever": {"url": "http://x"}, "retrieval": "corpus", "corpus": "c"}, "leave out corpus="),
        ({"corpus": "c.jsonl"}, "corpus= is searched only with retrieval='corpus'"),
        ({"corpus": "c.jsonl", "retrieval": "corpus"}, "no such file or folder: c.jsonl"),
        ({"data": "nowhere.json"}, "no such file or folder: nowhere.json"),
        ({"data_format": "musique"}, "data_format='musique' needs data="),
        ({"top_k": 0}, "top_k must be an integer of at least 1; got 0"),
        ({"top_k": True}, "top_k must be an integer of at least 1; got True"),
        ({"max_calls": 0}, "max_calls must be an integer of at least 1, got 0"),
        ({"max_calls": 2.5}, "max_calls must be an integer of at least 1, got 2.5"),
        ({"retriever": {"name": "okapi", "b": 7}}, "expected k1 >= 0, 0 <= b <= 1"),
        ({"passage_chars": 3}, "passage_chars must be an integer of at least 40; got 3"),
        ({"observation_chars": 100}, "observation_chars must be an integer of at least 1024; got 100"),
        ({"order": "up"}, "order"),
        ({"shard": (3, 2)}, "shard"),
    ],
)
def test_bad_arguments_raise_at_construction(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HotpotQAEnv(**arguments)


def test_damaged_data_raise_at_construction(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"d\.json, row 0, field answer: expected a string"):
        HotpotQAEnv(data=write(tmp_path / "d.json", answer=1))
    (tmp_path / "c.json").write_text('[{"title": "", "text": "..."}]', encoding="utf-8")
    with pytest.raises(DataError, match=r"c\.json: expected passages with words, found none"):
        HotpotQAEnv(retrieval="corpus", corpus=str(tmp_path / "c.json"))
    with pytest.raises(DataError, match="found bad JSON"):
        (tmp_path / "c.jsonl").write_text("{", encoding="utf-8")
        HotpotQAEnv(retrieval="corpus", corpus=str(tmp_path / "c.jsonl"))


def test_the_protocol_is_json_and_names_what_makes_results_comparable() -> None:
    _, info = gymnasium.make("AgentR1/HotpotQA-v0", top_k=5, metric="f1").reset(seed=0)
    protocol = json.loads(json.dumps(info["protocol"]))
    assert (protocol["top_k"], protocol["metric"], protocol["turns"], protocol["goals"]) == (5, "f1", 5, 4000)
    assert len(protocol["panel_hash"]) == 64


def test_the_documentation_shows_a_real_episode() -> None:
    page = (Path(__file__).parents[2] / "docs" / "hotpotqa.md").read_text(encoding="utf-8")
    shown = page.split("```text\n")[1].split("```")[0]
    env = HotpotQAEnv("test")
    transcript = env.reset(options={"task": CHAIN})[0]
    for line in shown.split("\n"):
        if line.startswith("> "):
            transcript += f"\n{line}\n{env.step(line[2:])[0]}"
    assert transcript + "\n" == shown
