package writer

import (
	"context"

	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
)

// PackageInstall is App for PackageInstalls.
func (w *Writer) PackageInstall(ctx context.Context, pkgi *packaging.PackageInstall, want packaging.PackageInstallStatus) (*packaging.PackageInstall, error) {
	return store(ctx, w, pkgi, &packaging.PackageInstall{}, func(base *packaging.PackageInstall, budget int) *packaging.PackageInstall {
		next := base.DeepCopy()
		next.Status = status.FitPackageInstall(want, budget)
		return next
	})
}
