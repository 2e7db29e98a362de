"""What stages that say the same in fewer tokens are made of: functions of a text."""
