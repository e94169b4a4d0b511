package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
)

// peerKapp runs kapp as kapp-controller does for the repository, through the
// packaging API, and returns what it printed.
func (w repositories) peerKapp(verb, stdin string, args ...string) string {
	w.Helper()
	args = append([]string{
		verb, "--prev-app", "repo-ctrl", "--kubeconfig", env.Kubeconfig(), "--app", "repo.pkgr", "--namespace", w.ns, "--yes",
		"--kube-api-qps=30", "--kube-api-burst=40", "--dangerous-scope-to-fallback-allowed-namespaces=true", "--wait=false",
	}, args...)
	cmd := exec.CommandContext(w.Context(), filepath.Join(env.BinDir("dev"), "kapp"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		w.Fatalf("kapp %s: %v\n%s", verb, err, out.String())
	}
	return out.String()
}

// peerDoc is a package as kapp-controller's templating leaves it for kapp.
func (w repositories) peerDoc(name string) string {
	return fmt.Sprintf(`---
apiVersion: data.packaging.carvel.dev/v1alpha1
kind: Package
metadata:
  annotations:
    kapp.k14s.io/create-strategy: fallback-on-update-or-noop
    kapp.k14s.io/disable-original: ""
    kapp.k14s.io/disable-wait: ""
    packaging.carvel.dev/package-repository-ref: %s/repo
  creationTimestamp: null
  name: %[2]s.1.0.0
spec:
  refName: %[2]s
  releasedAt: null
  template: {spec: {}}
  valuesSchema: {openAPIv3: null}
  version: 1.0.0
`, w.ns, name)
}

// TestRepositoryBackToPeer: a kapp-controller that comes back finds all packages to be
// its own: its deploy changes nothing, withdraws what goes, and its delete finds all.
func TestRepositoryBackToPeer(t *testing.T) {
	t.Parallel()
	env.WaitForAPI(t)
	w := newRepositories(t)
	w.repo("repo", inlineRepository(pkgDoc("a.example.com", "1.0.0", "", ""), pkgDoc("b.example.com", "1.0.0", "", "")))
	w.succeeded("repo")
	w.edit("repo", func(r *packaging.PackageRepository) { r.Spec.Paused = true })
	w.until("repo", func(r *packaging.PackageRepository) string { return contains(r.Status.FriendlyDescription, "Paused") })

	deploy := []string{
		"-f", "-", "--logs=false", "--app-changes-max-to-keep=5",
		"--dangerous-override-ownership-of-existing-resources=true", "--existing-non-labeled-resources-check=false",
	}
	for _, step := range []struct{ docs, changes string }{
		{w.peerDoc("a.example.com") + w.peerDoc("b.example.com"), "0 create, 0 delete, 0 update"},
		{w.peerDoc("a.example.com"), "0 create, 1 delete, 0 update"},
	} {
		if problem := contains(w.peerKapp("deploy", step.docs, deploy...), step.changes); problem != "" {
			t.Error(problem)
		}
	}
	w.wantOffers("a.example.com.1.0.0", "repo")
	w.peerKapp("delete", "")
	w.wantOffers()
	w.noConfigMap("repo.pkgr")

	w.edit("repo", func(r *packaging.PackageRepository) { r.Spec.Paused = false })
	w.succeeded("repo")
	w.wantOffers("a.example.com.1.0.0", "repo", "b.example.com.1.0.0", "repo")
}
