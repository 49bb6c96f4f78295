"""``python -m nodewright``: the command ``nodewright`` where its script is not installed."""

from nodewright.cli.main import main

if __name__ == "__main__":
    main()
