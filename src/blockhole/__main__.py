"""`python -m blockhole`: the command line where the script of the same name is not on the path."""

from blockhole.cli.main import main

if __name__ == "__main__":
    main()
