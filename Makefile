.PHONY: check format

check:
	ruff format --check .
	ruff check .
	pyright
	python -m pytest -n 2

format:
	ruff format .
	ruff check --fix .
