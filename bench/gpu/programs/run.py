"""Runs one of the programs: run.py NAME [--seconds S] [--without | --turns] [--data FILE] [--peer PORT] [--report FILE].

JSON lines go to stdout or to the report: one when the loop begins, one with the steps at the end, or one that says why
the program cannot run here."""

import argparse
import importlib
import sys

from table import BY_NAME


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(BY_NAME))
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--without", action="store_true", help="the same program without its fault")
    parser.add_argument("--turns", action="store_true", help="with its fault and without it in turns: reports what a step saves")
    parser.add_argument("--data", help="a big file on a disk; what is written goes beside it")
    parser.add_argument("--peer", type=int, help="the port of the process that is not traced")
    parser.add_argument("--report", help="where the JSON lines go")
    return parser.parse_args(arguments)


def main(arguments):
    options = options_of(arguments)
    import loop

    run = loop.Run(options)
    program = getattr(importlib.import_module(BY_NAME[options.name].module), options.name)
    try:
        program(run)
    except loop.Skip as why:
        run.report(skip=str(why))
    finally:
        run.end()


if __name__ == "__main__":
    main(sys.argv[1:])
