"""`python -m paimon_assets`: the command line, where its script is not on the PATH."""

from paimon_assets.cli.main import main

if __name__ == "__main__":
    main()
