// Runs the controllers of machine-controller-manager (MCM) on the simulated cloud. The first argument says which of its two
// processes, the other ones are the flags of that process.
package main

import (
	"fmt"
	"os"

	managerapp "github.com/gardener/machine-controller-manager/cmd/machine-controller-manager/app"
	manageroptions "github.com/gardener/machine-controller-manager/cmd/machine-controller-manager/app/options"
	machineapp "github.com/gardener/machine-controller-manager/pkg/util/provider/app"
	machineoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
)

func main() {
	if len(os.Args) < 2 {
		fail("the first argument is missing: give machine-controller-manager or machine-controller")
	}
	command := os.Args[1]
	os.Args = append(os.Args[:1], os.Args[2:]...)
	if err := run(command); err != nil {
		fail(err)
	}
}

func run(command string) error {
	switch command {
	case "machine-controller-manager":
		server := manageroptions.NewMCMServer()
		server.AddFlags(pflag.CommandLine)
		parse()
		return managerapp.Run(server)
	case "machine-controller":
		server := machineoptions.NewMCServer()
		server.AddFlags(pflag.CommandLine)
		parse()
		return machineapp.Run(server, &simulatedDriver{})
	default:
		return fmt.Errorf("there is no process %q: give machine-controller-manager or machine-controller", command)
	}
}

func parse() {
	flag.InitFlags()
	logs.InitLogs()
}

func fail(reason any) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(1)
}
