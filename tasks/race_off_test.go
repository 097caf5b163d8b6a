//go:build !race

package tasks_test

const raceDetector = false
