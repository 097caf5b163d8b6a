package rl

// AgeCheckpoint has the run of a folder have taken so many seconds, and returns what its checkpoint had and the baseline that is kept.
func AgeCheckpoint(dir string, seconds float64) (was float64, random []float64, err error) {
	p := Plan{Dir: dir}
	c, err := loadCheckpoint(p.file())
	if err != nil {
		return 0, nil, err
	}
	was, c.Seconds = c.Seconds, seconds
	return was, c.Random, c.save(p.file())
}
