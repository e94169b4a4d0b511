package status_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
)

// lines makes about n bytes of deploy output as a large cluster prints it.
func lines(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "node-%05d ✓ ok: reconcile daemonset/agent (apps/v1) namespace: kube-system %s\n", i, strings.Repeat(".", i%7))
	}
	return b.String()
}

func big() v1alpha1.AppStatus {
	return v1alpha1.AppStatus{
		Fetch:    &v1alpha1.AppStatusFetch{Stdout: lines(1 << 20), Stderr: lines(1 << 20)},
		Template: &v1alpha1.AppStatusTemplate{Stderr: lines(1 << 20)},
		Deploy:   &v1alpha1.AppStatusDeploy{Stdout: lines(3 << 20), Stderr: "kapp: Error: short\n"},
		Inspect:  &v1alpha1.AppStatusInspect{Stdout: lines(1 << 20)},
		GenericStatus: v1alpha1.GenericStatus{
			UsefulErrorMessage: lines(1 << 20), FriendlyDescription: "Reconcile failed: " + lines(1<<20),
			Conditions: []v1alpha1.Condition{{Type: v1alpha1.ReconcileSucceeded, Message: lines(1 << 20)}},
		},
	}
}

func TestFitKeepsTheWholeStatusUnderTheBudget(t *testing.T) {
	got := status.FitApp(big(), status.DefaultBudget)
	body, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if room := status.DefaultBudget + 4<<10; len(body) > room {
		t.Errorf("%d bytes on the wire, want at most %d", len(body), room)
	}
	if len(body) < status.DefaultBudget*9/10 {
		t.Errorf("%d bytes: more was cut than needed", len(body))
	}
	out := got.Deploy.Stdout
	first, rest, _ := strings.Cut(out, "\n")
	dropped := len(big().Deploy.Stdout) - len(rest)
	if want := fmt.Sprintf("[output truncated: %d bytes]", dropped); first != want {
		t.Errorf("first line %q, want %q", first, want)
	}
	if !strings.HasPrefix(rest, "node-") || !strings.HasSuffix(big().Deploy.Stdout, rest) {
		t.Errorf("kept no whole lines of the end: %.60q", rest)
	}
	if got.Deploy.Stderr != "kapp: Error: short\n" {
		t.Errorf("a short output was cut: %q", got.Deploy.Stderr)
	}
}

func TestFitCutsOnRunesAtEveryPosition(t *testing.T) {
	for pad := range 4 {
		in := v1alpha1.AppStatus{Deploy: &v1alpha1.AppStatusDeploy{Stdout: strings.Repeat("x", pad) + strings.Repeat("✓", 100_000)}}
		in.FriendlyDescription = in.Deploy.Stdout
		got := status.FitApp(in, 10_000)
		if !utf8.ValidString(got.Deploy.Stdout) || strings.ContainsRune(got.Deploy.Stdout, utf8.RuneError) {
			t.Errorf("pad %d: a rune was cut in the output", pad)
		}
		if !utf8.ValidString(got.FriendlyDescription) || strings.ContainsRune(got.FriendlyDescription, utf8.RuneError) {
			t.Errorf("pad %d: a rune was cut in the description", pad)
		}
	}
}

func TestFitLeavesSmallStatusAlone(t *testing.T) {
	in := v1alpha1.AppStatus{Fetch: &v1alpha1.AppStatusFetch{Stdout: lines(1000)}}
	if got := status.FitApp(in, status.DefaultBudget); got.Fetch.Stdout != in.Fetch.Stdout {
		t.Error("a small output was changed")
	}
}

// TestFitCountsWhatIsEncoded: messages of control characters take six times their
// length on the wire, and must not take all that outputs have.
func TestFitCountsWhatIsEncoded(t *testing.T) {
	odd := strings.Repeat("\x01", 100_000)
	got := status.FitApp(v1alpha1.AppStatus{
		Fetch: &v1alpha1.AppStatusFetch{Error: odd}, Template: &v1alpha1.AppStatusTemplate{Error: odd},
		Deploy: &v1alpha1.AppStatusDeploy{Error: odd}, Inspect: &v1alpha1.AppStatusInspect{Error: odd},
		GenericStatus: v1alpha1.GenericStatus{FriendlyDescription: odd, UsefulErrorMessage: lines(10_000), Conditions: []v1alpha1.Condition{{Message: odd}}},
	}, 64<<10)
	body, err := json.Marshal(got)
	if err != nil || len(body) > 68<<10 {
		t.Errorf("%d bytes, error %v", len(body), err)
	}
	if got.UsefulErrorMessage != lines(10_000) || got.Deploy.Stdout != "" {
		t.Errorf("useful message of %d bytes, stdout %q", len(got.UsefulErrorMessage), got.Deploy.Stdout)
	}
}

// FuzzFit: whatever a tool prints, the status is valid, within its budget on the
// wire, and never grows.
func FuzzFit(f *testing.F) {
	f.Add("plain\n", "err\n", 1000)
	f.Add(strings.Repeat("<&>\x00✓\n", 500), "\xff\xfe", 5000)
	f.Fuzz(func(t *testing.T, stdout, stderr string, budget int) {
		if budget < 4096 || budget > 1<<20 {
			return
		}
		in := v1alpha1.AppStatus{
			Fetch:  &v1alpha1.AppStatusFetch{Stdout: strings.Repeat(stdout, 50), Stderr: stderr},
			Deploy: &v1alpha1.AppStatusDeploy{Stdout: strings.Repeat(stderr, 50), Error: stdout},
		}
		got := status.FitApp(in, budget)
		body, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if len(body) > budget+1024 {
			t.Fatalf("%d bytes for a budget of %d", len(body), budget)
		}
		if !utf8.ValidString(got.Fetch.Stdout) {
			t.Fatal("not valid UTF-8")
		}
	})
}

func BenchmarkFit(b *testing.B) {
	b.Run("bytes=8MiB", func(b *testing.B) {
		in := big()
		b.ReportAllocs()
		for b.Loop() {
			status.FitApp(in, status.DefaultBudget)
		}
	})
}
