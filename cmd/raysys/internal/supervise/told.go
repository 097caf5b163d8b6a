package supervise

// Told is what a program said last to its supervisor, on a pipe that only the two know: an exit code cannot carry it, since a
// task may call os.Exit(0), and a panic ends a Go program with 2 as a configuration error does.
type Told string

// What a program may say. system.Config.Cluster.Supervisor has the same words.
const (
	Draining      Told = "draining"      // it was asked to drain: its exit, whatever it is, is final
	Restarting    Told = "restarting"    // it was asked to come back after its exit, which is no death, whatever it is
	Staying       Told = "staying"       // that was taken back
	Misconfigured Told = "misconfigured" // its settings cannot be meant: another start would end the same way
)

// SupervisorVariable names the pipe in the program's environment: the number of its descriptor, a colon and its inode, so that
// a program further down, which inherits the variable alone, does not write into a descriptor of its own.
const SupervisorVariable = "RAYSYS_SUPERVISOR"

// maxTold bounds what is read of the pipe at the exit; it is the last line that counts.
const maxTold = 4 << 10
