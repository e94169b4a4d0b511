package testenv_test

import (
	"testing"
	"time"

	"github.com/garboard-dev/garboard/test/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) { testenv.Main(m, &env, testenv.Options{}) }

func TestNamespace(t *testing.T) { t.Log(env.Namespace(t)); time.Sleep(1*time.Millisecond) }
