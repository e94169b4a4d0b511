package repository_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/repository"
)

func record(name, spec string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team-a", UID: "1", ResourceVersion: "7", Labels: map[string]string{"kapp.k14s.io/is-app": ""}},
		Data:       map[string]string{"spec": spec},
	}
}

func TestNewRecord(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	cm, err := repository.NewRecord("team-a", "repo", now)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"labelKey":"kapp.k14s.io/app","labelValue":"1767323045000000006","lastChange":{"startedAt":"2026-01-02T03:04:05.000000006Z","finishedAt":"2026-01-02T03:04:05.000000006Z","successful":true,"description":"garboard","namespaces":["team-a"]},"usedGKs":[{"Group":"data.packaging.carvel.dev","Kind":"Package"},{"Group":"data.packaging.carvel.dev","Kind":"PackageMetadata"}]}`
	if diff := cmp.Diff(want, cm.Data["spec"]); diff != "" {
		t.Error(diff)
	}
	label, err := repository.ReadRecord(cm)
	if err != nil || label != "1767323045000000006" {
		t.Errorf("%q, %v", label, err)
	}
	same, changed, err := repository.UpdateRecord(cm, "repo")
	if err != nil || changed || !cmp.Equal(cm, same) {
		t.Errorf("a new record needs no change: %v", err)
	}
}

func TestUpdateRecord(t *testing.T) {
	const both = `"usedGKs":[{"Group":"data.packaging.carvel.dev","Kind":"Package"},{"Group":"data.packaging.carvel.dev","Kind":"PackageMetadata"}]`
	for name, c := range map[string]struct {
		reason, name, spec string
		wantName, wantSpec string
		changed            bool
	}{
		"Peer":      {"kapp-controller's own", "repo.pkgr", `{"labelKey":"kapp.k14s.io/app","labelValue":"17",` + both + `}`, "repo.pkgr", `{"labelKey":"kapp.k14s.io/app","labelValue":"17",` + both + `}`, false},
		"Qualified": {"with the longer names", "repo.pkgr.apps.k14s.io", `{"labelValue":"17",` + both + `}`, "repo.pkgr.apps.k14s.io", `{"labelValue":"17",` + both + `}`, false},
		"AllKinds":  {"one of old names no kinds", "repo.pkgr", `{"labelValue":"17"}`, "repo.pkgr", `{"labelValue":"17"}`, false},
		"OneKind":   {"the repository had no metadata", "repo.pkgr", `{"labelValue":"17","new":{"a":1},"usedGKs":[{"Group":"data.packaging.carvel.dev","Kind":"Package"}]}`, "repo.pkgr", `{"labelValue":"17","new":{"a":1},` + both + `}`, true},
		"OldName":   {"that of the first versions", "repo-ctrl", `{"labelValue":"17"}`, "repo.pkgr", `{"labelValue":"17"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := record(c.name, c.spec)
			out, changed, err := repository.UpdateRecord(in, "repo")
			if err != nil {
				t.Fatal(err)
			}
			if out.Name != c.wantName || out.Data["spec"] != c.wantSpec || changed != c.changed {
				t.Errorf("%s: %s %s %t", c.reason, out.Name, out.Data["spec"], changed)
			}
			if out.Name != in.Name && out.UID != "" {
				t.Error("a record of another name is another object")
			}
		})
	}
}

func TestReadRecordFails(t *testing.T) {
	for _, spec := range []string{"", "{", `{"labelKey":"x","labelValue":"1"}`, `{"labelKey":"kapp.k14s.io/app"}`} {
		if _, err := repository.ReadRecord(record("repo.pkgr", spec)); err == nil || !strings.Contains(err.Error(), "ConfigMap repo.pkgr") {
			t.Errorf("%q: %v", spec, err)
		}
	}
}

func TestChanges(t *testing.T) {
	byName := record("repo.pkgr.apps.k14s.io", "")
	byLabel := record("repo.pkgr", "")
	byLabel.Annotations = map[string]string{"kapp.k14s.io/app-changes-use-app-label": ""}
	for want, cm := range map[string]*corev1.ConfigMap{"kapp.k14s.io/app-change-app=repo.pkgr": byName, "kapp.k14s.io/app-change-app-label=17": byLabel} {
		got := repository.Changes(cm, "17")
		key, value, _ := strings.Cut(want, "=")
		if diff := cmp.Diff(map[string]string{"kapp.k14s.io/is-app-change": "", key: value}, got); diff != "" {
			t.Error(diff)
		}
	}
}
