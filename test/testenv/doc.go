// Package testenv gives tests and `make run` a real Kubernetes control plane,
// the servers that content is fetched from, and the two Garboard processes.
//
// A test package starts one environment and each test takes a namespace in it:
//
//	var env *testenv.Env
//
//	func TestMain(m *testing.M) { testenv.Main(m, &env, testenv.Options{}) }
//
//	func TestX(t *testing.T) { ns := env.Namespace(t); ... }
//
// All processes end with the one that started them, even when that is killed,
// and all files are below one folder that the next start sweeps.
package testenv
