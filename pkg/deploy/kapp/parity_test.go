package kapp_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/deploy"
)

var (
	clock = regexp.MustCompile(`\d+:\d\d:\d\d[AP]M`)
	age   = regexp.MustCompile(`(?m) \d+[smh]( |$)`)
)

// comparable makes outputs of two runs in two namespaces comparable. kapp works
// on several objects at once, so lines have no order.
func comparable(output, namespace string) []string {
	var c deploy.Cleaner
	c.Write(output)
	output = strings.ReplaceAll(c.String(), namespace, "NAMESPACE")
	lines := strings.Split(age.ReplaceAllString(clock.ReplaceAllString(output, "TIME"), " AGE "), "\n")
	slices.Sort(lines)
	return lines
}

// What users read is what the kapp command prints, and so is the exit code.
func TestSameOutputAsTheCommand(t *testing.T) {
	ours, theirs := newBench(t, true), newBench(t, true)
	kubeconfig, err := env.ServiceAccountKubeconfig(t.Context(), theirs.namespace, "sa")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	objects := func(value string) string {
		return configMap("cm", value) + "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: account}\n" +
			"---\napiVersion: v1\nkind: Secret\nmetadata: {name: secret}\nstringData: {a: \"" + value + "\"}\n" +
			"---\napiVersion: v1\nkind: Service\nmetadata: {name: svc}\nspec: {ports: [{port: 80}]}\n"
	}
	steps := []struct {
		name, command, manifest string
		options                 []string
	}{
		{"First", "deploy", objects("1"), nil},
		{"Unchanged", "deploy", objects("1"), nil},
		{"Changed", "deploy", objects("2"), []string{"--diff-changes=true"}},
		{"Pruned", "deploy", configMap("cm", "2"), []string{"--debug=false"}},
		{"DiffOnly", "deploy", configMap("cm", "3"), []string{"--diff-run=true"}},
		{"Empty", "deploy", "", nil},
		{"Invalid", "deploy", "kind: [", nil},
		{"Nameless", "deploy", configMap("cm", "2") + "---\nkind: X\napiVersion: v1\n", nil},
		{"Inspect", "inspect", "", []string{"--tree=true"}},
		{"Delete", "delete", "", nil},
		{"DeleteAgain", "delete", "", nil},
		{"InspectNothing", "inspect", "", nil},
	}
	for _, s := range steps {
		mine := ours.request("same", s.manifest)
		yours := theirs.request("same", s.manifest)
		run, args := ours.runner.Deploy, func() ([]string, error) { return deploy.ArgsToDeploy(yours, "-") }
		switch s.command {
		case "deploy":
			mine.Kapp.RawOptions, yours.Kapp.RawOptions = s.options, s.options
		case "inspect":
			mine.Kapp.Inspect = &v1alpha1.AppDeployKappInspect{RawOptions: s.options}
			yours.Kapp.Inspect = mine.Kapp.Inspect
			run, args = ours.runner.Inspect, func() ([]string, error) { return deploy.ArgsToInspect(yours) }
		case "delete":
			run, args = ours.runner.Delete, func() ([]string, error) { return deploy.ArgsToDelete(yours) }
		}
		res := run(t.Context(), mine)

		list, err := args()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(env.BinDir("dev"), "kapp"), list...)
		cmd.Env = []string{"KUBECONFIG=" + path, "HOME=" + t.TempDir()}
		cmd.Stdin = strings.NewReader(s.manifest)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		code := 0
		if err := cmd.Run(); err != nil {
			exit := (*exec.ExitError)(nil)
			if !errors.As(err, &exit) {
				t.Fatal(err)
			}
			code = exit.ExitCode()
		}
		if res.ExitCode != code {
			t.Errorf("%s: exit code %d, the command's is %d", s.name, res.ExitCode, code)
		}
		if d := cmp.Diff(comparable(stdout.String(), theirs.namespace), comparable(res.Stdout, ours.namespace)); d != "" {
			t.Errorf("%s: stdout differs from the command's (-):\n%s", s.name, d)
		}
		if d := cmp.Diff(comparable(stderr.String(), theirs.namespace), comparable(res.Stderr, ours.namespace)); d != "" {
			t.Errorf("%s: stderr differs from the command's (-):\n%s", s.name, d)
		}
	}
}

// Many Apps at once on one identity: run it with -race.
func TestManyAtOnce(t *testing.T) {
	b := newBench(t, false)
	b.mustDeploy("warm", configMap("warm", "1"))
	req := make(chan deploy.Request)
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			for r := range req {
				for range 2 {
					if res := b.runner.Deploy(t.Context(), r); res.Failed() || res.Kapp == nil {
						t.Errorf("%s: %+v", r.Name, res)
					}
				}
			}
		})
	}
	for i := range 50 {
		name := fmt.Sprintf("app-%d", i)
		r := b.request(name, configMap(name, "1"), "--logs=true")
		r.Progress = func(deploy.Progress) {}
		req <- r
	}
	close(req)
	workers.Wait()
}
