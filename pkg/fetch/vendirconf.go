package fetch

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"

	vendir "carvel.dev/vendir/pkg/vendir/config"
	versions "carvel.dev/vendir/pkg/vendir/versions/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
)

// document is what vendir reads of a Secret or ConfigMap. Nothing else of the
// object is sent.
type document struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   documentMeta   `json:"metadata"`
	Type       string         `json:"type,omitempty"`
	Data       map[string]any `json:"data,omitempty"`
}

type documentMeta struct {
	Name string `json:"name"`
}

// encode returns vendir's input: the documents in order and the configuration last.
func encode(documents []document, conf vendir.Config) ([]byte, error) {
	var b bytes.Buffer
	for _, d := range documents {
		text, err := yaml.Marshal(d)
		if err != nil {
			return nil, fmt.Errorf("encode %s %q: %w", d.Kind, d.Metadata.Name, err)
		}
		b.Write(text)
		b.WriteString("---\n")
	}
	text, err := conf.AsBytes()
	if err != nil {
		return nil, err
	}
	b.Write(text)
	return b.Bytes(), nil
}

// config returns vendir's configuration for sources, which are valid. secretName
// says under which name vendir finds the Secret of source i.
func config(sources []v1alpha1.AppFetch, secretName func(i int) string, skipTLS func(authority string) bool) vendir.Config {
	conf := vendir.Config{APIVersion: "vendir.k14s.io/v1alpha1", Kind: "Config"}
	for i, src := range sources {
		var secret *vendir.DirectoryContentsLocalRef
		if name := secretName(i); name != "" {
			secret = &vendir.DirectoryContentsLocalRef{Name: name}
		}
		contents := contents(src, secret, skipTLS)
		contents.Path = vendir.EntireDirPath
		conf.Directories = append(conf.Directories, vendir.Directory{
			Path:     folder(i, src),
			Contents: []vendir.DirectoryContents{contents},
		})
	}
	return conf
}

// folder is where source i lands: its path in shortest form, else its index.
func folder(i int, src v1alpha1.AppFetch) string {
	if src.Path == "" {
		return strconv.Itoa(i)
	}
	return path.Clean(src.Path)
}

// contents maps one source. The order of the cases decides when several members
// are set, as kapp-controller has it.
func contents(src v1alpha1.AppFetch, secret *vendir.DirectoryContentsLocalRef, skipTLS func(string) bool) vendir.DirectoryContents {
	skip := func(authority string) bool { return authority != "" && skipTLS(authority) }
	switch {
	case src.Inline != nil:
		return vendir.DirectoryContents{Inline: inlineContents(*src.Inline)}
	case src.Image != nil:
		return vendir.DirectoryContents{NewRootPath: src.Image.SubPath, Image: &vendir.DirectoryContentsImage{
			URL: src.Image.URL, TagSelection: selection(src.Image.TagSelection), SecretRef: secret,
			DangerousSkipTLSVerify: skip(registry(src.Image.URL)),
		}}
	case src.HTTP != nil:
		// Unpacking, and subPath with it, comes later: see downloads.
		return vendir.DirectoryContents{HTTP: &vendir.DirectoryContentsHTTP{
			URL: src.HTTP.URL, SHA256: src.HTTP.SHA256, SecretRef: secret, DisableUnpack: true,
		}}
	case src.Git != nil:
		return vendir.DirectoryContents{NewRootPath: src.Git.SubPath, Git: gitContents(*src.Git, secret, skip)}
	case src.HelmChart != nil:
		return vendir.DirectoryContents{HelmChart: helmContents(*src.HelmChart, secret)}
	default:
		return vendir.DirectoryContents{ImgpkgBundle: &vendir.DirectoryContentsImgpkgBundle{
			Image: src.ImgpkgBundle.Image, TagSelection: selection(src.ImgpkgBundle.TagSelection), SecretRef: secret,
			DangerousSkipTLSVerify: skip(registry(src.ImgpkgBundle.Image)),
		}}
	}
}

func inlineContents(in v1alpha1.AppFetchInline) *vendir.DirectoryContentsInline {
	out := &vendir.DirectoryContentsInline{Paths: in.Paths}
	ref := func(from *v1alpha1.AppFetchInlineSourceRef) *vendir.DirectoryContentsInlineSourceRef {
		if from == nil {
			return nil
		}
		return &vendir.DirectoryContentsInlineSourceRef{
			DirectoryPath:             from.DirectoryPath,
			DirectoryContentsLocalRef: vendir.DirectoryContentsLocalRef{Name: from.Name},
		}
	}
	for _, from := range in.PathsFrom {
		out.PathsFrom = append(out.PathsFrom, vendir.DirectoryContentsInlineSource{
			SecretRef: ref(from.SecretRef), ConfigMapRef: ref(from.ConfigMapRef),
		})
	}
	return out
}

func gitContents(git v1alpha1.AppFetchGit, secret *vendir.DirectoryContentsLocalRef, skip func(string) bool) *vendir.DirectoryContentsGit {
	depth := 1
	if git.Depth != nil {
		depth = int(*git.Depth)
	}
	host := ""
	if u, err := url.Parse(git.URL); err == nil {
		host = u.Hostname()
	}
	return &vendir.DirectoryContentsGit{
		URL: git.URL, Ref: git.Ref, RefSelection: selection(git.RefSelection), SecretRef: secret,
		LFSSkipSmudge: git.LFSSkipSmudge, ForceHTTPBasicAuth: git.ForceHTTPBasicAuth, Depth: depth,
		DangerousSkipTLSVerify: skip(host),
	}
}

// helmContents moves the path of an OCI repository with a login into the name:
// vendir logs in to the whole address otherwise, and helm takes only a host there.
func helmContents(chart v1alpha1.AppFetchHelmChart, secret *vendir.DirectoryContentsLocalRef) *vendir.DirectoryContentsHelmChart {
	out := &vendir.DirectoryContentsHelmChart{Name: chart.Name, Version: chart.Version}
	if chart.Repository == nil {
		return out
	}
	out.Repository = &vendir.DirectoryContentsHelmChartRepo{URL: chart.Repository.URL, SecretRef: secret}
	if rest, oci := strings.CutPrefix(chart.Repository.URL, "oci://"); oci && secret != nil {
		if host, below, found := strings.Cut(rest, "/"); found {
			out.Repository.URL = "oci://" + host
			out.Name = path.Join(below, chart.Name)
		}
	}
	return out
}

func selection(s *v1alpha1.VersionSelection) *versions.VersionSelection {
	if s == nil {
		return nil
	}
	out := &versions.VersionSelection{}
	if s.Semver != nil {
		out.Semver = &versions.VersionSelectionSemver{Constraints: s.Semver.Constraints}
		if s.Semver.Prereleases != nil {
			out.Semver.Prereleases = &versions.VersionSelectionSemverPrereleases{Identifiers: s.Semver.Prereleases.Identifiers}
		}
	}
	return out
}

// registry is the authority of an image reference, as docker reads it.
func registry(image string) string {
	host, _, found := strings.Cut(image, "/")
	if found && strings.ContainsAny(host, ".:") {
		return host
	}
	return "index.docker.io"
}
