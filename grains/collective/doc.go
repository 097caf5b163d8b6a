// Package collective lets tasks or grains that work side by side combine vectors: AllReduce, Reduce, Broadcast.
package collective
