package offer_test

import (
	"testing"

	"github.com/garboard-dev/garboard/test/workspace"
)

func TestMain(m *testing.M) { workspace.Main(m) }
