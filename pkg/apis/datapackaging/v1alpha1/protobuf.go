package v1alpha1

import "github.com/garboard-dev/garboard/pkg/apis/datapackaging/protobuf"

// Marshal writes protobuf.
func (p *Package) Marshal() ([]byte, error) { return protobuf.Marshal(p) }

// Unmarshal reads protobuf into a Package that is zero.
func (p *Package) Unmarshal(data []byte) error { return protobuf.Unmarshal(data, p) }

// Reset makes the Package zero.
func (p *Package) Reset() { *p = Package{} }

// Marshal writes protobuf.
func (l *PackageList) Marshal() ([]byte, error) { return protobuf.Marshal(l) }

// Unmarshal reads protobuf into a list that is zero.
func (l *PackageList) Unmarshal(data []byte) error { return protobuf.Unmarshal(data, l) }

// Reset makes the list zero.
func (l *PackageList) Reset() { *l = PackageList{} }

// Marshal writes protobuf.
func (m *PackageMetadata) Marshal() ([]byte, error) { return protobuf.Marshal(m) }

// Unmarshal reads protobuf into a PackageMetadata that is zero.
func (m *PackageMetadata) Unmarshal(data []byte) error { return protobuf.Unmarshal(data, m) }

// Reset makes the PackageMetadata zero.
func (m *PackageMetadata) Reset() { *m = PackageMetadata{} }

// Marshal writes protobuf.
func (l *PackageMetadataList) Marshal() ([]byte, error) { return protobuf.Marshal(l) }

// Unmarshal reads protobuf into a list that is zero.
func (l *PackageMetadataList) Unmarshal(data []byte) error { return protobuf.Unmarshal(data, l) }

// Reset makes the list zero.
func (l *PackageMetadataList) Reset() { *l = PackageMetadataList{} }
