package main

import "testing"

// TestIdentity: of all that live in one place, one has the identity that comes back.
func TestIdentity(t *testing.T) {
	first, second, elsewhere := identity("a"), identity("a"), identity("b")
	if first == second || first == elsewhere || second == elsewhere {
		t.Errorf("identities %q, %q, %q", first, second, elsewhere)
	}
	if err := own("@garboard-test-own"); err != nil {
		t.Fatal(err)
	}
	if own("@garboard-test-own") == nil {
		t.Error("two have one name")
	}
}
