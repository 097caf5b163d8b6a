//go:build race

package door_test

const raceDetector = true
