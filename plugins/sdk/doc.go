// Package sdk is for plugin authors: declare job types as typed functions, reach hosts through the
// worker, serve.
//
//	type Params struct {
//		Run string `json:"run" turnus:"required" jsonschema:"command line, given to /bin/sh"`
//	}
//
//	func main() { sdk.Serve(sdk.Job("command", run)) }
//
//	func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
//		return r.Host().Run(ctx, r.Params.Run).Err()
//	}
//
// A job type's function runs at least once per job: after a crash of its process the
// worker may call it again (see [Idempotent], [OnLost] and [Run.Checkpoint]). It
// returns nil when the host is as it should be, and otherwise an error: any error
// fails the step; [Fail] adds details to it, [Suspend] suspends it.
//
// # Parameters
//
// A params struct becomes the JSON Schema, the validation and the documentation:
//
//	json:"name"            the key under with:
//	jsonschema:"…"         its description
//	turnus:"required"      must be given
//	turnus:"default=10s"   used when absent; a JSON value, or a bare string
//	turnus:"min=1,max=10"  of a number, of a text's length in characters, of a list's length
//	turnus:"enum=a|b"      one of
//	turnus:"pattern=^/"    regular expression (RE2); takes the rest of the tag, so it comes last
//
// A text with a NUL byte is refused, and a path, whose pattern begins with ^/, with a control
// character.
//
// A params struct may have a method Validate() error, which is called after all of these. It
// reports one parameter with [ParamError], and several with [Problems].
//
// # Scope
//
// The package owns the plugin's end of the wire, the schema of parameters and
// the author's vocabulary. It must not import core or anything else of Turnus but
// the wire, and knows no job type.
package sdk
