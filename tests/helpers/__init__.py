"""What tests share: generators of problems, stand-ins for devices, oracles, comparisons."""
