// Command gen compiles plugin.proto and writes its Go code beside it. It runs in
// plugins/internal/wire (go generate does so) and needs no protoc: the compiler
// is a library, the two code generators are tools of go.mod.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const source = "plugin.proto"

func main() {
	if err := generate(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context) error {
	request, err := compile(ctx)
	if err != nil {
		return fmt.Errorf("compiling %s: %w", source, err)
	}
	for _, tool := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := runTool(ctx, tool, request); err != nil {
			return fmt.Errorf("%s: %w", tool, err)
		}
	}
	return nil
}

// compile returns the encoded request that protoc would hand to a generator.
func compile(ctx context.Context) ([]byte, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become Go comments
	}
	files, err := compiler.Compile(ctx, source)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source},
		Parameter:      new("paths=source_relative"),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(files[0])},
	})
}

func runTool(ctx context.Context, tool string, request []byte) error {
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", tool) //nolint:gosec // the two generators named below
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(stdout.Bytes(), &response); err != nil {
		return fmt.Errorf("its answer: %w", err)
	}
	if response.Error != nil {
		return fmt.Errorf("refused: %s", response.GetError())
	}
	for _, f := range response.GetFile() {
		if err := os.WriteFile(filepath.Base(f.GetName()), []byte(f.GetContent()), 0o644); err != nil { //nolint:gosec // source code is public
			return err
		}
	}
	return nil
}
