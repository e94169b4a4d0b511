package kapp

import (
	"bufio"
	"bytes"
	"fmt"

	ctlconf "carvel.dev/kapp/pkg/kapp/config"
	ctlres "carvel.dev/kapp/pkg/kapp/resources"
	"carvel.dev/kapp/pkg/kapp/yttresmod"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/garboard-dev/garboard/pkg/tool/yamlsize"
)

// Marks of a document that configures kapp.
var (
	configVersion = []byte("kapp.k14s.io/v1alpha1")
	configLabel   = []byte("kapp.k14s.io/config")
)

// demands is what a manifest's kapp configuration asks of the run.
type demands struct {
	// rules says that there is any configuration.
	rules bool
	// alone says that kapp must not do it in this process: its wait rules count
	// time, which kapp does in a variable of the whole process that names neither
	// cluster nor App; or its rules are ytt code, which may never end, and only a
	// process can be ended.
	alone bool
}

// checkSize fails for a manifest that would take this process's memory when kapp
// reads it.
func checkSize(manifest []byte) error {
	if !bytes.ContainsRune(manifest, '&') || !bytes.ContainsRune(manifest, '*') {
		return nil
	}
	var growth yamlsize.Growth
	// The same reader as kapp's, so that both see the same documents.
	for docs := kyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest))); ; {
		doc, err := docs.Read()
		if err != nil {
			return nil // the end, or what kapp reports
		}
		if err := growth.Add(doc); err != nil {
			return fmt.Errorf("Reading manifest: %w", err)
		}
	}
}

// inspectConfig reads the kapp configuration in manifest. It fails on what would
// make kapp panic in a goroutine of its own, which would end this process. What
// kapp itself reports is left to kapp.
func inspectConfig(manifest []byte) (d demands, err error) {
	if !bytes.Contains(manifest, configVersion) && !bytes.Contains(manifest, configLabel) {
		return demands{}, nil
	}
	d.rules = true
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("Validating config: %v", p)
		}
	}()
	files, err := ctlres.NewFileResources(manifestFS(manifest), manifestName)
	if err != nil {
		return d, nil
	}
	var all []ctlres.Resource
	for _, f := range files {
		rs, err := f.Resources()
		if err != nil {
			return d, nil
		}
		all = append(all, rs...)
	}
	_, conf, err := ctlconf.NewConfFromResourcesWithDefaults(all)
	if err != nil {
		return d, nil
	}
	for _, mod := range conf.RebaseMods() {
		_, code := mod.(yttresmod.OverlayContractV1Mod)
		d.alone = d.alone || code
	}
	conf.DiffAgainstLastAppliedFieldExclusionMods()
	conf.DiffAgainstExistingFieldExclusionMods()
	conf.OwnershipLabelMods()(nil)
	conf.LabelScopingMods(true)(nil)
	for _, rule := range conf.WaitRules() {
		rule.ResourceMatcher()
		d.alone = d.alone || rule.Ytt != nil
		for _, c := range rule.ConditionMatchers {
			d.alone = d.alone || c.Timeout != ""
		}
		if rule.Ytt != nil && rule.Ytt.FuncContractV1 == nil {
			return d, fmt.Errorf("Validating config: wait rule has ytt without funcContractV1")
		}
	}
	return d, nil
}
