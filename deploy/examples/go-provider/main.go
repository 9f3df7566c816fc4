// A provider in Go: makes and removes VMs of the simulated cloud for Millwright.
package main

import (
	"log"
	"net/http"
	"os"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/worker"
)

func main() {
	installation := os.Getenv("MILLWRIGHT_INSTALLATION")
	if installation == "" {
		log.Fatal("MILLWRIGHT_INSTALLATION is empty: give the name of the installation, such as default")
	}
	secrets, err := openSecrets()
	if err != nil {
		log.Fatalf("The account for Kubernetes: %v", err)
	}
	// TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS, TEMPORAL_API_KEY and so on, as the temporal CLI reads them.
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		log.Fatalf("The configuration of Temporal: %v", err)
	}
	temporal, err := client.Dial(options)
	if err != nil {
		log.Fatalf("Temporal: %v", err)
	}
	defer temporal.Close()

	queue := installation + ".provider-go"
	w := worker.New(temporal, queue, worker.Options{
		DisableWorkflowWorker: true,
		// By default the SDK holds back heartbeats for 8 s, and cancellations with them.
		MaxHeartbeatThrottleInterval: 5 * time.Second,
	})
	provider := &Provider{secrets: secrets, client: newCloudClient()}
	serve(w, "ensureVm", provider.EnsureVM)
	serve(w, "deleteVm", provider.DeleteVM)
	serve(w, "listVms", provider.ListVMs)
	serve(w, "validateClass", provider.ValidateClass)
	serve(w, "volumeIds", provider.VolumeIDs)
	log.Printf("serving %s", queue)
	if err := w.Run(worker.InterruptCh()); err != nil {
		log.Fatalf("The worker: %v", err)
	}
}

func newCloudClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	// A redirect would send the credentials to an address that no class names.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, Timeout: requestTimeout, CheckRedirect: stay}
}
