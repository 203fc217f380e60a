"""python3 -m greta --version: which library this is."""

import argparse

import greta


def main():
    parser = argparse.ArgumentParser(prog="python3 -m greta", description=greta.__doc__.split("\n")[0])
    parser.add_argument(
        "--version", action="version", version=f"greta {greta.version()} ({greta.library_path()})"
    )
    parser.parse_args()
    parser.print_help()


if __name__ == "__main__":
    main()
