"""Run stages: repair, compare, report, guarantee the fit.

Also what stages share (cutting, recaps, reading calls), and what a provider's answers teach of the room that there is.
"""
