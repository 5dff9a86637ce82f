"""What a caller may send and what comes back: pydantic models that check, document and serialise, one
module a capability. HTTP, the command line, the form and the agents' tools read by the same models."""
