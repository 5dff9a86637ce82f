"""What commands share: options from request models, databases, output, remote servers, the caller's name."""
