// Package standins lets a test give a node other parts than the real ones: a network in memory, a clock that jumps, slow disks, lost
// frames, and what sees each value that changes hands. system.Config does not show them; [Of] and [Inspector] reach them.
package standins
