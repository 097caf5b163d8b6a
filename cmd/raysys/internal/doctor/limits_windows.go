package doctor

// ReadLimits: Windows has no limit on handles that a node could meet.
func ReadLimits() (Limits, error) { return Limits{Files: 1 << 24}, nil }
