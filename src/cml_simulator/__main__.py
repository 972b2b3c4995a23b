"""`python -m cml_simulator`: the command without Labfleet."""

import gc
import sys

if __name__ == "__main__":
    gc.disable()  # what is imported stays: to look for garbage in it took a fifth of the start
    from cml_simulator.shell.main import main

    gc.freeze()
    gc.enable()
    sys.exit(main(sys.argv[1:]))
