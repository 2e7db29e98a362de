"""Fakes, builders and generators for people who test their agents and strategies."""
