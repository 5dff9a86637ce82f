"""memory_service: one explicit training plan for this task, this data, this card, these minutes."""

__version__ = "1.0.0"
