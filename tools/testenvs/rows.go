package main

import "github.com/raysys/raysys/grains/process"

// rows are what is tried. The first ones need nothing but gymnasium and numpy: make test tries them, too.
var rows = []row{
	{pkg: "gymnasium", venv: "gymnasium", names: []string{
		"CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1", "FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1",
	}, note: "Blackjack has parts"},
	{pkg: "gymnasium", venv: "gymnasium", names: []string{"Blackjack-v1", "Taxi-v4"}, cfg: process.Config{Flatten: true}},
	{pkg: "gymnasium", venv: "gymnasium", names: []string{"CartPole-v1"}, cfg: process.Config{Own: true}},
	{pkg: "gymnasium", venv: "gymnasium", names: []string{"CartPole-v1"}, cfg: process.Config{Args: map[string]any{"vectorization_mode": "async"}}},
	{pkg: "gymnasium", venv: "gymnasium", names: []string{"Blackjack-v1"}, reset: true,
		refused: "the observations have parts, 0 int64[2], 1 int64[2], 2 int64[2]: Begin returns them; for one array set Config.Flatten, or wrap the environment in gymnasium's FlattenObservation"},
}
