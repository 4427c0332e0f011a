"""The `tenure` command."""


def main() -> None:
    """Run the command line."""
