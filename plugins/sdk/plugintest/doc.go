// Package plugintest owns the plugin author's unit kit: scripted hosts and a
// real in-process gRPC connection around a job type, both ways.
//
//	kit := plugintest.New(t, def)
//	kit.Host("r1").On("uptime", plugintest.Reply{Stdout: "up 3 days\n"})
//	result := kit.Run(sdk.With{"run": "uptime"})
//
// The first host named is the job's own. The kit holds a job type to the contract: exactly one
// outcome, last; host calls with the lease; nothing that changes in check mode. It knows no
// job type, and nothing of the worker's real services.
package plugintest
