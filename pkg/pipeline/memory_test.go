package pipeline_test

import (
	"context"
	"testing"
	"time"

	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/template"
	"github.com/garboard-dev/garboard/pkg/tool/budget"
)

// hoarder is a template stage whose output takes all the memory there is.
type hoarder struct{ *stages }

func (h hoarder) Template(ctx context.Context, ws template.Workspace, req template.Request) template.Result {
	if err := req.Memory.Resize(ctx, 8<<20); err != nil {
		return template.Result{Stage: status.Stage{}.Fail("", err)}
	}
	return h.stages.Template(ctx, ws, req)
}

// TestMemoryIsReleased: room for a large manifest is held while it is deployed, and
// given back however the run ends.
func TestMemoryIsReleased(t *testing.T) {
	for name, fail := range map[string]map[string]string{
		"Succeeds": nil, "Template": {"template": "boom"}, "Deploy": {"deploy": "boom"}, "Panics": {"deploy": "panic"},
	} {
		t.Run(name, func(t *testing.T) {
			s, p, job := fixture(fail)
			p.Template, p.Memory = hoarder{s}, budget.New(8<<20)
			s.during = func(_ context.Context, stage string) {
				if stage != "deploy" {
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				if p.Memory.Hold().Resize(ctx, 8<<20) == nil {
					t.Error("nothing is held for the deploy")
				}
			}
			p.Run(t.Context(), job, func(status.Outcome) {})
			if err := p.Memory.Hold().Resize(t.Context(), 8<<20); err != nil {
				t.Error(err)
			}
		})
	}
}
