"""agentctx decides what an LLM agent sees at each step."""
