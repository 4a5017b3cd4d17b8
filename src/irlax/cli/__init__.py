"""The command line."""

from irlax.cli.app import app, main

__all__ = ["app", "main"]
