// Command wiregen compiles plugin.proto of the sdk and writes its Go code: the messages beside it,
// and the runner's end of its services into plugins/host/wiregrpc (on grpc-go, which go-plugin
// needs and a plugin does not). The plugin's end, wirerpc of the sdk, is short enough to be written
// by hand.
//
// It runs in plugins (go generate does so) and needs no protoc: the compiler is a library, the code
// generators are tools of go.mod. It is outside of the sdk, so that the sdk's module does not need
// them.
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

// The folder of the wire, and the file in it that is compiled.
const (
	folder = "sdk/wire"
	source = "plugin.proto"
)

// The runner's end: its folder, and its import path.
const (
	grpcFolder  = "host/wiregrpc"
	grpcPackage = "github.com/turnus/turnus/plugins/host/wiregrpc;wiregrpc"
)

func main() {
	if err := generate(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "wiregen:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context) error {
	file, err := compile(ctx)
	if err != nil {
		return fmt.Errorf("compiling %s: %w", source, err)
	}
	for _, g := range []struct {
		tool, folder string
		files        []*descriptorpb.FileDescriptorProto
	}{
		{"protoc-gen-go", folder, []*descriptorpb.FileDescriptorProto{file}},
		{"protoc-gen-go-grpc", grpcFolder, apart(file)},
	} {
		request, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pluginpb.CodeGeneratorRequest{
			FileToGenerate: []string{source},
			Parameter:      new("paths=source_relative"),
			ProtoFile:      g.files,
		})
		if err == nil {
			err = runTool(ctx, g.tool, g.folder, request)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", g.tool, err)
		}
	}
	return nil
}

func compile(ctx context.Context) (*descriptorpb.FileDescriptorProto, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{folder}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become Go comments
	}
	files, err := compiler.Compile(ctx, source)
	if err != nil {
		return nil, err
	}
	return protodesc.ToFileDescriptorProto(files[0]), nil
}

// apart splits a file into one with its messages and one with its services, which the generator of
// grpc-go then writes into another package than that of the messages.
func apart(file *descriptorpb.FileDescriptorProto) []*descriptorpb.FileDescriptorProto {
	messages, services := proto.CloneOf(file), proto.CloneOf(file)
	messages.Name, messages.Service, messages.SourceCodeInfo = new("messages.proto"), nil, nil
	services.MessageType, services.EnumType = nil, nil
	services.Dependency = append(services.Dependency, messages.GetName())
	services.Options.GoPackage = new(grpcPackage)
	return []*descriptorpb.FileDescriptorProto{messages, services}
}

func runTool(ctx context.Context, tool, folder string, request []byte) error {
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", tool) //nolint:gosec // the generators named above
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
		path := filepath.Join(folder, filepath.FromSlash(f.GetName()))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // source code is public
			return err
		}
		if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil { //nolint:gosec // source code is public
			return err
		}
	}
	return nil
}
