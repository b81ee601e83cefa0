.PHONY: check docs format pictures

check:
	ruff format --check .
	ruff check .
	codespell src tests docs examples benchmarks *.md
	pyright
	python -m pytest -n 2 --dist worksteal

format:
	ruff format .
	ruff check --fix .

docs:
	NO_MKDOCS_2_WARNING=1 mkdocs build --quiet --strict

pictures:
	python docs/pictures.py
