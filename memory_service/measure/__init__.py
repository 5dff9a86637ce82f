"""What touches hardware or a model's own code: building modules and tracing what one sample costs."""

from memory_service.offline import forbid_network

forbid_network()
