package apiserver

import (
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	stored "github.com/garboard-dev/garboard/pkg/apis/internalpackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/packages"
)

// object is a *data.Package or a *data.PackageMetadata.
type object interface {
	packages.Object
	runtime.Object
}

// kind is all in which the two kinds differ.
type kind[T object] struct {
	name, resource, singular, shortName string
	// storedKind and storedResource are those of the stored form, and storedName
	// returns its name.
	storedKind, storedResource string
	storedName                 func(string) string
	newStored, newStoredList   func() runtime.Object
	// load and store convert from and to the stored form. load keeps the namespace.
	load  func(runtime.Object) (T, error)
	store func(obj T, namespace string) runtime.Object
	// copy is shallow, and list copies its items so.
	copy     func(T) T
	new      func() T
	list     func(items []T, meta metav1.ListMeta) runtime.Object
	validate func(T) field.ErrorList
	columns  []metav1.TableColumnDefinition
	cells    func(T) []any
}

func packageKind() kind[*data.Package] {
	return kind[*data.Package]{
		name: "Package", resource: "packages", singular: "package", shortName: "pkg",
		storedKind: "InternalPackage", storedResource: "internalpackages", storedName: packages.EncodeName,
		newStored:     func() runtime.Object { return &stored.InternalPackage{} },
		newStoredList: func() runtime.Object { return &stored.InternalPackageList{} },
		load: func(obj runtime.Object) (*data.Package, error) {
			return packages.LoadPackage(obj.(*stored.InternalPackage), "")
		},
		store: func(p *data.Package, namespace string) runtime.Object { return packages.StorePackage(p, namespace) },
		copy:  func(p *data.Package) *data.Package { shallow := *p; return &shallow },
		new:   func() *data.Package { return &data.Package{} },
		list: func(items []*data.Package, meta metav1.ListMeta) runtime.Object {
			l := &data.PackageList{ListMeta: meta, Items: make([]data.Package, len(items))}
			for i, p := range items {
				l.Items[i] = *p
			}
			return l
		},
		validate: packages.ValidatePackage,
		columns: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "Name of the Package"},
			{Name: "PackageMetadata Name", Type: "string", Format: "name", Description: "What this is a version of"},
			{Name: "Version", Type: "string", Description: "Semantic version"},
			{Name: "Age", Type: "date", Description: "Time since it was created"},
		},
		cells: func(p *data.Package) []any {
			return []any{p.Name, p.Spec.RefName, p.Spec.Version, age(p.CreationTimestamp)}
		},
	}
}

func metadataKind() kind[*data.PackageMetadata] {
	return kind[*data.PackageMetadata]{
		name: "PackageMetadata", resource: "packagemetadatas", singular: "packagemetadata", shortName: "pkgm",
		storedKind: "InternalPackageMetadata", storedResource: "internalpackagemetadatas", storedName: strings.Clone,
		newStored:     func() runtime.Object { return &stored.InternalPackageMetadata{} },
		newStoredList: func() runtime.Object { return &stored.InternalPackageMetadataList{} },
		load: func(obj runtime.Object) (*data.PackageMetadata, error) {
			return packages.LoadMetadata(obj.(*stored.InternalPackageMetadata), "")
		},
		store: func(m *data.PackageMetadata, namespace string) runtime.Object {
			return packages.StoreMetadata(m, namespace)
		},
		copy: func(m *data.PackageMetadata) *data.PackageMetadata { shallow := *m; return &shallow },
		new:  func() *data.PackageMetadata { return &data.PackageMetadata{} },
		list: func(items []*data.PackageMetadata, meta metav1.ListMeta) runtime.Object {
			l := &data.PackageMetadataList{ListMeta: meta, Items: make([]data.PackageMetadata, len(items))}
			for i, m := range items {
				l.Items[i] = *m
			}
			return l
		},
		validate: packages.ValidateMetadata,
		columns: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "Name of the PackageMetadata"},
			{Name: "Display Name", Type: "string", Description: "Name to show"},
			{Name: "Categories", Type: "string", Description: "Categories to find it by"},
			{Name: "Short Description", Type: "string", Description: "Description in one line"},
			{Name: "Age", Type: "date", Description: "Time since it was created"},
		},
		cells: func(m *data.PackageMetadata) []any {
			return []any{m.Name, m.Spec.DisplayName, short(strings.Join(m.Spec.Categories, ",")), short(m.Spec.ShortDescription), age(m.CreationTimestamp)}
		},
	}
}

// short cuts a cell to 50 bytes, between two characters.
func short(text string) string {
	if len(text) <= 50 {
		return text
	}
	end := 47
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

func age(created metav1.Time) string {
	if created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(created.Time))
}
