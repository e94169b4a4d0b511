package tool

import "testing"

func TestMemoryShare(t *testing.T) {
	cases := map[string]struct {
		limit string
		want  int64
	}{
		"NoLimit": {"max\n", 2 << 30},
		"Half":    {"2147483648\n", 1 << 30},
		"Little":  {"268435456\n", 256 << 20},
		"Much":    {"1099511627776\n", 2 << 30},
		"Nothing": {"", 2 << 30},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := memoryShare(memoryMax([]byte(c.limit))); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
