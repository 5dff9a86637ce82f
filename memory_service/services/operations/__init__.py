"""Running the service: readiness, database maintenance, exports, and a check of the machine."""
