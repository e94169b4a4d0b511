package testenv_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/controlplane"
	"github.com/garboard-dev/garboard/test/testenv/proc"
)

func TestGarboardProcesses(t *testing.T) {
	g, err := env.StartGarboard(t.Context(), testenv.GarboardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("RunAsTwoUsers", func(t *testing.T) {
		if os.Geteuid() != 0 {
			return // only root can start a process as another user
		}
		if c, s := owner(t, g.Controller.Process), owner(t, g.Sidecar.Process); c == s || c == 0 || s == 0 {
			t.Errorf("controller runs as user %d and sidecar as %d, want two that are not root", c, s)
		}
	})
	t.Run("SidecarHasNoCredentials", func(t *testing.T) {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", g.Sidecar.PID()))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KAPPCTRL_KUBERNETES_CA_DATA"} {
			if strings.Contains("\x00"+string(environ), "\x00"+name+"=") {
				t.Errorf("the sidecar's environment has %s", name)
			}
		}
		if os.Geteuid() != 0 {
			return
		}
		for _, arg := range g.Controller.Args() {
			file, ok := strings.CutPrefix(arg, "-kubeconfig=")
			if !ok {
				continue
			}
			cat := exec.CommandContext(t.Context(), "cat", file)
			cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner(t, g.Sidecar.Process), Gid: 10000}}
			if out, err := cat.CombinedOutput(); err == nil {
				t.Errorf("the sidecar's user can read the controller's credentials:\n%s", out)
			}
		}
	})
	t.Run("Restart", func(t *testing.T) {
		for _, u := range []*testenv.Unit{g.Sidecar, g.Controller} {
			before := u.PID()
			u.Kill()
			if err := u.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if u.PID() == before {
				t.Error("it is the same process after the restart")
			}
			rss, err := u.PeakRSS()
			if err != nil {
				t.Fatal(err)
			}
			if rss < 1<<20 || rss > 1<<30 {
				t.Errorf("peak memory is %d bytes", rss)
			}
		}
	})
	t.Run("Metrics", func(t *testing.T) {
		metrics, err := g.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(metrics, "go_goroutines") {
			t.Errorf("no Go metrics in:\n%s", metrics)
		}
	})
	t.Run("ControllerIsOnRecord", func(t *testing.T) {
		n, err := env.Audit().Count(controlplane.Filter{User: testenv.ControllerUser})
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			t.Error("no request of the controller is in the audit log")
		}
	})
}

// owner returns the user that a process runs as.
func owner(t *testing.T, p *proc.Process) uint32 {
	t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}
