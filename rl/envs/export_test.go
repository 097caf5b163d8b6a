package envs

// SetState sets the state of a CartPole or Pendulum, at the begin of an episode.
func SetState(env any, state []float64) {
	switch e := env.(type) {
	case *cartPole:
		e.begin()
		e.state = [4]float64(state)
	case *pendulum:
		e.begin()
		e.theta, e.speed = state[0], state[1]
	}
}

// State is what SetState sets.
func State(env any) []float64 {
	switch e := env.(type) {
	case *cartPole:
		return e.state[:]
	case *pendulum:
		return []float64{e.theta, e.speed}
	}
	return nil
}
