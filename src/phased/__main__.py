"""`python -m phased` is the command `phased`."""

from phased.cli import main

if __name__ == "__main__":
    main()
