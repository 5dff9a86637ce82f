"""What should be run? From a request to one plan: candidates, schedule, timetable, reasons."""
