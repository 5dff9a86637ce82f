"""What a decoder costs, by its published shape: trained whole, by LoRA or QLoRA."""
