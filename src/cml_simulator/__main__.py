"""`python -m cml_simulator`: the command without Labfleet."""

import sys

from cml_simulator.shell.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
