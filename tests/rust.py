"""Rust's bus data, where they lie beside the repository."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "rust_bus"
RAW = FOLDER / "raw"

needs_rust_bus = pytest.mark.skipif(
    not RAW.is_dir(), reason="Rust's original files are not there: ../shared/data/rust_bus/raw"
)
