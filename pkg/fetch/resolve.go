package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/tool/redact"
)

// resolution is the tool resolve's input for one image.
type resolution struct {
	Image string `json:"image"`
	// SkipTLS does not verify the registry's certificate.
	SkipTLS bool `json:"skipTLS,omitempty"`
	// Auths are credentials for registries, as docker has them.
	Auths map[string]registryAuth `json:"auths,omitempty"`
	// Any are credentials for every registry.
	Any *registryAuth `json:"any,omitempty"`
}

// registryAuth is one login, in the form of a docker configuration.
type registryAuth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
	RegistryToken string `json:"registrytoken,omitempty"`
}

// Resolve returns what the sources hold at the moment, as a text to compare with an
// earlier one: as long as it is the same, another fetch would bring the same. ""
// means that only a fetch can tell: for a branch or tag of git, a file of HTTP without
// its digest, a chart, a tag that a range selects. An image costs a request for its
// manifest's digest, with the credentials of the fetch; what cannot change costs none.
// Errors are for logs: the fetch that is due then says what is wrong.
func (f *Fetcher) Resolve(ctx context.Context, ws Workspace, req Request) (string, error) {
	hide := req.Hide
	if hide == nil {
		hide = &redact.Redactor{}
	}
	if err := validate(req.Sources); err != nil {
		return "", err
	}
	sum := sha256.New()
	c := newCollector(f.objects, req.Namespace, hide)
	for i, src := range req.Sources {
		if err := c.add(ctx, i, src); err != nil {
			return "", hide.Err(err)
		}
		revision, err := c.resolve(ctx, ws, req, i)
		if err != nil || revision == "" {
			return "", hide.Err(err)
		}
		fmt.Fprintf(sum, "%d\x00%s\x00", i, revision)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func (c *collector) resolve(ctx context.Context, ws Workspace, req Request, i int) (string, error) {
	src := req.Sources[i]
	switch {
	case src.Inline != nil:
		text, err := json.Marshal(c.files[i])
		return string(text), err
	case src.Image != nil && src.Image.TagSelection == nil:
		return c.image(ctx, ws, req, i, src.Image.URL)
	case src.Image == nil && src.HTTP == nil && src.Git == nil && src.HelmChart == nil && src.ImgpkgBundle != nil && src.ImgpkgBundle.TagSelection == nil:
		return c.image(ctx, ws, req, i, src.ImgpkgBundle.Image)
	case cacheable([]v1alpha1.AppFetch{src}) == tool.CacheAll:
		text, err := json.Marshal(src)
		return string(text), err
	}
	return "", nil
}

// image returns the digest that a reference stands for.
func (c *collector) image(ctx context.Context, ws Workspace, req Request, i int, ref string) (string, error) {
	if byDigest.MatchString(ref) {
		return ref, nil
	}
	in := resolution{Image: ref, SkipTLS: req.SkipTLS != nil && req.SkipTLS(registry(ref))}
	if err := in.login(c.given[i]); err != nil {
		return "", err
	}
	text, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	res, err := ws.Run(ctx, tool.Command{Name: "resolve", Stdin: text})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%w: %s", res.Err(), bytes.TrimSpace(res.Stderr))
	}
	digest := strings.TrimSpace(string(res.Stdout))
	if err == nil && !byDigest.MatchString("@"+digest) {
		err = fmt.Errorf("resolve %s: no digest in the answer", ref)
	}
	return digest, err
}

// login takes the credentials of a fetch.
func (r *resolution) login(given credentials) error {
	if given.kind == corev1.SecretTypeDockerConfigJson {
		var config struct {
			Auths map[string]registryAuth `json:"auths"`
		}
		err := json.Unmarshal(given.data[corev1.DockerConfigJsonKey], &config)
		r.Auths = config.Auths
		return err
	}
	if len(given.data) == 0 {
		return nil
	}
	auth := registryAuth{
		Username: string(given.data[keyUser]), Password: string(given.data[keyPassword]),
		IdentityToken: string(given.data[keyIDT]), RegistryToken: string(given.data[keyToken]),
	}
	if host := string(given.data[keyHost]); host != "" {
		r.Auths = map[string]registryAuth{host: auth}
	} else {
		r.Any = &auth
	}
	return nil
}
