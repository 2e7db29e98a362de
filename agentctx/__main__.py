"""``python -m agentctx`` is the command ``agentctx``."""

import sys

try:
    from agentctx.cli import main
except KeyboardInterrupt:
    sys.stderr.write("error: interrupted\n")
    sys.exit(130)

if __name__ == "__main__":
    main()
