// Package descent has what the learners of packages ppo and impala do with the parameters of a net.
package descent
