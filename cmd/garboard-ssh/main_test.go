package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/test/testenv/gitserver"
	"github.com/garboard-dev/garboard/test/testenv/web"
)

// TestMain lets the test binary be the program, so that git can call it.
func TestMain(m *testing.M) {
	if os.Getenv("GARBOARD_SSH_TEST") == "1" {
		main()
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   string
		want   call
		err    string
	}{
		"Git": {"what vendir and git pass together", "-o ServerAliveInterval=30 -o ForwardAgent=no -F /dev/null -i /k -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/h -o SendEnv=GIT_PROTOCOL -p 2222 me@host git-upload-pack '/r.git'",
			call{user: "me", host: "host", port: "2222", command: "git-upload-pack '/r.git'", keys: []string{"/k"}, knownHosts: []string{"/h"}, sendEnv: []string{"GIT_PROTOCOL"}}, ""},
		"Short":     {"a host alone is asked as git", "-oStrictHostKeyChecking=no [::1] true", call{user: "git", host: "::1", port: "22", command: "true", anyHost: true}, ""},
		"Command":   {"an option that runs a program is refused", "-o ProxyCommand=/bin/sh host true", call{}, `option "ProxyCommand" is not supported`},
		"Config":    {"a configuration file could name programs", "-F /etc/x host true", call{}, `configuration file "/etc/x" is not supported`},
		"Forward":   {"no tunnels", "-L 1:2:3 host true", call{}, `option "-L" is not supported`},
		"NoCommand": {"no interactive shell", "host", call{}, "expected a host and a command"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parse(strings.Fields(c.args))
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("%s: error %v, want %q", c.reason, err, c.err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(call{})); err != nil || diff != "" {
				t.Errorf("%s: error %v (-want +got):\n%s", c.reason, err, diff)
			}
		})
	}
}

// TestClone clones with the real git from a real SSH server.
func TestClone(t *testing.T) {
	server, err := gitserver.Start(t.TempDir(), web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	if _, err := server.Commit(t.Context(), "repo", fstest.MapFS{"f": {Data: []byte("content"), Mode: 0o644}}, "first"); err != nil {
		t.Fatal(err)
	}
	other, err := gitserver.Start(t.TempDir(), web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	host := strings.SplitN(server.KnownHosts(), " ", 2)[0]
	wrongKey := host + " " + strings.SplitN(other.KnownHosts(), " ", 2)[1]

	cases := map[string]struct {
		reason          string
		key, knownHosts string
		err             string
	}{
		"Known":       {"right key, known host", string(server.PrivateKey()), server.KnownHosts(), ""},
		"Unknown":     {"another host's line", string(server.PrivateKey()), other.KnownHosts(), "not among the known hosts"},
		"WrongKey":    {"the host's key has changed", string(server.PrivateKey()), wrongKey, "host key verification failed"},
		"WrongClient": {"the server does not know the key", string(other.PrivateKey()), server.KnownHosts(), "permission denied (publickey)"},
		"Garbage":     {"no key at all", "hello", server.KnownHosts(), "private key"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			key, hosts := filepath.Join(dir, "key"), filepath.Join(dir, "hosts")
			for path, data := range map[string]string{key: c.key, hosts: c.knownHosts} {
				if err := os.WriteFile(path, []byte(data+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "git", "clone", "--quiet", server.SSHURL("repo"), filepath.Join(dir, "clone"))
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GARBOARD_SSH_TEST=1", "GIT_SSH_VARIANT=ssh",
				"GIT_SSH_COMMAND=" + os.Args[0] + " -F /dev/null -i " + key + " -o StrictHostKeyChecking=yes -o UserKnownHostsFile=" + hosts}
			out, err := cmd.CombinedOutput()
			if c.err != "" {
				if err == nil || !strings.Contains(string(out), c.err) {
					t.Errorf("%s: error %v, output %q, want %q", c.reason, err, out, c.err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v: %s", c.reason, err, out)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "clone", "f")); err != nil || string(got) != "content" {
				t.Errorf("cloned %q, error %v", got, err)
			}
		})
	}
}
