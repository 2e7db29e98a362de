"""Run stages: repair, compare, report, guarantee the fit; and what stages share: cutting, recaps, reading calls."""
