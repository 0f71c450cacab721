"""Tables made from measurements: curves of kernels, profiles of stacks, engines and watts."""
