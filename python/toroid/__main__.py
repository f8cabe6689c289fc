"""python -m toroid: the command line. The process becomes the program that lies beside this file."""

import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(__file__), "toroid")
    if not os.path.exists(program):
        sys.exit(f"EnvironmentError: {program} is missing; build the target toroid, or install the package again")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
