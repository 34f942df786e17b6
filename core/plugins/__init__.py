"""What users add without a change here: functions and configuration files, by path or in installed packages."""
