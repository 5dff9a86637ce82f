"""What does a model cost? Profiles, memory, step time by the roofline model, loaders and boosted trees."""
