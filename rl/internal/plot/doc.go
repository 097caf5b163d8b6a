// Package plot draws the curves of runs as an SVG file: mean return over steps of the environment.
//
//	runs ── curves (curve.go) ──► lines, bands, dots ──┬── drawing (svg.go) ──► file
//	        axes and ticks (axis.go) ──────────────────┘
//
// Runs of one label are one curve: the mean of their seeds, with a band from the lowest to the highest. Draw (plot.go) puts them into
// one frame, with the levels that are to be compared with them, and a legend below.
//
// It knows numbers and labels. What a run is, and which levels it has, package rl says.
package plot
