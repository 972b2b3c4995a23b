"""`python -m kubernetes_simulator`: the command without Labfleet."""

import sys

if __name__ == "__main__":
    from kubernetes_simulator.shell.main import main

    sys.exit(main(sys.argv[1:]))
