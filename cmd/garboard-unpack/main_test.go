package main

import (
	"os"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"a", "b"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/download", []byte(dir), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(strings.NewReader(`[{"Dir":"a","Name":"one"},{"Dir":"b","Name":"two"}]`)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a/one": "a", "b/two": "b"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	for in, want := range map[string]string{
		"":                            "read what to unpack",
		`[{"Dir":"c","Name":"x"}]`:    "Unpacking archive 'x': ",
		`[{"Dir":"../a","Name":"x"}]`: "Unpacking archive 'x': ",
		`[{"Dir":"a","Name":"../x"}]`: "Unpacking archive '../x': the address does not end with a name for a file",
	} {
		if err := run(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", in, err)
		}
	}
}
