//go:build race

package tasks_test

// raceDetector makes code about ten times slower.
const raceDetector = true
