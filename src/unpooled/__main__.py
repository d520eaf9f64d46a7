"""The command as ``python -m unpooled``, where no script is on the path."""

from unpooled.cli import main

if __name__ == "__main__":
    main()
