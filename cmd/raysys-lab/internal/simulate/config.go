package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Config is what is played.
type Config struct {
	Nodes      int // workers
	CPUs       int // of each
	Submitters int // workers that have tasks of their own, from the first on; 0: one driver, without a CPU, has all

	GPUEvery int // each so manieth worker has GPUs; 0: none has
	GPUs     int // of each of those

	Tasks    int
	Mean     time.Duration // of a task
	Fixed    bool          // all tasks take Mean; else the times are exponential
	Rate     float64       // tasks a second in all; 0: they are all submitted at the start
	GPUShare float64       // of the tasks, which ask for one GPU and no CPU

	Deaths int           // workers without tasks of their own that die, evenly over the ideal time of the work
	Detect time.Duration // from a death until its peers send the lost tasks elsewhere

	Latency time.Duration // of a message
	Report  time.Duration // how often a node tells all its load, when it has changed; 0: as nodes do
	Seed    uint64
}

const (
	maxNodes = 100_000
	maxTasks = 1<<31 - 1
	maxPairs = 1 << 24 // of a submitter and a node that it knows
	maxCPUs  = 1 << 26 // in all, 4 bytes each
	maxGPUs  = 1 << 20 // in all, some 200 bytes each

	// maxTime bounds the least time of a run: a tenth of what nanoseconds can count, since a run takes longer.
	maxTime = 29 * 365 * 24 * time.Hour
)

// Check returns an error for a Config that cannot be played.
func (c *Config) Check() error {
	positive := func(d time.Duration) bool { return d > 0 && d <= 24*time.Hour }
	// What a whole number may be, and what it is called.
	for _, n := range []struct {
		name         string
		is, from, to int
		why          string
	}{
		{"nodes", c.Nodes, 1, maxNodes, ""},
		{"CPUs of a node", c.CPUs, 1, 1 << 16, ""},
		{"tasks", c.Tasks, 1, maxTasks, ""},
		{"submitters", c.Submitters, 0, c.Nodes, ", since they are nodes"},
		{"GPUs of a node", c.GPUs, 0, 1 << 10, ""},
		{"nodes of which one has GPUs", c.GPUEvery, 0, maxNodes, ""},
		{"deaths", c.Deaths, 0, c.mortal(), ", since submitters stay and some node has to, with a GPU where tasks ask for one"},
	} {
		if n.is < n.from || n.is > n.to {
			return fmt.Errorf("%d %s: it must be %d to %d%s", n.is, n.name, n.from, n.to, n.why)
		}
	}
	switch {
	case !positive(c.Mean), !positive(c.Latency), c.Report != 0 && !positive(c.Report), !positive(c.Detect):
		return fmt.Errorf("times must be above 0 and at most 24h: a task %v, latency %v, report %v, detection %v", c.Mean, c.Latency, c.Report, c.Detect)
	case math.IsNaN(c.Rate) || c.Rate < 0 || c.Rate > 1e9:
		return fmt.Errorf("a rate of %g tasks a second: it must be 0 to 1e9, where 0 submits all at the start", c.Rate)
	case math.IsNaN(c.GPUShare) || c.GPUShare < 0 || c.GPUShare > 1:
		return fmt.Errorf("a share of %g tasks with a GPU: it must be 0 to 1", c.GPUShare)
	case c.GPUShare > 0 && c.gpus() == 0:
		return fmt.Errorf("a share of %g of the tasks asks for a GPU, and no node has one", c.GPUShare)
	case c.Nodes*c.CPUs > maxCPUs:
		return fmt.Errorf("%d nodes of %d CPUs each: there may be %d CPUs in all", c.Nodes, c.CPUs, maxCPUs)
	case c.gpus() > maxGPUs:
		return fmt.Errorf("%d nodes of %d GPUs each: there may be %d GPUs in all", c.Nodes/c.GPUEvery, c.GPUs, maxGPUs)
	case c.expected() > maxTime.Seconds():
		return fmt.Errorf("the run would take %.0f days at least: it may take %.0f", c.expected()/86400, maxTime.Hours()/24)
	case c.Nodes*c.submitters() > maxPairs:
		return fmt.Errorf("%d submitters that know %d nodes each: take fewer, 88 bytes are needed for each pair and there may be %d", c.submitters(), c.Nodes, maxPairs)
	}
	return nil
}

// gpus is how many there are in all.
func (c *Config) gpus() int {
	if c.GPUEvery < 1 {
		return 0
	}
	return c.Nodes / c.GPUEvery * c.GPUs
}

// lastWithGPU is a node that does not die, so that tasks which ask for a GPU can end; -1 where none do.
func (c *Config) lastWithGPU() int {
	if c.GPUShare == 0 || c.gpus() == 0 {
		return -1
	}
	return c.Nodes/c.GPUEvery*c.GPUEvery - 1
}

// mortal is how many nodes may die.
func (c *Config) mortal() int {
	n := c.Nodes - c.Submitters
	if c.lastWithGPU() >= c.Submitters || c.Submitters == 0 {
		n--
	}
	return n
}

// expected is about how many seconds the work takes at least, by the mean of the tasks.
func (c *Config) expected() float64 {
	work := float64(c.Tasks) * c.Mean.Seconds()
	least := work * (1 - c.GPUShare) / float64(c.Nodes*c.CPUs)
	if c.GPUShare > 0 {
		least = max(least, work*c.GPUShare/float64(c.gpus()))
	}
	if c.Rate > 0 {
		least = max(least, float64(c.Tasks)/c.Rate)
	}
	return least
}

// Death is when the k-th death is, from the start: they are spread evenly over about the time of the work.
func (c *Config) Death(k int) time.Duration {
	return time.Duration(c.expected() * float64(time.Second) * float64(k+1) / float64(c.Deaths+1))
}

// Victims are the nodes that die, in order.
func (c *Config) Victims() (nodes []int) {
	for _, v := range rand.New(rand.NewPCG(c.Seed, 1)).Perm(c.Nodes - c.Submitters) {
		if i := v + c.Submitters; i != c.lastWithGPU() && len(nodes) < c.Deaths {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// submitters is how many nodes have tasks of their own.
func (c *Config) submitters() int { return max(c.Submitters, 1) }

// mix is splitmix64 (Steele, Lea, Flood 2014): what is drawn for a task rests on its number alone, so that no task is kept.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fraction is in (0, 1].
func fraction(x uint64) float64 { return float64(x>>11+1) / (1 << 53) }

// Takes is how long a task is on its CPU.
func (c *Config) Takes(task int) time.Duration {
	if c.Fixed {
		return c.Mean
	}
	return max(time.Duration(-math.Log(fraction(mix(c.Seed+uint64(task))))*float64(c.Mean)), 1)
}

// WantsGPU reports whether a task asks for a GPU.
func (c *Config) WantsGPU(task int) bool {
	return c.GPUShare > 0 && fraction(mix(^c.Seed+uint64(task))) <= c.GPUShare
}

// submitter has the task.
func (c *Config) submitter(task int) int { return task % c.submitters() }

// Submitted is when a task is, from the start.
func (c *Config) Submitted(task int) time.Duration {
	if c.Rate == 0 {
		return 0
	}
	return time.Duration(float64(task) / c.Rate * float64(time.Second))
}
