// Package openapi describes the kinds of group data.packaging.carvel.dev, and what
// they are made of, in OpenAPI. hack/generate.sh writes it.
package openapi
