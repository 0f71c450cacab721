"""Which plan of a front to take: each rule a formula that can be read, no hidden weight."""
