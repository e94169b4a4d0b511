package writer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/status/writer"
)

// server fails updates as told, which a real API server does only by chance.
type server struct {
	client.SubResourceWriter
	live    *v1alpha1.App
	fail    []error
	updates []*v1alpha1.App
	gets    int
}

func (s *server) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s.gets++
	if s.live == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "apps"}, "a")
	}
	s.live.DeepCopyInto(obj.(*v1alpha1.App))
	return nil
}

func (s *server) Status() client.SubResourceWriter { return s }

func (s *server) Update(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	s.updates = append(s.updates, obj.DeepCopyObject().(*v1alpha1.App))
	if n := len(s.updates); n <= len(s.fail) && s.fail[n-1] != nil {
		return s.fail[n-1]
	}
	obj.SetResourceVersion("written")
	return nil
}

func app(rv string, uid types.UID) *v1alpha1.App {
	return &v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "t", ResourceVersion: rv, UID: uid}}
}

func want() v1alpha1.AppStatus {
	return v1alpha1.AppStatus{
		Deploy: &v1alpha1.AppStatusDeploy{Stdout: strings.Repeat("line\n", 100_000)},
		GenericStatus: v1alpha1.GenericStatus{
			ObservedGeneration: 1, Conditions: []v1alpha1.Condition{{Type: v1alpha1.ReconcileSucceeded, Status: corev1.ConditionTrue}},
		},
	}
}

func TestApp(t *testing.T) {
	res := schema.GroupResource{Group: "kappctrl.k14s.io", Resource: "apps"}
	conflict := apierrors.NewConflict(res, "a", errors.New("modified"))
	tooLarge := apierrors.NewRequestEntityTooLargeError("limit is 3145728")
	etcd := errors.New("etcdserver: request is too large")
	cases := map[string]struct {
		reason        string
		server        server
		updates, gets int
		err           error
		anyErr        bool
		rv            string
	}{
		"Writes":         {"one update, no read", server{}, 1, 0, nil, false, "written"},
		"Conflict":       {"one read, one more try", server{live: app("7", "u"), fail: []error{conflict}}, 2, 1, nil, false, "written"},
		"ConflictTwice":  {"then the queue retries", server{live: app("7", "u"), fail: []error{conflict, conflict}}, 2, 1, nil, true, "5"},
		"Deleted":        {"nobody is left to tell", server{fail: []error{conflict}}, 1, 1, writer.ErrGone, true, "5"},
		"Replaced":       {"the status belongs to another object", server{live: app("7", "other"), fail: []error{conflict}}, 1, 1, writer.ErrGone, true, "5"},
		"NotFound":       {"deleted between read and write", server{fail: []error{apierrors.NewNotFound(res, "a")}}, 1, 0, writer.ErrGone, true, "5"},
		"TooLarge":       {"shrunk, one more try", server{fail: []error{tooLarge}}, 2, 0, nil, false, "written"},
		"TooLargeEtcd":   {"etcd's own words", server{fail: []error{etcd}}, 2, 0, nil, false, "written"},
		"TooLargeTwice":  {"next to nothing, for an App that is nearly too large itself", server{fail: []error{etcd, etcd}}, 3, 0, nil, false, "written"},
		"TooLargeAlways": {"no loop", server{fail: []error{tooLarge, tooLarge, tooLarge}}, 3, 0, nil, true, "5"},
		"ConflictLarge":  {"one after the other", server{live: app("7", "u"), fail: []error{conflict, tooLarge}}, 3, 1, nil, false, "written"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := writer.Writer{Client: &c.server}
			got, err := w.App(t.Context(), app("5", "u"), want())
			if (err != nil) != c.anyErr || c.err != nil && !errors.Is(err, c.err) {
				t.Fatalf("%s: error %v, want %v", c.reason, err, c.err)
			}
			if len(c.server.updates) != c.updates || c.server.gets != c.gets || got.ResourceVersion != c.rv {
				t.Errorf("%s: %d updates, %d gets, version %s; want %d, %d, %s", c.reason, len(c.server.updates), c.server.gets, got.ResourceVersion, c.updates, c.gets, c.rv)
			}
		})
	}
}

func TestAppShrinksWhatIsTooLarge(t *testing.T) {
	s := &server{fail: []error{apierrors.NewRequestEntityTooLargeError("limit")}}
	if _, err := (&writer.Writer{Client: s}).App(t.Context(), app("5", "u"), want()); err != nil {
		t.Fatal(err)
	}
	first, second := len(s.updates[0].Status.Deploy.Stdout), len(s.updates[1].Status.Deploy.Stdout)
	if second > first/2 {
		t.Errorf("second try has %d bytes after %d", second, first)
	}
	if s.updates[1].Status.Conditions[0].Type != v1alpha1.ReconcileSucceeded {
		t.Error("the outcome was lost")
	}
}

// small is a server that refuses what etcd does.
type small struct{ server }

func (s *small) Status() client.SubResourceWriter { return s }

func (s *small) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	if err := s.server.Update(ctx, obj, opts...); err != nil {
		return err
	}
	body, err := json.Marshal(obj)
	if err == nil && len(body) > 3<<19 {
		err = errors.New("etcdserver: request is too large")
	}
	return err
}

// TestAppOfALargeCluster: a deploy to 40,000 nodes and stages that print a lot are
// stored by the first write, with their ends and the outcome.
func TestAppOfALargeCluster(t *testing.T) {
	for shift := range 4 { // a rune of three bytes over each place where it may be cut
		var deploy strings.Builder
		deploy.WriteString(strings.Repeat("x", shift))
		for i := range 40_000 {
			fmt.Fprintf(&deploy, "node-%05d ✓ ok: reconcile daemonset/agent (apps/v1) namespace: kube-system ✓✓✓\n", i)
		}
		stage := func(text string) *status.Stage { return &status.Stage{Stdout: text, Stderr: text} }
		other := strings.Repeat("✓ done with one of many things\n", 1<<15)
		out := status.Outcome{Generation: 1, Fetch: stage(other), Template: stage(other), Deploy: stage(deploy.String()), Inspect: stage(other), Done: true}
		s := &small{}
		got, err := (&writer.Writer{Client: s}).App(t.Context(), app("5", "u"), status.ProjectApp(v1alpha1.AppStatus{}, out))
		if err != nil || len(s.updates) != 1 {
			t.Fatalf("error %v after %d writes", err, len(s.updates))
		}
		body, err := json.Marshal(got)
		if err != nil || len(body) > status.DefaultBudget+4<<10 || !utf8.Valid(body) || strings.Contains(string(body), "\uFFFD") {
			t.Errorf("%d bytes, error %v", len(body), err)
		}
		first, rest, _ := strings.Cut(got.Status.Deploy.Stdout, "\n")
		if want := fmt.Sprintf("[output truncated: %d bytes]", deploy.Len()-len(rest)); first != want || !strings.HasPrefix(rest, "node-") || !strings.HasSuffix(deploy.String(), rest) {
			t.Errorf("begins with %q and %.20q, want %q and a whole line", first, rest, want)
		}
		if !status.Has(got.Status.GenericStatus, v1alpha1.ReconcileSucceeded) {
			t.Errorf("the outcome is lost: %+v", got.Status.Conditions)
		}
	}
}

func TestAppWritesNothingTwice(t *testing.T) {
	s := &server{}
	w := writer.Writer{Client: s}
	once, err := w.App(t.Context(), app("5", "u"), want())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.App(t.Context(), once, want()); err != nil || len(s.updates) != 1 {
		t.Errorf("%d updates, error %v: an equal status was written again", len(s.updates), err)
	}
}
