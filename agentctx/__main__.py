"""``python -m agentctx`` is the command ``agentctx``."""

from agentctx.cli.main import main

if __name__ == "__main__":
    main()
