// Package supervise keeps a program running as a worker of the cluster: it starts it, passes its lines on, tells the
// cluster at once when it died, and starts it again.
//
// A Supervisor runs one program, of which one Process at a time is alive; an Exit is how a Process ended.
//
//	      ┌──────── backoff ◄─────────── report ◄── exit, not asked for
//	      ▼                                ▲
//	    launch ──► Process ── lines ──►  prefix ──► stdout, stderr
//	                  │
//	ctx ends: SIGTERM ┴─ exit within Grace ──► nil, else SIGKILL and ErrGrace
//	kill closes: SIGKILL ─────────────────────► ErrKilled
//
// Rules:
//
//  1. A program that was asked to drain is not started again, whatever its exit code: it says so itself (see Told), since the
//     request may come through the cluster. One that was asked to restart comes back at once, which changes no counter.
//     Any other exit is a death, also one with 0: a task may call os.Exit.
//
//  2. The report of an exit is over before the next start, so that it can never end the successor's session.
//
//  3. A program that dies five times in a row before it was ever up for Settled is a mistake of whoever started it, and
//     ends the supervisor with its last lines. One that was up once is started again for as long as it takes. One that says
//     that its settings cannot be meant ends the supervisor at once.
//
// One supervisor:
//
//	s := supervise.New(supervise.Config{Name: "node-1", Launch: command.Launch})
//	err := s.Run(ctx, kill)
//
// It does not look at what the program says, and does not know whether it is well: liveness is the cluster's matter.
package supervise
