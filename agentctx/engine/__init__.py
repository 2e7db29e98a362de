"""Run stages: repair, compare, report, guarantee the fit."""
