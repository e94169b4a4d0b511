package offer

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard-dev/garboard/pkg/repository"
)

// record returns kapp's record of a repository, nil if there is none.
func (s *Store) record(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	// Nearly always it is the second: the first is that of an unusual setting, the
	// others those of old versions.
	names := repository.RecordNames(name)
	var found *corev1.ConfigMap
	for _, n := range names {
		cm := &corev1.ConfigMap{}
		err := s.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: n}, cm)
		if err == nil {
			found = cm
			break
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("Getting app: %w", err)
		}
	}
	return found, nil
}

// ensureRecord returns the value of kapp's label for the repository's objects. It
// makes the record where there is none.
func (s *Store) ensureRecord(ctx context.Context, namespace, name string, now time.Time) (string, error) {
	have, err := s.record(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	if have == nil {
		if have, err = repository.NewRecord(namespace, name, now); err == nil {
			err = s.Client.Create(ctx, have)
		}
		if err != nil {
			return "", fmt.Errorf("Creating app: %w", err)
		}
		return repository.ReadRecord(have)
	}
	label, err := repository.ReadRecord(have)
	if err != nil {
		return "", err
	}
	want, changed, err := repository.UpdateRecord(have, name)
	switch {
	case err != nil || !changed:
		return label, err
	case want.Name == have.Name:
		err = s.Client.Update(ctx, want)
	default:
		if err = s.Client.Create(ctx, want); err == nil {
			err = client.IgnoreNotFound(s.Client.Delete(ctx, have))
		}
	}
	if err != nil {
		return "", fmt.Errorf("Updating app: %w", err)
	}
	return label, nil
}

// deleteRecord removes the record and the history that kapp kept of it.
func (s *Store) deleteRecord(ctx context.Context, record *corev1.ConfigMap, label string) error {
	var changes corev1.ConfigMapList
	if label != "" {
		err := s.Live.List(ctx, &changes, client.InNamespace(record.Namespace), client.MatchingLabels(repository.Changes(record, label)))
		if err != nil {
			return fmt.Errorf("Deleting app changes: %w", err)
		}
	}
	for i := range changes.Items {
		if err := s.Client.Delete(ctx, &changes.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("Deleting app changes: %w", err)
		}
	}
	if err := s.Client.Delete(ctx, record); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("Deleting app: %w", err)
	}
	return nil
}
