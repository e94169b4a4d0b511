package repository

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// imageID is the annotation that tells what an image was called before it was
// resolved or copied.
const imageID = "kbld.carvel.dev/id"

// Relocated says whether the images lock of a bundle names an image by another
// reference than the one that packages use, so that kbld has something to replace.
func Relocated(lock []byte) (bool, error) {
	var l struct {
		Images []struct {
			Image       string            `json:"image"`
			Annotations map[string]string `json:"annotations"`
		} `json:"images"`
	}
	if err := yaml.Unmarshal(lock, &l); err != nil {
		return false, fmt.Errorf("Reading the bundle's images: %w", err)
	}
	for _, i := range l.Images {
		if id := i.Annotations[imageID]; id != "" && id != i.Image {
			return true, nil
		}
	}
	return false, nil
}
