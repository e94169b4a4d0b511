// Package settings holds the controller's own configuration: what the Secret or
// ConfigMap kapp-controller-config says.
package settings

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// MinSyncPeriod is the floor of every sync period; shorter ones are raised to it.
const MinSyncPeriod = 30 * time.Second

// Keys of the configuration, the same as kapp-controller's. Other keys are ignored.
const (
	keyCACerts                         = "caCerts"
	keyHTTPProxy                       = "httpProxy"
	keyHTTPSProxy                      = "httpsProxy"
	keyNoProxy                         = "noProxy"
	keyDangerousSkipTLSVerify          = "dangerousSkipTLSVerify"
	keyKappDeployRawOptions            = "kappDeployRawOptions"
	keyAppDefaultSyncPeriod            = "appDefaultSyncPeriod"
	keyAppMinimumSyncPeriod            = "appMinimumSyncPeriod"
	keyPackageInstallDefaultSyncPeriod = "packageInstallDefaultSyncPeriod"
)

// Settings is one parsed configuration. It is shared by readers: nobody changes
// it, nor the slices in it.
type Settings struct {
	// CACerts is PEM text that the sidecar trusts besides the system's certificates.
	CACerts string
	// Proxy is for the sidecar's tools; deploys never use it.
	Proxy Proxy
	// SkipTLSVerify lists hosts and host:port pairs whose certificates are not
	// checked. Ask ShouldSkipTLSForAuthority.
	SkipTLSVerify []string
	// KappDeployRawOptions come before an App's own options, each as --name=value.
	KappDeployRawOptions []string
	// AppDefaultSyncPeriod is for Apps that name none, at least MinSyncPeriod.
	AppDefaultSyncPeriod time.Duration
	// AppMinimumSyncPeriod is the floor for all Apps, at least MinSyncPeriod.
	AppMinimumSyncPeriod time.Duration
	// PackageInstallDefaultSyncPeriod is for PackageInstalls that name none, at
	// least MinSyncPeriod.
	PackageInstallDefaultSyncPeriod time.Duration
}

// Default returns the settings of a cluster without a configuration.
func Default() Settings {
	return Settings{
		AppDefaultSyncPeriod:            MinSyncPeriod,
		AppMinimumSyncPeriod:            MinSyncPeriod,
		PackageInstallDefaultSyncPeriod: 10 * time.Minute,
	}
}

// Parse reads a configuration: the data of the Secret or ConfigMap. A missing or
// empty value is the default; spaces and line breaks around a value, which a Secret
// made from a file has, are dropped. Sync periods are Go durations, kappDeployRawOptions
// is a JSON array of strings, dangerousSkipTLSVerify a list with commas.
//
// An error names the key and, because a proxy's address may hold a password,
// never more of its value than the host. The settings are then the zero value.
func Parse(data map[string]string) (Settings, error) {
	s := Default()
	s.CACerts = data[keyCACerts]
	s.SkipTLSVerify = splitList(data[keyDangerousSkipTLSVerify])
	s.Proxy = Proxy{
		HTTP:  strings.TrimSpace(data[keyHTTPProxy]),
		HTTPS: strings.TrimSpace(data[keyHTTPSProxy]),
		No:    strings.TrimSpace(data[keyNoProxy]),
	}

	if err := checkProxy(keyHTTPProxy, s.Proxy.HTTP); err != nil {
		return Settings{}, err
	}
	if err := checkProxy(keyHTTPSProxy, s.Proxy.HTTPS); err != nil {
		return Settings{}, err
	}
	if err := checkNoProxy(s.Proxy.No); err != nil {
		return Settings{}, err
	}
	if text := strings.TrimSpace(data[keyKappDeployRawOptions]); text != "" {
		if err := json.Unmarshal([]byte(text), &s.KappDeployRawOptions); err != nil {
			return Settings{}, fmt.Errorf("Unmarshaling %s as JSON: %w", keyKappDeployRawOptions, err)
		}
	}
	for _, p := range []struct {
		key    string
		period *time.Duration
	}{
		{keyAppDefaultSyncPeriod, &s.AppDefaultSyncPeriod},
		{keyAppMinimumSyncPeriod, &s.AppMinimumSyncPeriod},
		{keyPackageInstallDefaultSyncPeriod, &s.PackageInstallDefaultSyncPeriod},
	} {
		text := strings.TrimSpace(data[p.key])
		if text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return Settings{}, fmt.Errorf("Unmarshaling %s as duration: %w", p.key, err)
		}
		*p.period = max(d, MinSyncPeriod)
	}
	return s, nil
}

// splitList returns the entries between commas, without spaces and empty ones:
// an empty entry would match an authority without a host.
func splitList(text string) []string {
	var entries []string
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// ShouldSkipTLSForAuthority says whether the certificate of authority, a host or
// a host:port, is not to be checked. An entry without a port is for all ports, an
// entry with one for that port only. An IPv6 address is listed without brackets,
// or with brackets and a port.
func (s Settings) ShouldSkipTLSForAuthority(authority string) bool {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]")
	}
	return slices.Contains(s.SkipTLSVerify, host) || slices.Contains(s.SkipTLSVerify, authority)
}
