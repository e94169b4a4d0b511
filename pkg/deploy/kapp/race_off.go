//go:build !race

package kapp

// raceEnabled says that this binary has the race detector.
const raceEnabled = false
