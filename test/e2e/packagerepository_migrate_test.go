package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/test/testenv"
)

// peerRepository is what kapp-controller leaves of a repository with one package
// and its metadata: kapp's record, one change, and the objects with kapp's labels.
const peerRepository = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: repo.pkgr
  labels: {kapp.k14s.io/is-app: ""}
  annotations: {kapp.k14s.io/app-changes-use-app-label: ""}
data:
  spec: '{"labelKey":"kapp.k14s.io/app","labelValue":"1700000000000000000","lastChangeName":"repo.pkgr-change-x1","lastChange":{"startedAt":"2024-01-01T00:00:00Z","finishedAt":"2024-01-01T00:00:01Z","successful":true,"description":"update: Op: 2 create","namespaces":["${NS}"]},"usedGVs":[{"Group":"data.packaging.carvel.dev","Version":"v1alpha1"}],"usedGKs":[{"Group":"data.packaging.carvel.dev","Kind":"Package"},{"Group":"data.packaging.carvel.dev","Kind":"PackageMetadata"}]}'
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: repo.pkgr-change-x1
  labels: {kapp.k14s.io/is-app-change: "", kapp.k14s.io/app-change-app: repo.pkgr, kapp.k14s.io/app-change-app-label: "1700000000000000000"}
data:
  spec: '{"startedAt":"2024-01-01T00:00:00Z","finishedAt":"2024-01-01T00:00:01Z","successful":true}'
---
apiVersion: internal.packaging.carvel.dev/v1alpha1
kind: InternalPackageMetadata
metadata:
  name: peer.example.com
  labels: {kapp.k14s.io/app: "1700000000000000000", kapp.k14s.io/association: ${META}}
  annotations:
    kapp.k14s.io/create-strategy: fallback-on-update-or-noop
    kapp.k14s.io/disable-original: ""
    kapp.k14s.io/disable-wait: ""
    kapp.k14s.io/identity: v1;${NS}/data.packaging.carvel.dev/PackageMetadata/peer.example.com;data.packaging.carvel.dev/v1alpha1
    packaging.carvel.dev/package-repository-ref: ${NS}/repo
spec: {displayName: Shown}
---
apiVersion: internal.packaging.carvel.dev/v1alpha1
kind: InternalPackage
metadata:
  name: ${STORED}
  labels: {kapp.k14s.io/app: "1700000000000000000", kapp.k14s.io/association: ${PKG}}
  annotations:
    kapp.k14s.io/create-strategy: fallback-on-update-or-noop
    kapp.k14s.io/disable-original: ""
    kapp.k14s.io/disable-wait: ""
    kapp.k14s.io/identity: v1;${NS}/data.packaging.carvel.dev/Package/peer.example.com.1.0.0;data.packaging.carvel.dev/v1alpha1
    kbld.k14s.io/images: |
      - origins: [{preresolved: {url: "r.example.com/x@sha256:1111111111111111111111111111111111111111111111111111111111111111"}}]
        url: r.example.com/x@sha256:1111111111111111111111111111111111111111111111111111111111111111
    packaging.carvel.dev/package-repository-ref: ${NS}/repo
spec:
  refName: peer.example.com
  version: 1.0.0
  releasedAt: null
  template: {spec: {}}
  valuesSchema: {openAPIv3: null}
`

// association is kapp's label for an object.
func association(ns, kind, name string) string {
	return "v1." + md5Hex(ns+"/data.packaging.carvel.dev/"+kind+"/"+name)
}

// leavePeer applies what kapp-controller leaves.
func (w repositories) leavePeer() {
	w.Helper()
	w.apply(strings.NewReplacer("${NS}", w.ns, "${STORED}", encodedName("peer.example.com.1.0.0"),
		"${META}", association(w.ns, "PackageMetadata", "peer.example.com"), "${PKG}", association(w.ns, "Package", "peer.example.com.1.0.0"),
	).Replace(peerRepository))
}

// TestRepositoryFromPeer: what kapp-controller deployed is taken over without a
// write, changed from then on, and deleted with all that kapp kept.
func TestRepositoryFromPeer(t *testing.T) {
	t.Parallel()
	w := newRepositories(t)
	w.leavePeer()
	since := time.Now()
	w.repo("repo", inlineRepository(pkgDoc("peer.example.com", "1.0.0", "", ""), metaDoc("peer.example.com")))
	r := w.succeeded("repo")
	if problem := contains(r.Status.Deploy.Stdout, "0 created, 0 updated, 0 deleted, 2 unchanged"); problem != "" {
		t.Error(problem)
	}
	if n := w.writes(since); n != 0 {
		t.Errorf("%d writes to take over, want none", n)
	}
	w.repo("repo", inlineRepository(pkgDoc("peer.example.com", "2.0.0", "", "")))
	w.succeeded("repo")
	w.wantOffers("peer.example.com.2.0.0", "repo")
	if got := w.packages()[0].Labels["kapp.k14s.io/app"]; got != "1700000000000000000" {
		t.Errorf("label %q, want that of kapp's record", got)
	}
	w.delete("repo")
	w.gone("repo")
	w.wantOffers()
	w.noConfigMap("repo.pkgr")
	w.noConfigMap("repo.pkgr-change-x1")
}

// TestRepositoryRecord: kapp lists what a repository offers, by the record that is
// kept for it.
func TestRepositoryRecord(t *testing.T) {
	t.Parallel()
	w := newRepositories(t)
	w.repo("repo", inlineRepository(pkgDoc("a.example.com", "1.0.0", "", ""), metaDoc("a.example.com")))
	w.succeeded("repo")
	record := &corev1.ConfigMap{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: w.ns, Name: "repo.pkgr"}, record); err != nil {
		t.Fatal(err)
	}
	var spec struct {
		LabelKey, LabelValue string
		LastChange           struct{ Namespaces []string }
		UsedGKs              []metav1.GroupKind
	}
	if err := json.Unmarshal([]byte(record.Data["spec"]), &spec); err != nil {
		t.Fatal(err)
	}
	if _, ok := record.Labels["kapp.k14s.io/is-app"]; !ok || spec.LabelKey != "kapp.k14s.io/app" || len(spec.UsedGKs) != 2 || !cmp.Equal(spec.LastChange.Namespaces, []string{w.ns}) {
		t.Errorf("record: %v %s", record.Labels, record.Data["spec"])
	}
	p := w.packages()[0]
	want := map[string]string{"kapp.k14s.io/app": spec.LabelValue, "kapp.k14s.io/association": association(w.ns, "Package", "a.example.com.1.0.0")}
	if diff := cmp.Diff(want, p.Labels); diff != "" {
		t.Errorf("labels:\n%s", diff)
	}
	// A record that somebody deleted is made anew, and the objects follow.
	if err := kube.Delete(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	w.repo("repo", inlineRepository(pkgDoc("a.example.com", "1.0.0", "", ""), metaDoc("a.example.com"), "---\n# again\n"))
	testenv.Eventually(t, patience, func(ctx context.Context) string {
		again := &corev1.ConfigMap{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: "repo.pkgr"}, again); err != nil {
			return err.Error()
		}
		if label := w.packages()[0].Labels["kapp.k14s.io/app"]; !strings.Contains(again.Data["spec"], fmt.Sprintf("%q", label)) {
			return fmt.Sprintf("label %s is not that of %s", label, again.Data["spec"])
		}
		return ""
	})
	w.succeeded("repo")
	w.delete("repo")
	w.gone("repo")
	w.wantOffers()
}
