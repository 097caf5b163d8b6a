package envs

import "github.com/raysys/raysys/rl"

const rows, columns = 10, 5

type catch struct {
	episodes
	x, y, paddle int
	obs          [rows * columns]float32
}

// Catch is bsuite's: a ball falls from a random column of the first row, a row a step, and the paddle in the last row, which begins in the middle, moves
// left (0), stays (1) or moves right (2). An observation is the field, row by row, with 1 where the ball and the paddle are. The last of 9 steps has reward
// 1 where the paddle is below the ball, else -1. Random actions catch one ball of five: -0.6.
func Catch(seed uint64) rl.Env[int] {
	return &catch{episodes: newEpisodes(seed, rl.Spec{Name: "Catch", Obs: []int{rows, columns}, Actions: 3, MaxSteps: rows - 1, Random: -0.6})}
}

func (c *catch) Reset() []float32 {
	c.begin()
	c.x, c.y, c.paddle = c.rng.IntN(columns), 0, columns/2
	return c.look()
}

func (c *catch) Step(action int) rl.Step {
	take(&c.episodes, action)
	c.paddle = max(0, min(columns-1, c.paddle+action-1))
	c.y++
	switch {
	case c.y < rows-1:
		return c.end(c.look(), 0, false)
	case c.x == c.paddle:
		return c.end(c.look(), 1, true)
	}
	return c.end(c.look(), -1, true)
}

func (c *catch) look() []float32 {
	clear(c.obs[:])
	c.obs[c.y*columns+c.x] = 1
	c.obs[(rows-1)*columns+c.paddle] = 1
	return c.obs[:]
}
