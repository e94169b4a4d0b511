package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard-dev/garboard/pkg/access"
	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/deploy"
	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/pkg/pipeline"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/template"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// stages are fakes that note in log that they ran, and fail or panic as told:
// "fetch": "boom" fails, "fetch": "panic" panics.
type stages struct {
	log  []string
	fail map[string]string
	// during runs inside each stage.
	during func(ctx context.Context, stage string)
	ctxErr error
	// secrets are what fetch and template read, prints is what the deploy says.
	secrets []string
	prints  string
}

func (s *stages) note(ctx context.Context, name string) status.Stage {
	s.log = append(s.log, name)
	if s.during != nil {
		s.during(ctx, name)
	}
	switch s.fail[name] {
	case "":
		return status.Stage{Stdout: name + " out"}
	case "panic":
		panic("stage " + name + s.prints)
	}
	return status.Stage{ExitCode: 1, Err: s.fail[name]}
}

func (s *stages) Open(ctx context.Context, _ string) (pipeline.Workspace, error) {
	if st := s.note(ctx, "open"); st.Failed() {
		return nil, errors.New(st.Err)
	}
	return workspace{s}, nil
}

type workspace struct{ s *stages }

func (workspace) Put(context.Context, []tool.File) error                           { return nil }
func (workspace) Run(context.Context, tool.Command) (tool.Result, error)           { return tool.Result{}, nil }
func (workspace) List(context.Context, string, []string) ([]string, error)         { return nil, nil }
func (workspace) Find(context.Context, string, []string, string) ([]string, error) { return nil, nil }
func (workspace) Remove(context.Context, []string) error                           { return nil }
func (w workspace) Close(ctx context.Context) error {
	w.s.ctxErr = ctx.Err()
	w.s.log = append(w.s.log, "close")
	return nil
}

func (s *stages) Fetch(ctx context.Context, _ fetch.Workspace, req fetch.Request) fetch.Result {
	if len(s.secrets) > 0 {
		req.Hide.Add(s.secrets[0])
	}
	return fetch.Result{Stage: s.note(ctx, "fetch"), Root: "src/0"}
}

func (s *stages) Template(ctx context.Context, _ template.Workspace, req template.Request) template.Result {
	if len(s.secrets) > 1 {
		req.Hide.Add(s.secrets[1])
	}
	return template.Result{Stage: s.note(ctx, "template"), Output: []byte("rendered from " + req.Root)}
}

func (s *stages) Deploy(ctx context.Context, req deploy.Request) deploy.Result {
	req.Progress(deploy.Progress{Stdout: "so far" + s.prints, Stderr: s.prints, Applying: true})
	stage := s.note(ctx, "deploy")
	stage.Stdout, stage.Stderr = s.prints, s.prints
	return deploy.Result{Stage: stage, Kapp: &v1alpha1.KappDeployStatus{}}
}

func (s *stages) Delete(ctx context.Context, _ deploy.Request) deploy.Result {
	return deploy.Result{Stage: s.note(ctx, "delete")}
}

func (s *stages) Inspect(ctx context.Context, _ deploy.Request) deploy.Result {
	return deploy.Result{Stage: s.note(ctx, "inspect")}
}

func (s *stages) Resolve(ctx context.Context, _ access.Request) (access.Target, error) {
	if st := s.note(ctx, "access"); st.Failed() {
		return access.Target{}, missing(st.Err)
	}
	return access.Target{}, nil
}

// missing is what the API server says of something that is not there.
type missing string

func (m missing) Error() string         { return string(m) }
func (m missing) Status() metav1.Status { return metav1.Status{Reason: metav1.StatusReasonNotFound} }

func (s *stages) Facts(access.Request) template.Facts { return nil }

// fixture is a pipeline of fakes and a job that runs through all of them.
func fixture(fail map[string]string) (*stages, *pipeline.Pipeline, pipeline.Job) {
	s := &stages{fail: fail}
	now := time.Unix(0, 0).UTC()
	p := &pipeline.Pipeline{Workspaces: s, Fetch: s, Template: s, Deploy: s, Access: s, Now: func() time.Time {
		now = now.Add(time.Second)
		return now
	}}
	job := pipeline.Job{
		Generation: 3, BeforeDeploy: func(ctx context.Context) error {
			if st := s.note(ctx, "finalizer"); st.Failed() {
				return errors.New(st.Err)
			}
			return nil
		},
		Deployed: func(context.Context) bool { return s.fail["deployed"] == "" },
	}
	job.Spec.Deploy = []v1alpha1.AppDeploy{{Kapp: &v1alpha1.AppDeployKapp{Inspect: &v1alpha1.AppDeployKappInspect{}}}}
	return s, p, job
}

func TestRun(t *testing.T) {
	cases := map[string]struct {
		reason string
		fail   map[string]string
		with   func(*pipeline.Job)
		log    string
		err    string
	}{
		"All":           {"each stage in its order, the folder gone before the deploy", nil, nil, "open fetch template close access finalizer deploy inspect", ""},
		"NoInspect":     {"inspect only when asked for", nil, func(j *pipeline.Job) { j.Spec.Deploy[0].Kapp.Inspect = nil }, "open fetch template close access finalizer deploy", ""},
		"NoFolder":      {"a sidecar that is away fails the fetch stage", map[string]string{"open": "no sidecar"}, nil, "open", "Fetching: Opening work folder: no sidecar"},
		"FetchFails":    {"nothing after it", map[string]string{"fetch": "boom"}, nil, "open fetch close", "boom"},
		"TemplateFails": {"nothing after it", map[string]string{"template": "boom"}, nil, "open fetch template close", "boom"},
		"NoAccess":      {"no finalizer for what cannot be deployed", map[string]string{"access": "no account"}, nil, "open fetch template close access", "Preparing kapp: no account"},
		"NoFinalizer":   {"no deploy without it", map[string]string{"finalizer": "conflict"}, nil, "open fetch template close access finalizer", "Blocking for deploy: Updating app: conflict"},
		"DeployFails":   {"what failed is inspected all the same", map[string]string{"deploy": "boom"}, nil, "open fetch template close access finalizer deploy inspect", "boom"},
		"InspectFails":  {"inspecting fails no App", map[string]string{"inspect": "boom"}, nil, "open fetch template close access finalizer deploy inspect", ""},
		"TwoDeploys":    {"checked before anything is changed", nil, func(j *pipeline.Job) { j.Spec.Deploy = append(j.Spec.Deploy, j.Spec.Deploy[0]) }, "open fetch template close", "Expected exactly one deploy option"},
		"NoDeploy":      {"the same", nil, func(j *pipeline.Job) { j.Spec.Deploy = nil }, "open fetch template close", "Expected exactly one deploy option"},
		"UnknownDeploy": {"an entry that names no way", nil, func(j *pipeline.Job) { j.Spec.Deploy[0].Kapp = nil }, "open fetch template close", "Unsupported way to deploy"},
		"BadPeriod":     {"told before anything runs", nil, func(j *pipeline.Job) { j.Spec.SyncPeriod = &v1alpha1.Duration{Invalid: "1d"} }, "", `Invalid syncPeriod: "1d" is no duration (hint: write it as 30s, 10m or 1h30m; there is no unit for days)`},
		"FetchPanics":   {"contained, and the folder is gone", map[string]string{"fetch": "panic"}, nil, "open fetch close", "Internal error: stage fetch (this is a fault of the controller: its log has the details)"},
		"DeployPanics":  {"contained", map[string]string{"deploy": "panic"}, nil, "open fetch template close access finalizer deploy", "Internal error: stage deploy (this is a fault of the controller: its log has the details)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, p, job := fixture(c.fail)
			if c.with != nil {
				c.with(&job)
			}
			out := p.Run(t.Context(), job, func(status.Outcome) {})
			if diff := cmp.Diff(strings.Fields(c.log), append([]string{}, s.log...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			err := ""
			if f := out.Failure(); f != nil {
				err = f.Err
			}
			if err != c.err || !out.Done || out.Running || out.Generation != 3 {
				t.Errorf("%s: outcome %+v, error %q, want %q", c.reason, out, err, c.err)
			}
		})
	}
}

func TestDelete(t *testing.T) {
	cases := map[string]struct {
		reason string
		fail   map[string]string
		with   func(*pipeline.Job)
		log    string
		err    string
	}{
		"Deletes":       {"with the App's own identity", nil, nil, "access delete", ""},
		"Skipped":       {"noopDelete touches nothing", nil, func(j *pipeline.Job) { j.SkipDelete = true }, "", ""},
		"Fails":         {"told", map[string]string{"delete": "boom"}, nil, "access delete", "boom"},
		"NoAccess":      {"objects exist, so the App must stay", map[string]string{"access": "gone"}, nil, "access", "Preparing kapp: gone (hint: restore what is missing, or set spec.noopDelete to leave the deployed objects behind)"},
		"Doomed":        {"its namespace goes, so the account never comes back", map[string]string{"access": "gone"}, func(j *pipeline.Job) { j.Doomed = func(context.Context) bool { return true } }, "access", ""},
		"NeverDeployed": {"nothing exists, so it may go", map[string]string{"access": "gone", "deployed": "no"}, nil, "access", ""},
		"BadSpec":       {"the same for a spec that never was right", map[string]string{"deployed": "no"}, func(j *pipeline.Job) { j.Spec.Deploy = nil }, "", ""},
		"Panics":        {"contained", map[string]string{"delete": "panic"}, nil, "access delete", "Internal error: stage delete (this is a fault of the controller: its log has the details)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, p, job := fixture(c.fail)
			if c.with != nil {
				c.with(&job)
			}
			out := p.Delete(t.Context(), job, func(status.Outcome) {})
			if got := strings.Join(s.log, " "); got != c.log {
				t.Errorf("%s: ran %q, want %q", c.reason, got, c.log)
			}
			err := ""
			if f := out.Failure(); f != nil {
				err = f.Err
			}
			if err != c.err || !out.Done || !out.Deleting {
				t.Errorf("%s: outcome %+v, error %q, want %q", c.reason, out, err, c.err)
			}
		})
	}
}

// TestRunReports: each state that is reported is one that has been reached, and
// live output carries no verdict.
func TestRunReports(t *testing.T) {
	_, p, job := fixture(nil)
	var got []string
	p.Run(t.Context(), job, func(o status.Outcome) {
		got = append(got, fmt.Sprintf("fetch=%t template=%t deploy=%t running=%t applying=%t done=%t", o.Fetch != nil, o.Template != nil, o.Deploy != nil, o.Running, o.Applying, o.Done))
	})
	want := []string{
		"fetch=true template=false deploy=false running=false applying=false done=false",
		"fetch=true template=true deploy=false running=false applying=false done=false",
		"fetch=true template=true deploy=true running=true applying=true done=false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// TestSecretsStayHidden: what one stage read no later one shows, while it runs or
// at its end, and neither does a panic.
func TestSecretsStayHidden(t *testing.T) {
	const fetched, templated = "fetch-secret-1", "template-secret-2"
	for name, fail := range map[string]string{"Succeeds": "", "Fails": "refused " + fetched + " and " + templated, "Panics": "panic"} {
		t.Run(name, func(t *testing.T) {
			s, p, job := fixture(map[string]string{"deploy": fail, "inspect": "saw " + templated})
			s.secrets, s.prints = []string{fetched, templated}, "prints "+fetched+" and "+templated
			var seen []status.Outcome
			seen = append(seen, p.Run(t.Context(), job, func(o status.Outcome) { seen = append(seen, o) }))
			for _, o := range seen {
				for _, stage := range []*status.Stage{o.Fetch, o.Template, o.Deploy, o.Inspect, {Err: o.Err}} {
					if text := fmt.Sprintf("%+v", stage); strings.Contains(text, fetched) || strings.Contains(text, templated) {
						t.Errorf("shows a secret: %s", text)
					}
				}
			}
		})
	}
}

// TestRunCancelled: the work folder is removed with a context that still lives.
func TestRunCancelled(t *testing.T) {
	s, p, job := fixture(map[string]string{"fetch": "cancelled"})
	ctx, cancel := context.WithCancel(t.Context())
	s.during = func(_ context.Context, stage string) {
		if stage == "fetch" {
			cancel()
		}
	}
	p.Run(ctx, job, func(status.Outcome) {})
	if !slices.Contains(s.log, "close") || s.ctxErr != nil {
		t.Errorf("ran %v; the context of close had error %v", s.log, s.ctxErr)
	}
}

// TestToolTimeout: fetch and template each have a time limit that names itself.
func TestToolTimeout(t *testing.T) {
	for _, stage := range []string{"fetch", "template"} {
		s, p, job := fixture(nil)
		p.ToolTimeout = time.Millisecond
		var cause error
		s.during = func(ctx context.Context, name string) {
			if name == stage {
				<-ctx.Done()
				cause = context.Cause(ctx)
			}
		}
		p.Run(t.Context(), job, func(status.Outcome) {})
		if !errors.Is(cause, pipeline.ErrToolTimeout) {
			t.Errorf("%s ended because of %v, want %v", stage, cause, pipeline.ErrToolTimeout)
		}
	}
}

// FuzzRun: whichever stages fail or panic, no stage runs after one that failed,
// the work folder is gone, and the outcome is complete.
func FuzzRun(f *testing.F) {
	f.Add(uint8(0), uint8(0))
	f.Add(uint8(2), uint8(1))
	order := []string{"open", "fetch", "template", "access", "finalizer", "deploy"}
	f.Fuzz(func(t *testing.T, at, how uint8) {
		bad := order[int(at)%len(order)]
		s, p, job := fixture(map[string]string{bad: []string{"boom", "panic"}[how%2]})
		out := p.Run(t.Context(), job, func(status.Outcome) {})
		if !out.Done || out.Failure() == nil {
			t.Fatalf("%s failed, outcome %+v", bad, out)
		}
		ran := slices.DeleteFunc(slices.Clone(s.log), func(n string) bool { return n == "close" || n == "inspect" })
		if diff := cmp.Diff(order[:slices.Index(order, bad)+1], ran); diff != "" {
			t.Fatalf("%s failed (-want +got):\n%s", bad, diff)
		}
		if bad != "open" && !slices.Contains(s.log, "close") {
			t.Fatalf("%s failed: the work folder is left", bad)
		}
	})
}
