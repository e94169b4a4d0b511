// Package poll waits in tests for conditions that another process or goroutine
// brings about.
package poll

import (
	"testing"
	"time"
)

// patience bounds a wait; a condition that holds ends it at once.
const patience = 20 * time.Second

// Until returns when ok does, and ends the test if that takes too long. what
// names the condition.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", patience, what)
		case <-t.Context().Done():
			t.Fatalf("the test ended before: %s", what)
		}
	}
}
